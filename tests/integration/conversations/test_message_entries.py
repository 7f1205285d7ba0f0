"""The window that a message is indexed with equals one computed from scratch, whatever happened around it before."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import numpy as np
import pytest
from handlers.indexing.messages import LOCK

from providers.local_embedder import LocalEmbedder
from tests.support.acting import ANN, BOB
from tests.support.daemons import Daemons
from tests.support.rows import column
from tests.support.statistics import miscounted
from tests.support.waiting import IDLE, until

STALE = """
select m.content
from conversation_messages m
left join memoryd.weigh_messages(array(select id from conversation_messages)) w using (id)
where m.lexemes is distinct from w.lexemes or m.says_when is distinct from w.says_when
   or coalesce(abs(m.prior - w.prior), 1) > 0.001 or coalesce(m.sparse_embedding <-> w.weights, 1) > 0.001
"""
WINDOWS = """
select w.id, n.content, w.weight, m.embedding::text as embedding
from memoryd.windows(array(select id from conversation_messages)) w
join conversation_messages n on n.id = w.neighbour
join conversation_messages m on m.id = w.id
"""
ANY = "(select id from conversation_messages order by md5(id::text || $1::text) limit 1)"
HAPPENINGS = (
    (
        "insert into conversation_messages (session_id, role, content, speaker) select s.id, 'user', $2, 'Ann' "
        "from conversation_sessions s order by md5(s.id::text || $1::text) limit 1"
    ),
    (
        "insert into conversation_messages (session_id, role, content, message_index) "
        "select m.session_id, 'user', $2, m.message_index + 1 "
        f"from conversation_messages m where m.id = {ANY} on conflict do nothing"
    ),
    f"update conversation_messages set content = $2 where id = {ANY}",
    f"update conversation_messages set speaker = $2 where id = {ANY}",
    f"update conversation_messages set created_at = created_at - interval '40 days' where id = {ANY} and $2 <> ''",
    # Behind all others: beside an earlier one that was moved there may be no place.
    (
        "update conversation_messages set message_index = "
        f"(select max(message_index) + 1000 from conversation_messages) where id = {ANY} and $2 <> ''"
    ),
    (
        "update conversation_messages m set session_id = "
        "(select id from conversation_sessions order by md5(id::text || $2) limit 1), "
        f"message_index = 5000 + length($2) * 100 + m.message_index where id = {ANY}"
    ),
    f"delete from conversation_messages where id = {ANY} and $2 <> ''",
    (
        "insert into conversation_messages (session_id, role, content) "
        "select s.id, 'assistant', $2 || ' ' || n || $1::text from conversation_sessions s, generate_series(1, 3) n"
    ),
)


async def happen(connection: asyncpg.Connection, dice: random.Random, times: int) -> None:
    """So many things, one after the other."""
    for _ in range(times):
        words = " ".join(
            dice.choices(("red", "fish", "blue", "tomorrow", "in May", "boats", "?"), k=dice.randint(1, 5))
        )
        try:
            await connection.execute(dice.choice(HAPPENINGS), str(dice.random()), f"on {words}")
        except (asyncpg.UniqueViolationError, asyncpg.CheckViolationError):
            continue


async def check_windows(connection: asyncpg.Connection) -> None:
    """Once nothing is left to do, every message is indexed as it would be now."""
    await until(connection, IDLE)
    assert await column(connection, STALE) == []
    assert await far_from_window(connection) == []
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0


async def talks(connection: asyncpg.Connection) -> None:
    """Three conversations."""
    await connection.execute("insert into conversation_sessions (title) values ('one'), ('two'), ('three')")
    await connection.execute(
        "insert into conversation_messages (session_id, role, content) "
        "select s.id, 'user', s.title || ' fish ' || n from conversation_sessions s, generate_series(1, 8) n"
    )


@pytest.mark.usefixtures("daemon")
async def test_every_change_of_a_message_reindexes_the_windows_around_it(
    connection: asyncpg.Connection,
) -> None:
    await talks(connection)
    await check_windows(connection)
    for number in range(18):
        await connection.execute(HAPPENINGS[number % len(HAPPENINGS)], str(number), f"boats {number}")
        await check_windows(connection)


@pytest.mark.parametrize("seed", range(2))
async def test_concurrent_writers_leave_every_message_indexed_with_its_window(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, seed: int
) -> None:
    """While two daemons index, two writers write; in the end each window is as if it had been indexed last."""
    await asyncio.gather(daemons.start(poll_seconds=0.2), daemons.start(poll_seconds=0.2))
    await talks(connection)
    for round_ in range(3):
        dice = [random.Random(seed * 100 + round_ * 10 + n) for n in range(2)]
        await asyncio.gather(happen(connection, dice[0], 12), happen(second, dice[1], 12))
        await check_windows(connection)
    assert await connection.fetchval("select count(*) from conversation_messages") > 10
    assert await miscounted(connection) == []


SAY = "insert into conversation_messages (session_id, role, content, message_index) values ($1, 'user', $2, $3) returning id"
SAY_AS = "insert into conversation_messages (session_id, user_id, role, content) values ($1, $2, 'user', $3) returning id"
HALT = """
create function halt() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(42); return new; end $$;
create trigger halt before update on conversation_messages for each row when (old.lexemes is null and new.message_index = 0)
    execute function halt()
