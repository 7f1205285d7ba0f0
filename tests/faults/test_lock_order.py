"""All transactions lock in one order (migrations/functions/base/locks.sql): none that a client began ends in a deadlock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from handlers.dream.model import Cause
from handlers.dream.writer import NewInsight, write_insights
from handlers.lexicon import LexiconHandler
from handlers.shared.ports import Job
from memory.insights import Insight
from providers.local_embedder import LocalEmbedder
from tests.support.access.acting import ANN
from tests.support.database.schemas import connected
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember
from tests.support.waiting import IDLE, until

WAITS = "select count(*) >= $1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
LINK = """
insert into memory_associations (id, memory_id, related_memory_id, association_type, strength)
values ($1, $2, $3, 'related', 0.5)
"""
INSIGHT = """
insert into dream_insights (agent_id, insight, source_memories, category, confidence)
values ('alice', 'boats come in May', $1, 'pattern', 0.7) returning id
"""
SHARED = """
insert into dream_insights (id, agent_id, insight, source_memories, category, confidence)
values ($1, 'alice', 'boats come in May', $2, 'pattern', 0.7)
"""
BURY = """
insert into memoryd.replica_buried (source, row_id, user_id, row)
select 'memory', m.id, m.user_id, to_jsonb(m) - 'embedding' from agent_memory m where m.id = $1
"""
REPLICA = (
    "insert into memoryd.replica (daemon_id) values ('{0}') on conflict (one) do update set daemon_id = '{0}'"
)
# What a person wrote into the sections of both memories.
TAKE = """
select memoryd.take_entries(
    '{0.one}', 'memory', array_agg(e.id), array_agg(e.version), array[false, false], array['note', 'note'],
    array['', ''], array['a ship', 'a ship'], array[null, null]::bytea[], array[null, null]::bytea[], now())
