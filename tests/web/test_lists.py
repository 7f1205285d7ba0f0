"""Lists that look for what no index has: a page looks through so many rows, says so, and leads to those before them."""

from __future__ import annotations

import html
import re
import uuid
from urllib.parse import urljoin, urlsplit

import pytest

from plugins.web import lists
from plugins.web.render import number
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.services.web_pages import Reader, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

# $1 rows, of which the oldest is another one; triggers rest meanwhile.
ROWS = """
insert into agent_memory (agent_id, content, ttl_hours, kind, created_at)
select 'alice', 'row ' || n, null, case when n = $1::integer then 'goal' else 'note' end, now() - make_interval(mins => n)
from generate_series(1, $1::integer) n
"""
BEGINNING = "2000-01-01T00:00:00Z,00000000-0000-0000-0000-000000000000"
NEXT = re.compile(r'rel="next" href="([^"]+)"')


async def test_a_page_ends_after_so_many_rows_and_says_so(pages: Reader, server: Server, url: str) -> None:
    path, looked_at = "/memories?kind=goal", lists.SCANNED
    async with connected(server.admin_url_of(urlsplit(url).path[1:])) as admin:
        # So many rows at once: only a superuser turns off triggers and foreign keys for a session alone.
        await admin.execute("set session_replication_role = replica")
        await admin.execute(ROWS, looked_at + 1)
    assert f"≥ {text_of(number(lists.COUNTED))} in all" in await pages.read("/memories")
    first = await pages.get(path)
    assert (
        f"0 of the {text_of(number(looked_at))} rows that were looked through fit; there are older ones."
        in text_of(first)
    )
    assert "that fits" not in text_of(first)
    further = NEXT.search(first)
    assert further is not None
    second = await pages.get(urljoin(path, html.unescape(further[1])))
    assert f"row {looked_at + 1}" in text_of(second)
    assert "looked through" not in text_of(second)
    assert NEXT.search(second) is None


async def test_users_before_so_many_rows_are_found_further_back(pages: Reader, url: str) -> None:
    old, older, both = (uuid.UUID(int=n) for n in (1, 2, 3))
    async with connected(url) as db:
        await db.execute(
            "insert into agent_memory (agent_id, user_id, content, created_at) values "
            "('alice', $1, 'old', '2001-01-01Z'), ('alice', $2, 'old', '2001-01-01Z'), ('alice', $3, 'old', '2001-01-01Z'), "
            "('alice', $3, 'new', now())",
            old,
            older,
            both,
        )
    first = await pages.get("/users")
    assert str(both) in first
    assert str(old) not in first
    further = NEXT.search(first)
    assert further is not None
    second = await pages.get(urljoin("/users", html.unescape(further[1])))
    assert re.findall(r'href="/users/([0-9a-f-]{36})"', second) == [str(older), str(old)]
    assert NEXT.search(second) is None


async def test_a_page_that_looked_through_all_rows_says_that_nothing_fits(pages: Reader) -> None:
    said = await pages.read(f"/memories?tag=nowhere&before={BEGINNING}")
    assert "that fits" in said
    assert "looked through" not in said


async def test_a_list_says_how_many_there_are(pages: Reader, url: str) -> None:
    async with connected(url) as db:
        await db.execute(
            "insert into agent_memory (agent_id, content, kind) "
            "select 'counter', 'row ' || n, 'note' from generate_series(1, 60) n"
        )
    first = await pages.get("/memories?agent=counter")
    assert "60 in all" in text_of(first)
    further = NEXT.search(first)
    assert further is not None
    assert "60 in all" in await pages.read(urljoin("/memories", html.unescape(further[1])))
    assert "in all" not in await pages.read("/memories?agent=counter&kind=goal")
