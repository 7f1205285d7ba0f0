"""The pages of memories, tasks and users read no big table from end to end: for support, or for an end user.

By what was done, not by plans alone: so it holds for the policies that their queries meet, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.database.big_tables import BIG, SEED
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied, make_once
from tests.support.services.every_page import ROWS, routes
from tests.support.services.web_pages import served
from tests.support.waiting import until

# A user with many memories, of which each has replaced another.
CHAIN = """
insert into agent_memory (agent_id, user_id, content, kind, metadata, created_at)
select 'agent 7', md5('u1')::uuid, 'drove to town ' || n, 'note', '{"tags": ["red"]}', now() - make_interval(mins => n)
from generate_series(1, 2000) n;
update agent_memory m set superseded_by = later.after, valid_to = now()
from (select id, lag(id) over (order by created_at desc) as after from agent_memory where user_id = md5('u1')::uuid) later
where m.id = later.id and later.after is not null;
analyze;
"""
TABLES = {
    "memory": "agent_memory", "session": "conversation_sessions", "document": "documents", "knowledge": "shared_knowledge",
    "dream": "dream_sessions", "insight": "dream_insights", "anchor": "memory_anchors", "command": "agent_commands",
}  # fmt: skip
FILTERS = {
    "/memories": (
        "agent=agent+7",
        "user={user}",
        "ended=yes",
        "since=2026-01-01",
        "until=2030-01-01",
        "as_of=2030-01-01",
        "kind=goal",
        "tag=nowhere",
        "source=nowhere",
    ),
    "/tasks": ("agent=agent+7", "user={user}", "status=failed", "since=2026-01-01", "memory={memory}"),
    "/users": (),
    "/recall": (),
    "/graph": (),
    "/context": ("agent=agent+7&message=how+does+Falkenhorst+restart+server+7+after+a+deploy",),
}
REPLACED = "select id from agent_memory where user_id = $1::text::uuid and superseded_by is not null limit 1"
ENDED = """
select count(*) = 0 from pg_stat_activity where application_name = 'memoryd web' and datname = current_database()
"""
SCANS = "select relname, seq_scan from pg_stat_user_tables where relname = any($1)"


@pytest.fixture(scope="module")
async def url(server: Server, template: str) -> AsyncIterator[str]:
    source = f"{template}_seeded"
    await make_once(server, source, lambda opened: opened.execute(SEED), source=template)
    async with copied(server, source) as made:
        async with connected(made) as opened:
            await opened.execute(CHAIN)
        yield made


@pytest.mark.parametrize("as_user", [False, True])
async def test_a_page_reads_no_big_table_whole(url: str, tmp_path: Path, as_user: bool) -> None:
    # A session tells what it did when it ends: so each of these is another one.
    async with connected(url) as opened:
        known = {
            what: str(await opened.fetchval(f"select id from {table} limit 1"))
            for what, table in TABLES.items()
        }
        known["user"] = str(await opened.fetchval("select md5('u1')::uuid"))
        known["memory"] = str(await opened.fetchval(REPLACED, known["user"]))
    before = await scans(url)
    options = ("--as-user", known["user"]) if as_user else ()
    async with served(url, tmp_path, *options) as reader:
        for path in paths(known):
            answer = await reader.http.get(path, follow_redirects=True)
            assert answer.status_code in (200, 404), path
        for field, part in (("user", "ann"), ("agent", "7")):
            assert (await reader.send(f"/names/{field}", {field: part}, on="/words")).status_code == 200
    async with connected(url) as opened:
        await until(opened, ENDED)
    after = await scans(url)
    assert {table for table in before if after[table] > before[table]} == set()


async def scans(url: str) -> dict[str, int]:
    """How often each big table was read from end to end."""
    async with connected(url) as opened:
        return {row["relname"]: row["seq_scan"] for row in await opened.fetch(SCANS, list(BIG))}


def paths(known: dict[str, str]) -> list[str]:
    found = []
    for route in routes():
        if not route.path.startswith(tuple(FILTERS)):
            continue
        before, brace, after = route.path.partition("{")
        if brace:
            row = known[ROWS[before.strip("/").rpartition("/")[2]]]
            found.append(before + row + after.partition("}")[2])
        else:
            found.append(route.path)
        found += [f"{route.path}?{asked.format(**known)}" for asked in FILTERS.get(route.path, ())]
    return found
