"""An outage of the database makes no dead letters, however long it lasts; other failures are retried for 15 minutes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import asyncpg
import pytest
from structlog.testing import capture_logs

from daemon.db.pool import Database
from daemon.queue.failures import BACKOFF_MAX_SECONDS, backoff
from daemon.topics import MAX_ATTEMPTS
from handlers.shared.ports import AnyConnection, Job
from tests.support.processes.daemons import Daemons
from tests.support.processes.workers import Doing, enqueue, worker_on, working
from tests.support.rows import ask
from tests.support.waiting import IDLE, until

# As the server says it: the disk is full, memory or connections are, a file cannot be read, the server has become a standby,
# two transactions waited for each other, one could not be serialized.
STATES = ["53100", "53200", "53300", "53400", "58030", "25006", "40P01", "40001", "55P03"]
HANDED_BACK = "select min(snoozes) >= 2 and max(attempt - snoozes) = 0 from memoryd.jobs"
A_QUARTER = 15 * 60


class Broken:
    """A database that fails every write, until it is mended."""

    def __init__(self, error: str | type[Exception]) -> None:
        self.error = error
        self.mended = False

    async def __call__(self, connection: AnyConnection, _jobs: Sequence[Job]) -> None:
        if self.mended:
            return
        if isinstance(self.error, str):
            await connection.execute(
                f"do $$ begin raise sqlstate '{self.error}' using message = 'trouble'; end $$"
            )
        else:
            raise self.error


@pytest.mark.parametrize("error", [*STATES, TimeoutError], ids=str)
@pytest.mark.parametrize("lanes", [0, 4])
async def test_an_outage_makes_no_dead_letters(
    database: Database, connection: asyncpg.Connection, lanes: int, error: str | type[Exception]
) -> None:
    """More often than there are attempts."""
    ids = await enqueue(connection, "test", [None] * 3, lanes=["a"] * 3 if lanes else ())
    broken = Broken(error)
    worker = worker_on(database, Doing(within=broken), lanes=lanes, max_attempts=1, retry_max_seconds=0.1)
    with capture_logs() as lines:
        async with working(worker):
            await until(connection, HANDED_BACK)
            broken.mended = True
            await until(connection, IDLE)
    assert await connection.fetchval("select array_agg(job order by job) from done") == ids
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    told = [x for x in lines if x["event"] in ("jobs_wait_for_database", "jobs_wait_for_lock")]
    assert told
    assert all(x["retry_in"] > 0 for x in told)
    assert "trouble" not in str(lines)


async def test_an_outcome_survives_a_full_disk(connection: asyncpg.Connection, daemons: Daemons) -> None:
    await connection.execute(
        """
        create function full_disk() returns trigger language plpgsql as
        $$ begin raise sqlstate '53100' using message = 'could not extend file'; end $$;
        create trigger full_disk before insert on agent_memory for each row execute function full_disk()
        """
    )
    daemon = await daemons.start(max_attempts=1, retry_max_seconds=1, poll_seconds=3600)
    command = await ask(connection, "sail to the island", status="completed", output="landed", exit_code=0)
    for _ in range(3):
        seen = len(daemon.lines)
        await daemon.event("jobs_wait_for_database", after=seen, level="warning")
    await connection.execute("drop trigger full_disk on agent_memory")
    # By itself: there is no notification, and the poll is an hour away.
    await until(connection, IDLE)
    remembered = "select count(*) from agent_memory where command_id = $1"
    assert await connection.fetchval(remembered, command) == 1
    assert daemon.events("job_discarded") == []


REFUSED = "select pg_stat_get_db_xact_rollback(oid) from pg_database where datname = current_database()"
"""Statements that failed, as often as the sessions have told."""


async def test_a_database_that_is_read_only_for_a_while_makes_no_dead_letters(
    connection: asyncpg.Connection, daemons: Daemons, database_url: str
) -> None:
    """As after a failover, while the connections still lead to what is a standby now; some providers do it to a full disk.

    Each part of the daemon goes on trying, and does not say so each time.
    """
    name = await connection.fetchval("select current_database()")
    daemon = await daemons.start(max_attempts=1, poll_seconds=0.2, claim_again_seconds=0.5)
    await connection.execute(f"alter database {name} set default_transaction_read_only = on")
    await connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'memoryd' and datname = $1",
        name,
    )
    command = await ask(connection, "sail to the island", status="completed", output="landed", exit_code=0)
    await daemon.event("database_read_only", level="warning")
    seen, refused = len(daemon.lines), await connection.fetchval(REFUSED)
    assert await until(connection, f"select ({REFUSED}) >= $1 + 10", refused)
    told = {line["event"] for line in daemon.lines[seen:] if line.get("level") in ("warning", "error")}
    assert told <= {"database_read_only"}
    await connection.execute(f"alter database {name} reset default_transaction_read_only")
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from agent_memory where command_id = $1", command) == 1
    assert daemon.events("job_discarded") == []


def test_other_failures_are_retried_for_a_quarter_of_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, _high: low)
    pauses = [backoff(failures) for failures in range(1, MAX_ATTEMPTS)]
    assert sum(pauses) >= A_QUARTER
    assert max(pauses) <= BACKOFF_MAX_SECONDS
