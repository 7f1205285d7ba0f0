"""The list of all conversations reads about as much as it shows, also beside a conversation of 100,000 messages."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from plugins.web.lists import Conditions
from plugins.web.pages import conversations
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.services.web_pages import served

pytestmark = pytest.mark.asyncio(loop_scope="module")

# A conversation of 100,000 messages, with an odd word in its first one; before it 3,000 others, the one with the highest number
# last, but for one that goes on after it; and one in which nothing was said. They were stored later than they were held.
TALKS = """
insert into conversation_sessions (id, title, agent_id)
select md5('s' || n)::uuid, 'talk ' || n, 'agent ' || n % 5 from generate_series(1, 3000) n;
insert into conversation_messages (session_id, message_index, role, content, created_at)
select md5('s' || 1 + n / 20)::uuid, n % 20, 'user', 'they talked about server ' || n,
       '2026-01-01Z'::timestamptz + make_interval(mins => n)
from generate_series(0, 59999) n;
insert into conversation_sessions (id, title, agent_id) values (md5('long')::uuid, 'talk long', 'agent 1');
insert into conversation_messages (session_id, message_index, role, content, created_at)
select md5('long')::uuid, n, 'user', case n when 0 then 'Zwieback, they said' else 'they went on about it ' || n end,
       '2026-03-01Z'::timestamptz + make_interval(secs => n)
from generate_series(0, 99999) n;
insert into conversation_sessions (id, title, created_at)
values (md5('quiet')::uuid, 'talk quiet', now() + interval '1 minute');
insert into conversation_messages (session_id, message_index, role, content, created_at)
select md5('s2950')::uuid, 100, 'user', 'and so, again', '2026-03-03Z';
"""
BEFORE = (datetime(2026, 2, 1, tzinfo=UTC), UUID(int=0))
TITLE = re.compile(r"<a href=\"/conversations/[0-9a-f-]{36}\">talk (\w+)</a>")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(server: Server, template: str) -> AsyncIterator[str]:
    async with copied(server, template) as made:
        async with connected(server.admin_url_of(urlsplit(made).path[1:])) as admin:
            # So many rows at once: only a superuser turns off triggers for a session alone.
            await admin.execute("set session_replication_role = replica")
            await admin.execute(TALKS)
            await admin.execute("vacuum analyze conversation_sessions, conversation_messages")
        yield made


async def blocks(connection: asyncpg.Connection, sql: str, arguments: list[object]) -> int:
    """Blocks of 8 kB that a query reads."""
    explained = await connection.fetchval(f"explain (analyze, buffers, format json) {sql}", *arguments)
    [plan] = json.loads(explained)
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("words", [None, "went about", "talked 50000"])
@pytest.mark.parametrize("further", [False, True])
async def test_a_page_of_conversations_reads_few_blocks(url: str, words: str | None, further: bool) -> None:
    for agent in (None, "agent 1", "agent 3"):
        filters = Conditions()
        listed = conversations.said_last(filters, None, words, further=further)
        filters.scan_for(conversations.OF_SESSION.format("s.agent_id = {}"), agent)
        async with connected(url) as db:
            # As many messages as a list looks through have 400 blocks; it was 86,000.
            assert await blocks(db, listed.count_sql(filters), filters.values) < 150
            if further:
                filters.where("(r.created_at, r.id) < ({}::timestamptz, {}::uuid)", *BEFORE)
            assert await blocks(db, listed.page_sql(filters), filters.values) < 1500, agent


async def test_pages_show_each_conversation_once_where_it_was_spoken_in_last(
    url: str, tmp_path: Path
) -> None:
    async with served(url, tmp_path) as reader:
        found: list[str] = []
        path = "/conversations"
        assert re.search(r"≥ 2\s000 in all", await reader.get(path)), "of the sessions"
        for _ in range(9):  # five of them are of the long one alone
            page = await reader.get(path)
            found += TITLE.findall(page)
            further = re.search(r'rel="next" href="([^"]+)"', page)
            assert further is not None
            path = urljoin(path, html.unescape(further[1]))
        expected = ["quiet", "2950", "long", *(str(n) for n in range(3000, 2700, -1) if n != 2950)]
        assert len(found) > 150
        assert found == expected[: len(found)]


async def test_a_word_of_a_long_conversation_is_found_once_further_back(url: str, tmp_path: Path) -> None:
    async with served(url, tmp_path) as reader:
        path, found = "/conversations?words=zwieback", []
        for _ in range(6):
            page = await reader.get(path)
            found += TITLE.findall(page)
            further = re.search(r'rel="next" href="([^"]+)">Look further back', page)
            if further is None:
                break
            path = urljoin(path, html.unescape(further[1]))
        assert found == ["long"]
