"""A dead letter keeps the error of the last attempt that ended, also when a later one died."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest

from handlers.shared.ports import Commit, Job
from tests.support.processes.workers import CREATE_DONE, enqueue, open_database, worker_on, working
from tests.support.waiting import IDLE, until

REASON = "select error from memoryd.dead_letters"


class Failing:
    """Fails with the same error each time."""

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """See `Handler`."""
        raise ArithmeticError(f"{len(jobs)} cannot be halved")


@pytest.mark.parametrize("lanes", [0, 4])
async def test_a_job_whose_last_attempt_died_becomes_a_dead_letter_with_the_last_known_error(
    connection: asyncpg.Connection, database_url: str, lanes: int
) -> None:
    await connection.execute(CREATE_DONE)
    await enqueue(connection, "test", [None], lanes=["a"] if lanes else ())
    async with open_database(database_url) as database:
        worker = worker_on(database, Failing(), lanes=lanes, max_attempts=2)
        async with working(worker):
            await until(connection, "select last_error is not null from memoryd.jobs")
    # Claimed once more, in a batch of its own, and its worker died.
    await connection.execute("update memoryd.jobs set attempt = 2, solo_attempts = 1, visible_at = now()")
    await connection.execute("update memoryd.lanes set not_before = now()")
    async with open_database(database_url) as database:
        worker = worker_on(database, Failing(), lanes=lanes, max_attempts=2)
        async with working(worker):
            await until(connection, IDLE)
    reason = await connection.fetchval(REASON)
    assert (
        reason
        == "discarded after 2 attempts, the last of which ended with its worker; the error before that: "
        "ArithmeticError: 1 cannot be halved"
    )
