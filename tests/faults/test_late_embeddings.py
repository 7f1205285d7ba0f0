"""Of two memories the one that is indexed last may be the earlier one: they are linked all the same, by whichever daemon."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg

from tests.support.access.acting import ANN, BOB
from tests.support.database.schemas import EMBEDDER, connected
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, embedding, remember
from tests.support.services.openai_server import HANG
from tests.support.services.remote import Remote
from tests.support.waiting import IDLE, until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LOCK = "select from agent_memory where id = any($1) for no key update"
DONE = "select not exists (select from memoryd.jobs where topic in ('index', 'associate') and ref <> all($1))"
"""All memories but these are linked."""
LINKED = "select related_memory_id from memory_associations where memory_id = $1 order by strength desc"
INSERT = "insert into agent_memory (agent_id, content, created_at) values ('alice', $1, $2)"
APART = """
select a.content from agent_memory a join agent_memory b on b.content = a.content and a.created_at < b.created_at
where not exists (select from memory_associations l where l.memory_id = b.id and l.related_memory_id = a.id)
"""
"""The pairs that are not linked."""
PAIRS = 40


async def near(
    connection: asyncpg.Connection, place: int, agent: str, user: UUID | None, hours: float
) -> UUID:
    """A memory that is near to those of the same place, and shares no word with any."""
    return await remember(
        connection,
        f"word{place}at{int(hours)}of{agent}",
        agent_id=agent,
        user_id=user,
        created_at=NOON + timedelta(hours=hours),
        embedding=embedding(*[0.0] * place, 1.0),
    )


async def linked(connection: asyncpg.Connection, memories: Sequence[UUID]) -> list[Sequence[object]]:
    """What each of these is linked to."""
    return [await column(connection, LINKED, memory) for memory in memories]


async def test_those_who_see_a_memory_that_is_indexed_last_are_linked_to_it(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    late = [
        await near(connection, 0, "alice", ANN, 0),
        await near(connection, 1, "alice", None, 0),
        await near(connection, 2, "_shared", ANN, 0),
        await near(connection, 3, "_shared", None, 0),
        await near(connection, 4, "alice", None, 0),
    ]
    async with second.transaction():
        # What is locked is not indexed.
        await second.execute(LOCK, late)
        await daemons.start()
        # Those of one hour would be linked for that alone.
        seeing = [
            await near(connection, 0, "alice", ANN, 1000),
            await near(connection, 1, "alice", BOB, 1010),
            await near(connection, 2, "carol", ANN, 1020),
            await near(connection, 3, "carol", BOB, 1030),
            await near(connection, 4, "alice", None, 1040),
        ]
        strangers = [
            await near(connection, 0, "alice", BOB, 1050),
            await near(connection, 0, "carol", ANN, 1060),
            await near(connection, 1, "carol", None, 1070),
            await near(connection, 2, "carol", BOB, 1080),
        ]
        await until(connection, DONE, late)
        assert await linked(connection, seeing) == [[]] * 5
    await until(connection, IDLE)
    assert await linked(connection, seeing) == [[memory] for memory in late]
    assert await linked(connection, strangers) == [[]] * 4


async def test_a_memory_that_is_committed_last_is_linked_to_by_its_words(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    async with second.transaction():
        first = await remember(
            second, "red boats sail north", created_at=NOON - timedelta(days=2), embedding=embedding()
        )
        later = await remember(
            connection, "red boats sail south", created_at=NOON - timedelta(days=1), embedding=embedding()
        )
        await until(connection, DONE, [])
        assert await linked(connection, [later]) == [[]]
    await until(connection, IDLE)
    assert await linked(connection, [later]) == [[first]]


async def test_a_late_memory_takes_the_place_of_the_weakest_of_five(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]

    async def say(own: asyncpg.Connection, count: int, day: int) -> UUID:
        at = NOON + timedelta(days=day)
        return await remember(own, " ".join(words[:count]), created_at=at, embedding=embedding())

    await daemons.start()
    earlier = [await say(connection, count, count) for count in range(2, 7)]
    async with second.transaction():
        # One would be the strongest of all, the other is weaker than those that are there.
        strong, weak = await say(second, 7, 7), await say(second, 1, 1)
        memory = await say(connection, 8, 100)
        await until(connection, DONE, [])
        assert await linked(connection, [memory]) == [earlier[::-1]]
    await until(connection, IDLE)
    assert await linked(connection, [memory]) == [[strong, *earlier[:0:-1]]]
    assert weak not in await column(connection, LINKED, memory)


async def test_two_daemons_link_all_pairs_that_are_written_at_one_moment(remote: Remote) -> None:
    """One text waits for its embedding until all others are linked."""
    connection = remote.connection
    for _ in range(2):
        await remote.daemons.start(**remote.settings, poll_seconds=0.3)
    # So far apart that a pair is near by its meaning alone: thirty others lie between.
    rows = [(f"word{n % PAIRS}", NOON + timedelta(hours=10 * n)) for n in range(2 * PAIRS)]
    remote.server.script(HANG)
    await connection.execute(INSERT, *rows[0])
    assert await asyncio.to_thread(remote.server.hanging.wait, 60.0)
    late = await connection.fetchval("select id from agent_memory")
    rest = random.Random(1).sample(rows[1:], 2 * PAIRS - 1)

    async def write(part: int) -> None:
        async with connected(remote.url) as own:
            for row in rest[part::8]:
                await own.execute(INSERT, *row)

    await asyncio.gather(*(write(part) for part in range(8)))
    await until(connection, DONE, [late])
    remote.server.heal()
    await until(connection, IDLE)
    assert await column(connection, APART) == []
    assert await connection.fetchval("select count(*) from agent_memory") == 2 * PAIRS
    most = "select max(n) from (select count(*) as n from memory_associations group by memory_id) c"
    assert await connection.fetchval(most) <= 5


async def test_memories_that_another_model_embeds_first_are_linked(remote: Remote, tmp_path: Path) -> None:
    """Their embedder is down, and the database is changed to another."""
    connection = remote.connection
    remote.server.stop()
    daemon = await remote.daemons.start(**remote.settings)
    for hours in (0, 1000):
        await remember(connection, "one thing", created_at=NOON + timedelta(hours=hours))
        await connection.execute(
            "insert into agent_memory (agent_id, content, created_at) "
            "select 'alice', 'word' || n, $1::timestamptz + make_interval(hours => 10 * n) from generate_series(1, 40) n",
            NOON + timedelta(hours=hours),
        )
    await until(connection, "select count(*) = 82 from memoryd.entries where code is null")
    await daemon.stop()
    done = await Commands(remote.url, tmp_path)("reembed", EMBEDDER)
    assert done.code == 0, done.err
    await remote.daemons.start()
    await until(connection, IDLE)
    assert await column(connection, APART) == []
