"""A topic that gives way to another one's backlog, or comes last: it rests meanwhile, starves never, and stops at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import asyncpg
import pytest

from daemon.queue import worker
from handlers.shared.ports import Job
from tests.support.processes.workers import CREATE_DONE, Doing, enqueue, open_database, worker_on, working
from tests.support.waiting import until

BATCHES = 60
OF_EACH = (
    "select count(*) from done where worker = 'first'",
    "select count(*) from done where worker = 'second'",
)
MEANWHILE = f"{OF_EACH[1]} and place < (select max(place) from done where worker = 'first')"


async def takes(_jobs: Sequence[Job]) -> None:
    """As long in both topics."""
    await asyncio.sleep(0.02)


async def test_what_gives_way_rests_and_does_not_starve(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(CREATE_DONE)
    await enqueue(connection, "first", [None] * 4 * BATCHES)
    await enqueue(connection, "second", [None] * BATCHES)
    async with open_database(database_url) as database:
        first = worker_on(database, Doing("first", before=takes), topic="first", batch=4)
        second = worker_on(
            database,
            Doing("second", before=takes),
            topic="second",
            batch=1,
            others=[first],
        )
        async with working(first, second):
            await until(connection, f"select ({OF_EACH[0]}) = {4 * BATCHES}")
            meanwhile = await connection.fetchval(MEANWHILE)
            assert 1 <= meanwhile <= BATCHES // 2, meanwhile
            # With nothing to give way to it is done at once, and everything once.
            await until(connection, f"select ({OF_EACH[1]}) = {BATCHES}")
    assert await connection.fetchval("select count(*) = count(distinct job) from done")


async def test_a_rest_that_is_told_to_stop_ends_and_claims_nothing(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(CREATE_DONE)
    await enqueue(connection, "second", [None] * 5)

    async def long(_jobs: Sequence[Job]) -> None:
        await asyncio.sleep(1.0)

    async with open_database(database_url) as database:
        first = worker_on(database, Doing("first"), topic="first")
        first.has_backlog = True
        second = worker_on(database, Doing("second", before=long), topic="second", batch=1, others=[first])
        async with working(second):
            await until(connection, f"select ({OF_EACH[1]}) = 1")
            began = time.monotonic()
        assert time.monotonic() - began < 3.0
    assert await connection.fetchval(OF_EACH[1]) == 1
    assert await connection.fetchval("select count(*) from memoryd.jobs where attempt > snoozes") == 0


async def test_what_comes_last_lets_others_finish_that_have_no_backlog(
    database_url: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LONGEST_TURN_SECONDS", 60.0)
    await connection.execute(CREATE_DONE)
    await enqueue(connection, "first", [None])
    await enqueue(connection, "second", [None])
    async with open_database(database_url) as database:
        first = worker_on(database, Doing("first", before=takes), topic="first")
        second = worker_on(database, Doing("second"), topic="second", others=[first], last=True)
        async with working(second, first):
            await until(connection, f"select ({OF_EACH[1]}) = 1")
    assert await connection.fetchval("select worker from done order by place limit 1") == "first"


async def test_what_comes_last_comes_though_another_goes_on(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(CREATE_DONE)
    await enqueue(connection, "first", [None])
    await enqueue(connection, "second", [None])
    done = asyncio.Event()

    async def goes_on(_jobs: Sequence[Job]) -> None:
        await done.wait()

    async with open_database(database_url) as database:
        first = worker_on(database, Doing("first", before=goes_on), topic="first")
        second = worker_on(database, Doing("second"), topic="second", others=[first], last=True)
        async with working(second, first):
            await until(connection, f"select ({OF_EACH[1]}) = 1")
            done.set()
            await until(connection, f"select ({OF_EACH[0]}) = 1")
