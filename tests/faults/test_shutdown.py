"""SIGTERM: running batches are finished, other claims are released at once, and a second signal ends the daemon."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from daemon.db.pool import Database
from handlers.shared.ports import Job, RowLockError
from tests.support.content.finished import all_done
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import STOP_SECONDS, DaemonProcess, Daemons
from tests.support.processes.forks import Forked
from tests.support.processes.load import load_on
from tests.support.processes.paused import COMMIT_WAITS, commit_held_up
from tests.support.processes.workers import CREATE_DONE, Doing, enqueue, open_database, worker_on, working
from tests.support.services import http
from tests.support.waiting import IDLE, until

# An hour: whatever is not handed back would stay claimed for the rest of the test.
CLAIM_SECONDS = 3600

# A job that was written after this query began is visible a moment after that, and not for an hour.
HELD = """
select (select count(*) from memoryd.jobs where visible_at > now() + interval '1 minute' or attempt > snoozes)
     + (select count(*) from memoryd.lanes where leased_until > now())
     + (select count(*) from memoryd.executions)
     + (select count(*) from memoryd.daemons)
"""


async def test_a_daemon_stopped_under_load_leaves_nothing_claimed(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    rng = random.Random(20261120)
    async with load_on(database_url, rounds=8, pause=0.2, tasks=False):
        for _ in range(3):
            daemon = await daemons.start(claim_seconds=CLAIM_SECONDS)
            # The moment is the point: no event marks it.
            await asyncio.sleep(rng.uniform(0.0, 0.4))
            assert await daemon.stop(rng.choice([signal.SIGTERM, signal.SIGINT])) == 0
            assert await connection.fetchval(HELD) == 0, daemon.text()
            assert daemon.lines[-1]["event"] == "daemon_stopped"
            assert not [line for line in daemon.lines if line["level"] in ("warning", "error")], daemon.text()
    await daemons.start(claim_seconds=CLAIM_SECONDS)
    await all_done(connection)


async def test_a_batch_in_flight_is_finished(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start(claim_seconds=CLAIM_SECONDS, http=0)
    site = (await daemon.event("http_listening"))["url"]
    assert http.value(await http.scrape(site), "memoryd_reports_database") == 1
    async with commit_held_up(database_url, connection):
        daemon.process.send_signal(signal.SIGTERM)
        await daemon.event("stopping")
        stopping = await http.ask(site, "/health/ready")
        assert (stopping.status, stopping.json["reason"]) == (503, "it is stopping")
        assert (await http.ask(site, "/health/live")).status == 200
    assert await asyncio.wait_for(daemon.process.wait(), 30) == 0
    assert await connection.fetchval("select count(*) from agent_memory") == 1
    assert await connection.fetchval("select count(*) from memoryd.jobs where topic = 'capture'") == 0
    assert await connection.fetchval(HELD) == 0


async def test_a_batch_that_exceeds_the_grace_period_goes_to_the_next_daemon_at_once(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start(claim_seconds=CLAIM_SECONDS, shutdown_seconds=0.3)
    async with commit_held_up(database_url, connection):
        assert await daemon.stop() == 0
        assert await connection.fetchval(HELD) == 0, daemon.text()
        other = await daemons.start(claim_seconds=CLAIM_SECONDS)
        await until(connection, COMMIT_WAITS)
    await all_done(connection)
    assert await connection.fetchval("select count(*) from agent_memory") == 1
    assert await other.stop() == 0


async def test_a_second_signal_ends_the_daemon_at_once(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start(claim_seconds=1, shutdown_seconds=CLAIM_SECONDS)
    async with commit_held_up(database_url, connection):
        daemon.process.send_signal(signal.SIGTERM)
        await daemon.event("stopping")
        assert await daemon.stop_at_once(signal.SIGINT) == 128 + signal.SIGINT
        await daemon.event("stopping_at_once", signal="SIGINT")
    await daemons.start(claim_seconds=1, poll_seconds=0.2)
    await all_done(connection)
    assert await connection.fetchval("select count(*) from agent_memory") == 1


async def running(
    daemons: Daemons, connection: asyncpg.Connection, go: Path, *, grace: float
) -> DaemonProcess:
    """A daemon in the middle of a program that waits for `go`."""
    program = go.with_suffix(".sh")
    program.write_text(f"for i in $(seq 1500); do [ -e {go} ] && break; sleep 0.02; done; echo done")
    daemon = await daemons.start(
        executor_command=f"sh {program}", shutdown_seconds=grace, claim_seconds=CLAIM_SECONDS
    )
    await connection.execute(
        "insert into agent_commands (agent_id, message) values ('robot', 'restart the worker')"
    )
    await until(connection, "select exists (select from memoryd.executions)")
    return daemon


async def test_a_program_that_ends_within_the_grace_period_completes_its_command(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    daemon = await running(daemons, connection, go, grace=CLAIM_SECONDS)
    daemon.process.send_signal(signal.SIGTERM)
    await daemon.event("stopping")
    go.touch()
    assert await asyncio.wait_for(daemon.process.wait(), 30) == 0
    assert (
        await connection.fetchval("select status || ' ' || output from agent_commands") == "completed done\n"
    )
    assert await connection.fetchval(HELD) == 0


async def test_the_command_of_a_program_that_exceeds_the_grace_period_is_released(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    daemon = await running(daemons, connection, go, grace=0.3)
    assert await daemon.stop() == 0
    assert await connection.fetchval("select status from agent_commands") == "ready"
    assert await connection.fetchval(HELD) == 0
    go.touch()
    await daemons.start(executor_command=f"sh {go.with_suffix('.sh')}")
    await until(connection, "select output = e'done\\n' from agent_commands where status = 'completed'")
    await all_done(connection)


async def test_without_a_grace_period_nothing_stays_claimed(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start(claim_seconds=CLAIM_SECONDS, shutdown_seconds=0)
    async with commit_held_up(database_url, connection):
        assert await daemon.stop() == 0
        assert await connection.fetchval(HELD) == 0, daemon.text()


class Answering:
    """A database whose answers come late: what was done there is done, and the daemon does not know it yet."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.answer = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def fetch(self, sql: str, *args: object) -> Any:
        """The rows, late."""
        rows = await self._database.fetch(sql, *args)
        await self.answer.wait()
        return rows


