"""Memory is read where nothing can be written: in a read-only transaction, and on a standby.

What would be logged in a table is left out there (memory_queries), or is a line in the server's log (the audit trail): see
tests/security/test_audit_trail.py. Support, whose reads are on record before they happen, reads nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.refusals import refused
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import apply, connected
from tests.support.database.server_log import server_log
from tests.support.database.servers import Server
from tests.support.database.standby import Pair, caught_up, pair
from tests.support.processes.commands import memoryd
from tests.support.rows import associate, insert, remember, say

SESSION = UUID(int=0x5E55)
VECTOR = """(
    select e.embedding::vector from memoryd.entries e
    join agent_memory m on m.id = e.id where m.content = 'the wombat of ann')"""
READS = {
    "recall": "select id from recall('wombat', null, null, {vector})",
    "recall by words": "select id from recall('wombat')",
    "recall with a filter": "select id from recall('wombat', match_count => 3, filter => '{{\"kind\": \"fact\"}}')",
    "explain_recall": "select id from explain_recall('when did the wombat sleep?', 'alice')",
    "match_memory": "select id from match_memory({vector}, -1, 5, null, '{ann}')",
    "load_context": "select content from load_context('{session}')",
    "build_context": "select build_context('alice', 'wake the wombat')",
    "export": "select export_user_memory('{ann}')",
    "plain select": "select id from agent_memory where content like '%wombat%'",
}
AGENTS = {"search_shared_knowledge": "select id from search_shared_knowledge({vector}, -1)"}
"""What only agents may call."""
WRITTEN = "select (select count(*) from agent_execution_logs) + (select count(*) from memory_queries)"


@pytest.fixture(scope="module")
def servers(server: Server) -> Iterator[Pair]:
    """A server with its standby."""
    with pair(server.programs) as made:
        yield made


@pytest.fixture(scope="module")
async def world(servers: Pair) -> dict[str, str]:
    """Rows of all sources on the primary, which the standby shows too; what the reads name."""
    await apply(servers.primary.socket_url)
    async with (
        connected(servers.primary.socket_url) as primary,
        connected(servers.standby.socket_url) as standby,
    ):
        await one_of_each(primary, "the wombat of the team")
        for user, name in ((ANN, "ann"), (BOB, "bob")):
            one = await remember(primary, f"the wombat of {name}", user_id=user, kind="fact")
            other = await remember(primary, f"the sleep of {name}", user_id=user, kind="fact")
            await associate(primary, one, other, 0.9)
        await insert(primary, "conversation_sessions", {"id": SESSION, "user_id": ANN})
        await say(primary, SESSION, "the wombat said it", user_id=ANN, speaker="Ann")
        await index_world(primary)
        # The statistics, too.
        vector = await primary.fetchval(f"select {VECTOR}::text")
        await caught_up(primary, standby)
    return {"vector": f"'{vector}'::vector", "ann": str(ANN), "session": str(SESSION)}


@asynccontextmanager
async def by_transaction(servers: Pair) -> AsyncIterator[asyncpg.Connection]:
    """`begin read only`, as a client writes it."""
    async with connected(servers.primary.socket_url) as connection, connection.transaction(readonly=True):
        yield connection


@asynccontextmanager
async def by_default(servers: Pair) -> AsyncIterator[asyncpg.Connection]:
    """A session in which every transaction is read-only, unless it says otherwise."""
    async with connected(servers.primary.socket_url) as connection:
        await connection.execute("set default_transaction_read_only = on")
        yield connection


@asynccontextmanager
async def on_standby(servers: Pair) -> AsyncIterator[asyncpg.Connection]:
    """A server that takes no writes."""
    async with connected(servers.standby.socket_url) as connection:
        assert await connection.fetchval("select pg_is_in_recovery()")
        yield connection


Way = Callable[[Pair], AbstractAsyncContextManager[asyncpg.Connection]]
WAYS: Sequence[Way] = (by_transaction, by_default, on_standby)


def without_code(rows: list[asyncpg.Record]) -> list[str]:
    """The rows as texts, sorted; without the code of a context, and the times of an export, which each call has its own."""
    return sorted(
        re.sub(r"CONTEXT [0-9a-f]{12}|code [0-9a-f]{12}|\"exported_at\": \"[^\"]+\"", "", str(tuple(row)))
        for row in rows
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", ["none", "memoryd_service", "memoryd_user"])
async def test_every_read_answers_as_elsewhere(
    servers: Pair, world: dict[str, str], way: Way, role: str
) -> None:
    reads = READS | ({} if role == "memoryd_user" else AGENTS)
    async with connected(servers.primary.socket_url) as primary, way(servers) as reader:
        written = await primary.fetchval(WRITTEN)
        for name, read in reads.items():
            sql = read.format(**world)
            async with acting_as(reader, ANN, role=role):
                answered = await reader.fetch(sql)
            transaction = primary.transaction()
            await transaction.start()
            async with acting_as(primary, ANN, role=role):
                expected = await primary.fetch(sql)
            await transaction.rollback()
            assert without_code(answered) == without_code(expected), name
            assert "wombat" in str(answered) or "UUID" in str(answered), name
        assert await primary.fetchval(WRITTEN) == written


@pytest.mark.parametrize("way", WAYS)
async def test_a_read_is_a_line_in_the_servers_log(servers: Pair, world: dict[str, str], way: Way) -> None:
    async with way(servers) as reader:
        log = await server_log(reader, reader)
        async with acting_as(reader, ANN):
            assert await reader.fetch(READS["recall by words"])
        (line,) = log.audit_lines(reader.get_server_pid())
    assert f'"user": "{world["ann"]}"' in line


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("read", ["recall by words", "explain_recall", "plain select", "load_context"])
async def test_support_reads_nothing_where_it_cannot_be_put_on_record(
    servers: Pair, world: dict[str, str], way: Way, read: str
) -> None:
    async with way(servers) as reader, acting_as(reader, None, role="memoryd_admin"):
        state, said, hint = await refused(reader, READS[read].format(**world))
    assert state == "25006"
    assert said == "reads of memoryd_admin are logged, and this transaction is read-only"
    assert hint == "Begin a transaction that may write; on a standby there is none."


async def test_what_is_written_now_is_found_on_the_standby(servers: Pair, world: dict[str, str]) -> None:
    """By its words, before it is indexed."""
    assert world
    async with (
        connected(servers.primary.socket_url) as primary,
        connected(servers.standby.socket_url) as standby,
    ):
        made = await remember(primary, "a platypus came by", user_id=ANN)
        await caught_up(primary, standby)
        async with acting_as(standby, ANN):
            assert [r["id"] for r in await standby.fetch("select id from recall('platypus')")] == [made]


async def test_memoryd_recall_and_memoryd_context_answer_from_a_standby(
    servers: Pair, world: dict[str, str], tmp_path: Path
) -> None:
    assert world
    url = servers.standby.socket_url
    found, block = await asyncio.gather(
        memoryd("recall", "wombat", "--json", url=url, folder=tmp_path),
        memoryd("context", "alice", "the wombat of the team?", url=url, folder=tmp_path),
    )
    assert (found.code, found.sentences, block.code, block.sentences) == (0, [], 0, [])
    assert len(found.json) >= 3
    assert "wombat" in block.out
