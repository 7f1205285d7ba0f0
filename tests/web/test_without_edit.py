"""`memoryd web` without --edit: no page that there is, or will be, changes a row or has a button for it."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import pytest

from plugins.web.app import PAGES
from tests.support.content.hostile import id_of
from tests.support.services.every_page import address, addresses
from tests.support.services.web_pages import served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONLY_LOOK = (
    "/audit",
    "/now/doctor",
    "/trail/verify",
    f"/trail/{id_of('anchor')}",
    "/ask/memories",
    "/names/user",
)
"""What is sent there begins a look at what is stored, or leads to one."""
PARTS = {"rule": "duplicates", "page": "memories", "field": "user"}
# Whatever a form of a page asks for.
FORM = {
    "do": "forget", "version": "x", "all": "yes", "kind": "memory", "id": str(id_of("memory")), "finding-0": "yes",
    "asked": "q=img&agent=x", "side": "", "content": "x", "title": "x",
}  # fmt: skip
BUTTONS = re.compile(r'<form[^>]*method="post"[^>]*action="([^"]*)"(?:(?!</form>).)*<button', re.DOTALL)
# What people see, and what is theirs to repeat. Not the audit trail, which has who looked.
TABLES = """
select c.oid::regclass::text from pg_class c
where c.relkind = 'r' and (c.relnamespace = 'public'::regnamespace or c.oid = 'memoryd.dead_letters'::regclass)
  and c.relname <> 'agent_execution_logs'
order by 1
"""


async def rows_of(connection: asyncpg.Connection) -> dict[str, str]:
    """Every row of every table, as a short text for each table."""
    sql = "select md5(string_agg(t::text, ' ' order by t::text)) from {} t"
    return {row[0]: await connection.fetchval(sql.format(row[0])) for row in await connection.fetch(TABLES)}


async def test_no_page_without_edit_changes_anything(few_url: str, tmp_path: Path) -> None:
    sent = [
        re.sub(r"\{([a-z]+).*?\}", lambda part: PARTS[part[1]], address(route) or route.path)
        for page in PAGES
        for route in page
        if not {"GET", "HEAD"} >= (route.methods or set())
    ]
    assert set(ONLY_LOOK) < set(sent)
    assert [path for path in sent if "{" in path] == []
    connection = await asyncpg.connect(few_url)
    try:
        await connection.execute(
            "insert into memoryd.dead_letters (id, topic, attempts, error, created_at) values (-1, 'index', 9, 'x', now())"
        )
        before = await rows_of(connection)
        async with served(few_url, tmp_path) as reader:
            for path in sent:
                answer = await reader.send(path, FORM, on="/audit")
                refused = answer.status_code == 400 and "--edit" in text_of(answer.text)
                assert refused is (path not in ONLY_LOOK), (path, answer.status_code)
            for path in addresses():
                page = (await reader.http.get(path)).text.partition("<main")[2].partition("</main>")[0]
                changes = [to for to in BUTTONS.findall(page) if not to.startswith("/ask/")]
                assert set(changes) <= set(ONLY_LOOK), path
        assert await rows_of(connection) == before
        assert all(before[table] for table in ("agent_memory", "documents", "memoryd.dead_letters"))
    finally:
        await connection.close()