@pytest.mark.parametrize("grace", [0.0, 30.0])
async def test_a_claim_whose_answer_arrives_during_the_shutdown_is_released(
    database_url: str, connection: asyncpg.Connection, grace: float
) -> None:
    await connection.execute(CREATE_DONE)
    ids = await enqueue(connection, "test", [None] * 3)
    async with open_database(database_url) as database:
        late = Answering(database)
        worker = worker_on(cast(Database, late), Doing(), claim_seconds=CLAIM_SECONDS)
        running = asyncio.create_task(worker.run())
        await until(connection, "select bool_and(attempt = 1) from memoryd.jobs")
        stopping = asyncio.create_task(worker.stop(grace_seconds=grace))
        await asyncio.wait([stopping], timeout=0.1)
        late.answer.set()
        await stopping
        running.cancel()
    assert await connection.fetchval(HELD) == 0
    left = await connection.fetch("select id from memoryd.jobs order by id")
    done = await connection.fetch("select job from done order by job")
    assert [r["id"] for r in left] == (ids if grace == 0 else [])
    assert [r["job"] for r in done] == ([] if grace == 0 else ids)


async def test_a_batch_that_is_stopped_after_it_snoozed_some_of_its_jobs_snoozes_each_once(
    database: Database, connection: asyncpg.Connection
) -> None:
    """Otherwise they would have more snoozes than attempts, and no worker would ever claim them or their lanes."""
    ids = await enqueue(connection, "test", [None] * 4, lanes=["a", "a", "b", "c"])
    stalled = asyncio.Event()

    async def wait(jobs: Sequence[Job]) -> None:
        if jobs[0].lane == "c":
            stalled.set()
            await asyncio.Event().wait()
        raise RowLockError

    worker = worker_on(database, Doing(before=wait), lanes=4, claim_seconds=CLAIM_SECONDS)
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(stalled.wait(), 30)
    await worker.stop(grace_seconds=0)
    running.cancel()
    states = await connection.fetch("select distinct attempt, snoozes from memoryd.jobs")
    assert [tuple(r) for r in states] == [(1, 1)]
    async with working(worker_on(database, Doing(), lanes=4)):
        await until(connection, IDLE)
    assert await connection.fetchval("select array_agg(job order by job) from done") == ids


@pytest.mark.skipif(sys.platform != "linux", reason="only there are processes forked")
def test_a_process_that_a_test_leaves_running_ends_with_its_loop(tmp_path: Path) -> None:
    """A transport that it left open would fail a later test."""

    async def leave() -> Forked:
        process = await Commands("postgresql://nobody@127.0.0.1:1/none", tmp_path).start("import", "-")
        assert isinstance(process, Forked)
        assert process.stdin is not None
        process.stdin.write(b"x" * 1_000_000)  # more than it takes at once
        return process

    left = asyncio.run(leave())
    with suppress(ProcessLookupError):  # it has ended
        ended = os.pidfd_open(left.pid)
        try:
            assert select.select([ended], [], [], STOP_SECONDS)[0]
        finally:
            os.close(ended)
    del left
    gc.collect()
