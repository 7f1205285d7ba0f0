"""Only the bad row becomes a dead letter, with an error that says what happened and has no content; its batch is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import asyncpg
import pytest

from daemon.db.pool import Database
from handlers.shared.ports import AnyConnection, Job, Poison
from providers.ports import UnavailableError
from tests.support.processes.daemons import Daemons
from tests.support.processes.workers import Doing, enqueue, worker_on, working
from tests.support.services import http
from tests.support.waiting import IDLE, until

BAD = '{"bad": true}'
SECRET = "hunter2"


def raising(error: Exception) -> Doing:
    """A handler whose slow half cannot stand a bad job."""

    async def before(jobs: Sequence[Job]) -> None:
        if any(job.payload for job in jobs):
            raise error

    return Doing(before=before)


async def test_the_one_job_for_which_the_provider_fails_becomes_a_dead_letter(
    database: Database, connection: asyncpg.Connection
) -> None:
    """A server that answers 500 for one text looks like one that is down; meanwhile the others get through."""
    ids = await enqueue(connection, "test", [None] * 9 + [BAD] + [None] * 20)
    handler = raising(UnavailableError("HTTP 500", provider="fake", retry_in=0.02))
    async with working(worker_on(database, handler, batch=64)):
        await until(connection, IDLE)
    dead = await dead_letter(connection)
    assert dead["id"] == ids[9]
    assert "HTTP 500" in dead["error"]
    assert await connection.fetchval("select count(*) from done") == 29


async def test_a_provider_that_fails_for_every_job_makes_no_dead_letters(
    database: Database, connection: asyncpg.Connection
) -> None:
    await enqueue(connection, "test", [None] * 5)
    down = Down(calls=60)
    async with working(worker_on(database, Doing(before=down), batch=64)):
        await until(connection, IDLE)
    assert down.calls <= 0
    assert await connection.fetchval("select count(*) from done") == 5
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0


class Down:
    """A provider that is down for so many calls."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    async def __call__(self, jobs: Sequence[Job]) -> None:
        self.calls -= 1
        if self.calls > 0:
            raise UnavailableError("down", provider="fake", retry_in=0.01)


async def dead_letter(connection: asyncpg.Connection) -> asyncpg.Record:
    """The only dead letter."""
    rows = await connection.fetch("select * from memoryd.dead_letters")
    assert len(rows) == 1
    row: asyncpg.Record = rows[0]
    return row


@pytest.mark.parametrize("lanes", [0, 4])
async def test_a_job_that_can_never_succeed_becomes_a_dead_letter_at_once_and_alone(
    database: Database, connection: asyncpg.Connection, lanes: int
) -> None:
    ids = await enqueue(
        connection, "test", [None] * 5 + [BAD] + [None] * 7, lanes=["a"] * 13 if lanes else ()
    )
    handler = raising(Poison("the document is encrypted"))
    async with working(worker_on(database, handler, lanes=lanes)):
        await until(connection, IDLE)
    dead = await dead_letter(connection)
    assert (dead["id"], dead["attempts"]) == (ids[5], 1)
    assert dead["error"] == "Poison: the document is encrypted"
    assert await connection.fetchval("select array_agg(job order by place) from done") == ids[:5] + ids[6:]
    # 13 -> 6 + 7 -> ... -> 1: the search for the bad job splits in halves.
    assert len(handler.batches) <= 1 + 2 * 4


@pytest.mark.parametrize("error", [RuntimeError("no"), OSError("no such file")], ids=repr)
@pytest.mark.parametrize("lanes", [0, 4])
async def test_a_job_becomes_a_dead_letter_when_its_attempts_are_used_up(
    database: Database, connection: asyncpg.Connection, error: Exception, lanes: int
) -> None:
    ids = await enqueue(connection, "test", [None, BAD, None], lanes=["a"] * 3 if lanes else ())
    async with working(worker_on(database, raising(error), lanes=lanes, max_attempts=2)):
        await until(connection, IDLE)
    dead = await dead_letter(connection)
    assert (dead["id"], dead["attempts"]) == (ids[1], 2)
    assert dead["error"] == f"{type(error).__name__}: {error}"
    done = await connection.fetchval("select array_agg(job order by place) from done")
    assert (done if lanes else sorted(done)) == [ids[0], ids[2]]


async def cancel_own_statement(connection: AnyConnection, jobs: Sequence[Job]) -> None:
    """A statement that the server's statement_timeout ends, every time."""
    if any(job.payload for job in jobs):
        await connection.execute("set local statement_timeout = 20")
        await connection.execute("select pg_sleep(10)")


async def end_own_connection(connection: AnyConnection, jobs: Sequence[Job]) -> None:
    """A statement that takes its server process with it, every time."""
    if any(job.payload for job in jobs):
        await connection.execute("select pg_terminate_backend(pg_backend_pid())")


@pytest.mark.parametrize("within", [cancel_own_statement, end_own_connection])
async def test_a_job_whose_statements_the_server_cancels_becomes_a_dead_letter(
    database: Database,
    connection: asyncpg.Connection,
    within: Callable[[AnyConnection, Sequence[Job]], Awaitable[None]],
) -> None:
    ids = await enqueue(connection, "test", [None, BAD, None])
    async with working(worker_on(database, Doing(within=within), max_attempts=2)):
        await until(connection, IDLE)
    assert (await dead_letter(connection))["id"] == ids[1]
    assert await connection.fetchval("select array_agg(job order by job) from done") == [ids[0], ids[2]]


async def test_a_row_that_the_database_refuses_becomes_a_dead_letter_without_its_content(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        f"alter table agent_memory add constraint no_secrets check (content !~ '{SECRET}')"
    )
    await connection.execute(
        """
        insert into agent_commands (agent_id, message, status, output, exit_code)
        select 'alice', 'rotate the keys ' || n, 'completed', case n when 7 then $1 else 'rotated ' || n end, 0
        from generate_series(1, 20) n
        """,
        f"the new password is {SECRET}",
    )
    daemon = await daemons.start(http=0)
    await until(connection, IDLE)
    dead = await dead_letter(connection)
    assert dead["topic"] == "capture"
    assert "no_secrets" in dead["error"]
    assert SECRET not in dead["error"]
    assert await connection.fetchval("select count(*) from agent_memory") == 19
    event = await daemon.event("job_discarded")
    assert (event["job"], event["hint"]) == (dead["id"], "memoryd dead")
    samples = await http.scrape((await daemon.event("http_listening"))["url"])
    assert http.value(samples, "memoryd_dead_letters", topic="capture") == 1
    assert http.value(samples, "memoryd_jobs_handled_total", topic="capture", outcome="discarded") == 1
    assert SECRET not in daemon.text()