from memoryd.replica_entries e
where e.source = 'memory' and e.id in ('{0.one}', '{0.other}')
"""
REWORD = "update agent_memory set content = 'a ship' where id = '{}'"
FORGET = "delete from agent_memory where id = '{}'"
ERASE = f"select erase_user_memory('{ANN}')"
HOLD = "select from {} where id = '{}' for update"


@dataclass(frozen=True)
class Remembered:
    """Two memories of Ann, linked both ways, an insight drawn from both, and a message that said the first.

    Besides, three insights drawn from the agent's own memory and from one of Ann's that a person deleted in the replica. They
    are in the table in another order than that of their ids.
    """

    one: UUID
    other: UUID
    message: UUID
    insight: UUID
    links: tuple[UUID, UUID]
    mine: UUID
    insights: tuple[UUID, UUID, UUID]

    @property
    def last(self) -> UUID:
        """The memory that is locked after the other."""
        return max(self.one, self.other)


async def remembered(connection: asyncpg.Connection) -> Remembered:
    """Written as its owner."""
    one, other = [await remember(connection, f"boats in {month}", user_id=ANN) for month in ("May", "June")]
    links = (UUID(int=1), UUID(int=2))
    await connection.execute(LINK, links[0], one, other)
    await connection.execute(LINK, links[1], other, one)
    message = await connection.fetchval(
        "insert into conversation_messages (session_id, user_id, role, content) "
        "values (gen_random_uuid(), $1, 'assistant', 'boats in May') returning id",
        ANN,
    )
    await connection.execute(
        "insert into memoryd.fact_sources (message_id, memory_id, said_at) values ($1, $2, now())",
        message,
        one,
    )
    insight = await connection.fetchval(INSIGHT, [one, other])
    mine, buried = (
        await remember(connection, "I sail"),
        await remember(connection, "boats in July", user_id=ANN),
    )
    await connection.execute(BURY, buried)
    await connection.execute(FORGET.format(buried))
    insights = (UUID(int=1), UUID(int=2), UUID(int=3))
    for shared in reversed(insights):
        await connection.execute(SHARED, shared, [buried, mine])
    await connection.execute(REPLICA.format(one))
    return Remembered(one, other, message, insight, links, mine, insights)


PAIRS = {
    "two deletions": (HOLD.format("memory_associations", "{0.links[0]}"), FORGET.format("{0.one}"), FORGET.format("{0.other}")),
    "an update and a deletion": (
        HOLD.format("dream_insights", "{0.insight}"), REWORD.format("{0.one}"), FORGET.format("{0.other}")),
    "an erasure and an update": (
        HOLD.format("memory_associations", "{0.links[0]}"), ERASE, REWORD.format("{0.one}")),
    "an erasure and a deleted message": (
        HOLD.format("agent_memory", "{0.one}"), ERASE, "delete from conversation_messages where id = '{0.message}'"),
    "an erasure and an update of what it shares insights with": (
        HOLD.format("dream_insights", "{0.insights[1]}"), ERASE, REWORD.format("{0.mine}")),
    "the replica and a deletion": (
        HOLD.format("dream_insights", "{0.insight}"), TAKE, FORGET.format("{0.last}")),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
async def test_two_statements_on_the_same_rows_wait_for_each_other_in_one_order(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    third: asyncpg.Connection,
    database_url: str,
    pair: str,
) -> None:
    """Both are held up by a third transaction where the one has begun and the other comes."""
    rows = await remembered(connection)
    held, *statements = [text.format(rows) for text in PAIRS[pair]]
    running = []
    async with connected(database_url) as holder:
        async with holder.transaction():
            await holder.execute(held)
            for client, statement in zip((second, third), statements, strict=True):
                running.append(asyncio.create_task(client.execute(statement)))
                await until(connection, WAITS, len(running))
        await asyncio.gather(*running)


async def test_a_dream_that_writes_causes_and_a_deletion_wait_for_each_other_in_one_order(
    connection: asyncpg.Connection, second: asyncpg.Connection, database: Database, database_url: str
) -> None:
    rows = await remembered(connection)
    insight = Insight("pattern", "boats come in May", 0.7, "alice", ANN, (rows.one, rows.other))
    dream = await connection.fetchval(
        "insert into dream_sessions (started_by, status) values ('idle', 'completed') returning id"
    )
    drawn = NewInsight(rows.insight, insight, None, b"")

    async def write() -> None:
        causes = [Cause(rows.one, rows.other, 0.8)]
        await write_insights(
            database, dream, [drawn], causes=causes, embeddings={}, read_at=datetime.now(UTC)
        )

    async with connected(database_url) as holder:
        async with holder.transaction():
            await holder.execute(HOLD.format("dream_insights", rows.insight))
            dreaming = asyncio.create_task(write())
            await until(connection, WAITS, 1)
            deleting = asyncio.create_task(second.execute(FORGET.format(rows.other)))
            await until(connection, WAITS, 2)
        await asyncio.gather(dreaming, deleting)


async def test_clients_that_change_memories_of_the_same_insights_meet_no_deadlock(
    connection: asyncpg.Connection, database_url: str
) -> None:
    ids = [await remember(connection, f"memory {n}") for n in range(4)]
    for n in range(40):
        await connection.execute(INSIGHT, [ids[n % 4], ids[(n + 1) % 4]])

    async def edit(memory: UUID) -> None:
        async with connected(database_url) as client:
            for n in range(25):
                await client.execute(
                    "update agent_memory set content = $2 where id = $1", memory, f"text {n}"
                )

    await asyncio.gather(*(edit(memory) for memory in ids))


async def test_an_erasure_and_the_lexicons_worker_lock_words_in_one_order(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    third: asyncpg.Connection,
    database: Database,
    daemons: Daemons,
) -> None:
    """Also where the worker drops a word without meaning, and names others that sort before it."""
    daemon = await daemons.start()
    await remember(connection, "apricot zqxvbn", user_id=ANN)
    await until(connection, IDLE)
    await daemon.stop()
    await connection.execute("insert into memoryd.lexicon (lexeme, word) values ('zqxvbn', 'zqxvbn')")
    await connection.execute("update memoryd.lexicon set embedding = null where lexeme = 'apricot'")
    job = Job(1, "lexicon", "words", None, None, 1, 0, await connection.fetchval("select now()"))
    commit = await LexiconHandler(reader=database, embedder=LocalEmbedder()).prepare([job])

    async def work() -> None:
        async with database.transaction() as transaction:
            await commit(transaction, [job])

    async with third.transaction():
        await third.execute("select from memoryd.lexicon where lexeme = 'apricot' for update")
        erasing = asyncio.create_task(second.execute(ERASE))
        await until(connection, WAITS, 1)
        working = asyncio.create_task(work())
        await until(connection, WAITS, 2)
    await asyncio.gather(erasing, working)
    assert await connection.fetchval("select count(*) from memoryd.lexicon") == 0
