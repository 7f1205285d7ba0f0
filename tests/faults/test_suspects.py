"""Jobs of a dead worker: tried in halves, then one by one; a dead letter only by their own fault; taken over soon."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from daemon.db.pool import Database
from daemon.queue import queue
from handlers.shared.ports import Job
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.processes.workers import Doing, enqueue, worker_on, working
from tests.support.rows import ask
from tests.support.services import http
from tests.support.waiting import IDLE, until

DIE = "update memoryd.jobs set visible_at = now() where visible_at > now() and attempt > snoozes"
LEASES_END = "update memoryd.lanes set leased_until = '-infinity'"


async def claim(database: Database, *, lanes: int, max_attempts: int = 5) -> list[Job]:
    """A batch of up to 64."""
    if lanes:
        return await queue.claim_lanes(
            database, "test", lanes=lanes, limit=64, seconds=30, max_attempts=max_attempts
        )
    return await queue.claim(database, "test", limit=64, seconds=30, max_attempts=max_attempts)


@pytest.mark.parametrize("lanes", [0, 1])
async def test_jobs_of_dead_workers_are_tried_in_halves_then_eighths_then_one_by_one(
    database: Database, connection: asyncpg.Connection, lanes: int
) -> None:
    await enqueue(connection, "test", [None] * 64, lanes=["a"] * 64 if lanes else ())
    sizes = []
    for _ in range(5):
        sizes.append(len(await claim(database, lanes=lanes)))
        await connection.execute(DIE)
        await connection.execute(LEASES_END)
        # Of those left over from the larger companies, that of the most deaths.
        await connection.execute(
            "delete from memoryd.jobs where attempt < (select max(attempt) from memoryd.jobs)"
        )
    assert sizes == [64, 32, 8, 1, 1]


@pytest.mark.parametrize("lanes", [0, 64])
async def test_a_thousand_rows_of_a_killed_daemon_take_a_few_claims(
    database: Database, connection: asyncpg.Connection, lanes: int
) -> None:
    """Fresh ones do not wait for them, and are in no batch with them."""
    ids = await enqueue(
        connection, "test", [None] * 1024, lanes=[f"lane {n % 64}" for n in range(1024)] if lanes else ()
    )
    while await claim(database, lanes=lanes):
        pass
    await connection.execute(DIE)
    await connection.execute(LEASES_END)
    fresh = await enqueue(connection, "test", [None] * 32, lanes=["fresh"] * 32 if lanes else ())
    handler = Doing()
    async with working(worker_on(database, handler, batch=64, lanes=lanes)):
        await until(connection, IDLE)
    assert sorted(await connection.fetchval("select array_agg(job) from done")) == [*ids, *fresh]
    companies = [{job.suspect for job in batch} for batch in handler.batches]
    assert all(len(kinds) == 1 for kinds in companies)
    assert companies[0] == {False}
    assert len(companies) <= 40


async def test_suspects_in_lanes_are_tried_in_halves_also_beside_fresh_lanes(
    database: Database, connection: asyncpg.Connection
) -> None:
    """The work of a killed daemon is soon done, however much else there is to do."""
    await enqueue(connection, "test", [None] * 64, lanes=[f"dead {n % 8}" for n in range(64)])
    await claim(database, lanes=8)
    await connection.execute(DIE)
    await connection.execute(LEASES_END)
    await enqueue(connection, "test", [None] * 128, lanes=[f"fresh {n % 8}" for n in range(128)])
    assert Counter(job.suspect for job in await claim(database, lanes=8)) == {False: 64, True: 32}


@pytest.mark.parametrize("deaths", [1, 2, 3, 4])
async def test_a_lane_waits_for_no_suspects_that_are_younger(
    database: Database, connection: asyncpg.Connection, deaths: int
) -> None:
    """However often its first job has lost its worker, and however many others lose theirs meanwhile."""
    (old,) = await enqueue(connection, "test", [None], lanes=["old"])
    await enqueue(connection, "test", [None] * 40, lanes=[f"lane {n}" for n in range(40)])
    await connection.execute(
        "update memoryd.jobs set attempt = case id when $1 then $2 else 1 end", old, deaths
    )
    first = await claim(database, lanes=8)
    assert old in [job.id for job in first]
    assert {job.counted_attempts for job in first} == {deaths}
    assert len({job.lane for job in await claim(database, lanes=8)}) == 8


@pytest.mark.parametrize(("deaths", "together"), [(1, 8), (2, 2), (3, 1)])
async def test_lanes_of_dead_workers_are_tried_together_then_a_quarter_of_them_then_one_by_one(
    database: Database, connection: asyncpg.Connection, deaths: int, together: int
) -> None:
    await enqueue(connection, "test", [None] * 40, lanes=[f"lane {n}" for n in range(40)])
    await connection.execute("update memoryd.jobs set attempt = $1", deaths)
    assert len({job.lane for job in await claim(database, lanes=8)}) == together


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("max_attempts", [1, 3])
async def test_a_job_that_never_ran_alone_does_not_become_a_dead_letter(
    database: Database, connection: asyncpg.Connection, lanes: int, max_attempts: int
) -> None:
    """Workers die with whatever they have claimed, before any of it is begun, more often than there are attempts."""
    ids = await enqueue(
        connection, "test", [None] * 64, lanes=[f"lane {n % 8}" for n in range(64)] if lanes else ()
    )
    for _ in range(3 * max_attempts):
        while await claim(database, lanes=lanes, max_attempts=max_attempts):
            pass
        await connection.execute(DIE)
        await connection.execute(LEASES_END)
    async with working(worker_on(database, Doing(), batch=64, lanes=lanes, max_attempts=max_attempts)):
        await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    assert sorted(await connection.fetchval("select array_agg(job) from done")) == ids


async def test_claims_of_a_killed_daemon_are_taken_over_before_they_expire(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    daemons: Daemons,
    database_url: str,
    tmp_path: Path,
) -> None:
    """The claim is valid for an hour, the heartbeat comes every ten minutes: the daemon is missed by its connection."""
    settings: dict[str, Any] = {"claim_seconds": 3600, "heartbeat_seconds": 600, "poll_seconds": 0.2}
    victim = await daemons.start(**settings)
    listener = await until(connection, "select backend from memoryd.daemons")
    blocked = second.transaction()
    await blocked.start()
    # The capture waits within its commit half, its lane leased; the context is claimed and waits too.
    await second.execute("lock table agent_memory, memory_queries in share row exclusive mode")
    done = await ask(connection, "sail to the island", status="completed", output="landed", exit_code=0)
    pending = await ask(connection, "sail back")
    both = """
        select (select count(*) from memoryd.jobs where attempt > snoozes) = 2
           and exists (select from memoryd.lanes where topic = 'capture' and leased_until > now())
    """
    await until(connection, both)
    memoryd = Commands(database_url, tmp_path)
    await victim.kill()
    await until(connection, "select not exists (select from pg_stat_get_activity($1))", listener)
    assert (await memoryd("status", "--json")).code == 1  # at once, as soon as the server has noticed
    heir = await daemons.start(**settings, http=0)
    await blocked.rollback()
    event = await heir.event("claims_taken_over")
    assert (event["jobs"], event["lanes"]) == (1, 1)
    samples = await http.scrape((await heir.event("http_listening"))["url"])
    taken = [http.value(samples, "memoryd_claims_taken_over_total", kind=kind) for kind in ("jobs", "lanes")]
    assert taken == [1, 1]
    assert http.value(samples, "memoryd_daemons", state="lost") == 1
    told = await memoryd("status", "--json")
    assert (told.code, [one["alive"] for one in told.json["daemons"]]) == (0, [False, True])
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from agent_memory where command_id = $1", done) == 1
    assert await connection.fetchval("select status from agent_commands where id = $1", pending) == "ready"


async def test_a_daemon_that_gets_a_new_connection_keeps_its_claims(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    settings: dict[str, Any] = {"claim_seconds": 3600, "heartbeat_seconds": 600, "poll_seconds": 0.2}
    daemon, other = await daemons.start(**settings), await daemons.start(**settings)
    pids = "select array_agg(backend order by id) from memoryd.daemons having count(backend) = 2"
    before = await until(connection, pids)
    for _ in range(3):
        cut = "select count(pg_terminate_backend(d.backend)) from memoryd.daemons d"
        await connection.execute(cut)
        after = f"select ({pids.replace('having', 'having min(backend) <> all ($1) and')})"
        before = await until(connection, after, before)
    assert daemon.events("claims_taken_over") == other.events("claims_taken_over") == []
    assert await connection.fetchval("select count(backend) from memoryd.daemons") == 2
