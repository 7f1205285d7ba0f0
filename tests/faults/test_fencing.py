"""A worker that lost its claim writes nothing, and each lane keeps its order, also when workers stall."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import asyncpg
import pytest

from daemon.db.pool import Database
from daemon.queue import queue
from handlers.shared.ports import AnyConnection, Job
from tests.support.processes.workers import Doing, enqueue, open_database, worker_on, working
from tests.support.waiting import BLOCKED, IDLE, until

CLAIMS_OVER = "select bool_and(visible_at <= now()) from memoryd.jobs"
LEASES_OVER = "select bool_and(leased_until <= now()) from memoryd.lanes"
DONE_TWICE = "select job from done group by job having count(*) > 1"


async def complete(database: Database, jobs: Sequence[Job]) -> list[int]:
    """Completes jobs in a transaction of its own; returns the ids whose claim was still ours."""
    async with database.transaction() as connection:
        return [job.id for job in await queue.complete(connection, jobs)]


async def test_an_expired_claim_completes_nothing_once_another_worker_has_it(
    database: Database, connection: asyncpg.Connection
) -> None:
    ids = await enqueue(connection, "test", [None] * 3)
    zombie = await queue.claim(database, "test", limit=3, seconds=30)
    assert [job.id for job in zombie] == ids
    assert await queue.claim(database, "test", limit=3, seconds=30) == []
    await queue.renew(database, zombie, seconds=0.1)
    await until(connection, CLAIMS_OVER)

    heirs = [(await queue.claim(database, "test", limit=3, seconds=30))[0] for _ in ids]
    assert [job.id for job in heirs] == ids
    assert all(job.suspect for job in heirs)
    before = await connection.fetch("select * from memoryd.jobs order by id")

    assert await complete(database, zombie) == []
    await queue.snooze(database, zombie)
    await queue.renew(database, zombie, seconds=3600)
    await queue.retry(database, zombie[0], seconds=3600)
    await queue.discard(database, zombie[1], error="should not happen")
    assert await connection.fetch("select * from memoryd.jobs order by id") == before
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0

    assert await complete(database, heirs) == ids
    assert await complete(database, heirs) == []


@pytest.mark.parametrize("lanes", [0, 4])
async def test_what_was_handed_back_is_not_handed_back_or_renewed_again(
    database: Database, connection: asyncpg.Connection, lanes: int
) -> None:
    """A batch that is cancelled hands back all its jobs; an attempt that was snoozed, or counted, stays so, and waits."""
    await enqueue(connection, "test", [None] * 3, lanes=["a", "b", "c"] if lanes else ())
    jobs = (
        await queue.claim_lanes(database, "test", lanes=lanes, limit=4, seconds=30)
        if lanes
        else await queue.claim(database, "test", limit=3, seconds=30)
    )
    await queue.snooze(database, jobs[:1], seconds=600)
    await queue.retry(database, jobs[1], seconds=600, error="failed")
    before = await connection.fetch("select * from memoryd.jobs order by id limit 2")
    await queue.renew(database, jobs, seconds=3600)
    for _ in range(2):
        await queue.snooze(database, jobs)
    await queue.hand_back(database, jobs, counted=True)
    await queue.retry(database, jobs[2], seconds=3600, error="failed")
    *others, last = await connection.fetch("select * from memoryd.jobs order by id")
    assert others == before
    assert (last["attempt"], last["snoozes"], last["last_error"]) == (1, 1, None)
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute("update memoryd.jobs set snoozes = snoozes + 1")


async def test_an_expired_claim_still_completes_when_no_other_worker_took_it(
    database: Database, connection: asyncpg.Connection
) -> None:
    ids = await enqueue(connection, "test", [None] * 2)
    slow = await queue.claim(database, "test", limit=2, seconds=0.1)
    await until(connection, CLAIMS_OVER)
    assert await complete(database, slow) == ids


async def test_an_expired_lease_completes_nothing_once_another_worker_has_it(
    database: Database, connection: asyncpg.Connection
) -> None:
    ids = await enqueue(connection, "test", [None] * 3, lanes=["a"] * 3)
    zombie = await queue.claim_lanes(database, "test", lanes=4, limit=4, seconds=30)
    assert [job.id for job in zombie] == ids
    assert await queue.claim_lanes(database, "test", lanes=4, limit=4, seconds=30) == []
    await queue.renew(database, zombie, seconds=0.1)
    await until(connection, LEASES_OVER)

    heir = await queue.claim_lanes(database, "test", lanes=4, limit=4, seconds=30)
    assert [job.id for job in heir] == ids[:2], "after a death the jobs are tried in halves"
    before = await connection.fetch("select * from memoryd.lanes")

    assert await complete(database, zombie) == []
    await queue.renew(database, zombie, seconds=3600)
    await queue.return_lanes(database, zombie)
    assert await connection.fetch("select * from memoryd.lanes") == before
    assert await connection.fetchval("select count(*) from memoryd.jobs") == 3

    assert await complete(database, heir) == ids[:2]
    rest = await queue.claim_lanes(database, "test", lanes=4, limit=4, seconds=30)
    assert [job.id for job in rest] == ids[2:]


async def test_a_lane_stays_leased_until_its_effects_are_visible(
    database: Database, connection: asyncpg.Connection
) -> None:
    first, second = await enqueue(connection, "test", [None, None], lanes=["a", "a"])
    claimed = await queue.claim_lanes(database, "test", lanes=4, limit=1, seconds=30)
    assert [job.id for job in claimed] == [first]
    async with database.transaction() as unfinished:
        await queue.complete(unfinished, claimed)
        assert await queue.claim_lanes(database, "test", lanes=4, limit=4, seconds=30) == []
    after = await queue.claim_lanes(database, "test", lanes=4, limit=4, seconds=30)
    assert [job.id for job in after] == [second]


@pytest.mark.parametrize("lanes", [0, 4])
async def test_a_worker_that_stalls_past_its_claim_writes_nothing(
    database: Database, connection: asyncpg.Connection, lanes: int
) -> None:
    ids = await enqueue(connection, "test", [None] * 4, lanes=["a", "a", "b", "b"] if lanes else ())
    stalled, go_on = asyncio.Event(), asyncio.Event()

    async def stall(_jobs: Sequence[Job]) -> None:
        stalled.set()
        await go_on.wait()

    zombie = worker_on(database, Doing("zombie", before=stall), lanes=lanes, claim_seconds=0.2)
    running = asyncio.create_task(zombie.run())
    await asyncio.wait_for(stalled.wait(), 90)
    # The claims of the zombie are not renewed: it does nothing at all, like a suspended machine.
    async with working(worker_on(database, Doing("heir"), lanes=lanes)):
        await until(connection, IDLE)
    go_on.set()
    await zombie.stop(grace_seconds=10)
    running.cancel()
    assert (
        await connection.fetchval("select array_agg(job order by job) from done where worker = 'heir'") == ids
    )
    assert await connection.fetchval("select count(*) from done") == len(ids)


async def test_a_commit_half_that_fails_leaves_no_trace_and_is_run_again(
    database: Database, connection: asyncpg.Connection
) -> None:
    ids = await enqueue(connection, "test", [None] * 5)
    failures = 0

    async def fail_twice(_connection: AnyConnection, _jobs: Sequence[Job]) -> None:
        nonlocal failures
        failures += 1
        if failures <= 2:
            raise RuntimeError("after the effects, before the commit")

    async with working(worker_on(database, Doing(within=fail_twice))):
        await until(connection, IDLE)
    assert failures > 2
    assert await connection.fetchval("select array_agg(job order by job) from done") == ids
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0


async def test_a_lane_whose_jobs_are_done_while_it_is_claimed_is_free(
    database: Database, connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """Else the next job of this lane would wait until the lease ends, which no worker has."""
    _, other = await enqueue(connection, "test", [None] * 2, lanes=["done", "other"])
    async with second.transaction():
        # As a worker that leases this lane, and does its job.
        await second.execute("insert into memoryd.lanes (topic, lane) values ('test', 'done')")
        await second.execute("delete from memoryd.jobs where lane = 'done'")
        claiming = asyncio.create_task(queue.claim_lanes(database, "test", lanes=2, limit=2, seconds=30))
        await until(connection, BLOCKED)
    assert [job.id for job in await claiming] == [other]
    [late] = await enqueue(connection, "test", [None], lanes=["done"])
    claimed = await queue.claim_lanes(database, "test", lanes=2, limit=2, seconds=30)
    assert [job.id for job in claimed] == [late]


async def test_order_is_kept_in_every_lane_by_workers_that_fail_and_stall(
    database_url: str, database: Database, connection: asyncpg.Connection
) -> None:
    names = [f"lane {n}" for n in range(12)]
    rng = random.Random(20261120)
    order = [lane for lane in names for _ in range(15)]
    rng.shuffle(order)
    ids = await enqueue(connection, "test", [None] * len(order), lanes=order)
    fail_once, stall_once = set(rng.sample(ids, 6)), set(rng.sample(ids, 4))
    both_began = asyncio.Barrier(2)
    met: set[str] = set()

    def trouble(name: str) -> Doing:
        async def before(jobs: Sequence[Job]) -> None:
            if name not in met:
                met.add(name)
                await both_began.wait()
            if stalls := {job.id for job in jobs} & stall_once:
                stall_once.difference_update(stalls)
                await asyncio.sleep(0.5)
            if fails := {job.id for job in jobs} & fail_once:
                fail_once.difference_update(fails)
                raise RuntimeError("once")

        return Doing(name, before=before)

    async with open_database(database_url) as other:
        one = worker_on(database, trouble("one"), batch=12, lanes=3, claim_seconds=0.3)
        two = worker_on(other, trouble("two"), batch=12, lanes=3, claim_seconds=0.3, parallel=2)
        # Leases are not renewed: a worker that stalls loses its lanes to the other.
        async with working(one, two, claim_seconds=3600):
            await until(connection, IDLE)
    assert not fail_once
    assert not stall_once
    assert await connection.fetch(DONE_TWICE) == []
    done = await connection.fetch(
        "select lane, array_agg(job order by place) as jobs from done group by lane"
    )
    expected = {lane: [i for i, at in zip(ids, order, strict=True) if at == lane] for lane in names}
    assert {r["lane"]: r["jobs"] for r in done} == expected
    # On a busy machine one of them may lose every lease before it has done anything.
    assert met == {"one", "two"}
    assert await connection.fetchval("select bool_and(leased_until < now()) from memoryd.lanes")