"""
WAITING = """
select count(*) >= $1 from pg_stat_activity
where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
"""


async def test_a_message_inserted_while_another_is_indexed_is_in_its_window(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """The first one's index is half written when the second one comes, and not yet when that one is looked at."""
    session = uuid4()
    await connection.execute(SAY, session, "boats in May", 0)
    await connection.execute(HALT)
    async with second.transaction():
        await second.execute("select pg_advisory_xact_lock(42)")
        await daemons.start(poll_seconds=0.2)
        await until(connection, WAITING, 1)
        await connection.execute(SAY, session, "red fish", 1)
        await until(connection, WAITING, 2)
    await check_windows(connection)


@pytest.mark.parametrize(
    "gone",
    [
        "delete from conversation_messages where id = $1",
        "update conversation_messages set message_index = 99 where id = $1",
    ],
)
@pytest.mark.parametrize("others", [(), (0,), (0, 9)])
async def test_a_message_deleted_while_another_is_indexed_is_in_no_window(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    daemons: Daemons,
    gone: str,
    others: tuple[int, ...],
) -> None:
    """Those that come before it has gone are indexed with it, and then without it."""
    await daemons.start(poll_seconds=0.2)
    session = uuid4()
    for place in others:
        await connection.execute(SAY, session, f"fish {place}", place)
    leaves = await connection.fetchval(SAY, session, "boats in May", 5)
    await check_windows(connection)
    async with second.transaction():
        await second.execute(gone, leaves)
        for place in (1, 2, 3, 4, 6, 7, 8):
            await connection.execute(SAY, session, f"blue fish {place}", place)
        await until(connection, "select not exists (select from conversation_messages where lexemes is null)")
    await check_windows(connection)


@pytest.mark.parametrize("owner", [None, ANN])
@pytest.mark.parametrize("offline", [True, False])
async def test_an_erased_message_is_in_no_other_users_window(
    connection: asyncpg.Connection, daemons: Daemons, owner: UUID | None, offline: bool
) -> None:
    """Alice deletes a message, then all else is erased; the conversation, in which Bob speaks too, may have become hers."""
    session = await connection.fetchval("insert into conversation_sessions default values returning id")
    said = [
        await connection.fetchval(SAY_AS, session, user, f"{words} fish")
        for user, words in (
            (BOB, "red"),
            (ANN, "boats in May"),
            (BOB, "blue"),
            (ANN, "tomorrow"),
            (BOB, "on"),
        )
    ]
    if not offline:
        await daemons.start()
        await check_windows(connection)
    await connection.execute("update conversation_sessions set user_id = $1", owner)
    await connection.execute("delete from conversation_messages where id = $1", said[1])
    await connection.execute("select erase_user_memory($1)", ANN)
    if offline:
        await daemons.start()
    await check_windows(connection)
    assert await connection.fetchval("select count(*) from conversation_messages") == 3


async def far_from_window(connection: asyncpg.Connection) -> list[Any]:
    """Messages whose embedding is not the weighted mean of their window's."""
    rows = await connection.fetch(WINDOWS)
    texts = sorted({r["content"] for r in rows})
    vectors = dict(zip(texts, await LocalEmbedder().embed(texts), strict=True))
    sums: dict[UUID, Any] = Counter()
    for r in rows:
        sums[r["id"]] = sums[r["id"]] + r["weight"] * vectors[r["content"]]
    stored = {r["id"]: np.array(r["embedding"].strip("[]").split(","), dtype=np.float32) for r in rows}
    return [
        key for key, mean in sums.items() if float(stored[key] @ mean / (np.linalg.norm(mean) or 1)) < 0.9999
    ]


async def test_windows_of_one_session_are_written_by_one_worker_at_a_time(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    await talks(connection)
    ids = await column(
        connection,
        "select id from conversation_messages "
        "where session_id = (select id from conversation_sessions order by id limit 1)",
    )
    async with connection.transaction():
        await connection.fetch(LOCK, ids)
        await second.execute("set lock_timeout = '50ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await second.fetch(LOCK, ids[:1])
    assert await second.fetch(LOCK, ids[:1]) == []
