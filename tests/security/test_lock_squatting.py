"""No login can take memoryd's own locks, and waiting for a lock that it can take is not counted as an attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import pytest

from daemon.db.indexes import build_dense_indexes
from daemon.db.pool import Database
from daemon.logs import get_logger
from handlers.shared.ports import AnyConnection, Job
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.content.finished import all_done
from tests.support.content.index import index_rows
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import apply
from tests.support.processes.daemons import Daemons
from tests.support.processes.workers import CREATE_DONE, Doing, enqueue, open_database, worker_on, working
from tests.support.rows import ask, column, remember
from tests.support.waiting import BLOCKED, IDLE, until

# Every advisory key that there was a use for.
SQUAT = """
select pg_advisory_lock(key)
from unnest(array[7233173838382854000, 30792287825786212,
                  hashtextextended('memoryd.dense_indexes', 0), hashtextextended('memoryd.dream_sessions', 0),
                  hashtextextended('memoryd.lexeme_statistics', 0), hashtextextended('memoryd.erased_texts', 0),
                  hashtextextended('memoryd.user:' || $1::text, 0), hashtextextended('memoryd.window:' || $1::text, 0)]) key
"""


@asynccontextmanager
async def squatting(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """An end user's session takes the locks whose names it knows."""
    async with acting_as(connection, BOB):
        await connection.execute(SQUAT, str(ANN))
    yield
    await connection.execute("select pg_advisory_unlock_all()")


async def test_advisory_locks_of_an_end_user_stop_no_work(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, database_url: str
) -> None:
    async with squatting(second):
        assert not await apply(database_url)
        await daemons.start(executor_command="cat", poll_seconds=0.2)
        await one_of_each(connection, "boats in May")
        await connection.execute(
            "insert into conversation_messages (session_id, user_id, role, content) values ($1, $1, 'user', 'fish')",
            ANN,
        )
        await ask(connection, "sail to the island")
        dream = await connection.fetchval("insert into memory_requests (kind) values ('dream') returning id")
        await all_done(connection)
        done = "select status = 'done' from memory_requests where id = $1"
        await until(connection, done, dream)
        counts = await connection.fetchval("select erase_user_memory($1)->>'conversation_messages'", ANN)
        assert counts == "1"


async def test_advisory_locks_of_an_end_user_do_not_stop_the_build_of_an_ivfflat_index(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    await connection.execute(
        """
        insert into agent_memory (agent_id, content, embedding)
        select 'alice', 'number ' || n, v.one::vector
        from generate_series(1, 100) n
        cross join lateral (select array_agg(sin(n * (d + 1.7)) order by d)::real[] from generate_series(1, 256) d) v(one)
        """
    )
    assert len(await index_rows(connection, "memory")) == 100
    await connection.execute("select memoryd.fold_lexeme_changes()")
    async with squatting(second), open_database(database_url) as database:
        await asyncio.gather(*(build_dense_indexes(database, get_logger(), min_rows=100) for _ in range(3)))
    built = "select value ->> 'index_name' from memoryd.settings where key like 'dense\\_index.%'"
    assert await column(connection, built) == ["entries_lists_100"]


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_service", "memoryd_admin"])
@pytest.mark.parametrize(
    "statement",
    [
        "select from memoryd.lanes for update",
        "select from memoryd.lanes for key share",
        "lock table memoryd.lanes in access share mode",
        "lock table memoryd.migrations in access share mode",
        "update memoryd.lanes set lane = lane",
        "select memoryd.lock('lexeme_statistics')",
        "select memoryd.lock_shared('user 1')",
    ],
)
async def test_memoryds_lock_rows_are_closed_to_other_roles(
    scratch: asyncpg.Connection, role: str, statement: str
) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with acting_as(scratch, ANN, role=role):
            await scratch.execute(statement)


async def test_a_lock_excludes_and_what_follows_sees_what_the_last_holder_wrote(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    counted = "select count(*) from memoryd.settings where key = 'seen'"
    async with connection.transaction():
        await connection.execute("select memoryd.lock('lexeme_statistics')")
        await connection.execute("insert into memoryd.settings (key, value) values ('seen', 'true')")

        async def wait_and_look() -> object:
            async with second.transaction():
                await second.execute("select memoryd.lock('lexeme_statistics')")
                return await second.fetchval(counted)

        waiting = asyncio.create_task(wait_and_look())
        await until(connection, BLOCKED)
    assert await waiting == 1
    with pytest.raises(asyncpg.UndefinedObjectError):
        await connection.execute("select memoryd.lock('lexme_statistics')")


async def test_waiting_for_a_lock_counts_as_no_attempt(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    """More often than there are attempts; its neighbours are done meanwhile."""
    await connection.execute(CREATE_DONE)
    ids = await enqueue(connection, "test", [None, '{"locked": true}', None, None])

    async def take(locked: AnyConnection, jobs: Sequence[Job]) -> None:
        if any(job.payload for job in jobs):
            await locked.execute("set local lock_timeout = 10")
            await locked.execute("select memoryd.lock('window 0')")

    uncounted = "select snoozes >= 2 from memoryd.jobs where id = $1"
    # The lock comes before the worker, which would otherwise do the job at once.
    await second.execute("begin; select memoryd.lock('window 0')")
    async with (
        open_database(database_url) as database,
        working(worker_on(database, Doing(within=take), max_attempts=1)),
    ):
        await until(connection, uncounted, ids[1])
        assert await column(connection, "select job from done order by job") == [ids[0], *ids[2:]]
        await second.execute("rollback")
        await until(connection, IDLE)
    assert await column(connection, "select job from done order by job") == ids
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0


async def test_the_daemon_gives_up_waiting_for_a_lock(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    async def waits(memory: UUID, *, pooled: bool) -> None:
        database = await Database.open(database_url, size=1, pooled=pooled, logger=get_logger())
        with pytest.raises(asyncpg.LockNotAvailableError):
            await database.execute("delete from agent_memory where id = $1", memory)
        await database.close()

    monkeypatch.setattr("daemon.db.pool.MAX_LOCK_WAIT", "1s")
    one, other = [await remember(connection, f"boats in {month}") for month in ("May", "June")]
    async with second.transaction():
        await second.execute("select from agent_memory for update")
        # Rows of their own: for one row they would wait in turn.
        await asyncio.gather(waits(one, pooled=False), waits(other, pooled=True))
