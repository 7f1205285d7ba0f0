"""A job that kills its worker each time becomes a dead letter; the others of its batch are done."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.support.processes.daemons import environment
from tests.support.processes.workers import CREATE_DONE, enqueue
from tests.support.waiting import IDLE, until

MAX_ATTEMPTS = 2
KILLER = '{"kill": true}'


async def work_until_idle(connection: asyncpg.Connection, url: str, folder: Path, *, lanes: int) -> int:
    """Starts a worker whenever there is none, until all jobs are gone; returns how many died."""
    deaths = 0
    while True:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "tests.support.processes.workers",
                url,
                "test",
                str(lanes),
                "1",
                str(MAX_ATTEMPTS),
            ),
            env=environment(url, {}),
            cwd=folder,
        )
        died, idle = asyncio.create_task(process.wait()), asyncio.create_task(until(connection, IDLE))
        await asyncio.wait([died, idle], return_when=asyncio.FIRST_COMPLETED)
        if idle.done():
            process.kill()
            await died
            await idle
            return deaths
        idle.cancel()
        await asyncio.wait([idle])
        assert died.result() == -signal.SIGKILL
        deaths += 1


@pytest.mark.parametrize("lanes", [0, 4], ids=["unordered", "lane"])
async def test_a_job_that_kills_its_worker_becomes_a_dead_letter_and_its_batch_is_done(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path, lanes: int
) -> None:
    await connection.execute(CREATE_DONE)
    payloads = [None] * 6 + [KILLER] + [None] * 6
    ids = await enqueue(connection, "test", payloads, lanes=["a"] * 13 if lanes else ())
    assert await work_until_idle(connection, database_url, tmp_path, lanes=lanes) == MAX_ATTEMPTS
    dead = await connection.fetchrow("select * from memoryd.dead_letters")
    assert dead is not None
    assert (dead["id"], dead["attempts"]) == (ids[6], MAX_ATTEMPTS + 1)
    assert "its worker died" in dead["error"]
    done = await connection.fetchval("select array_agg(job order by place) from done")
    assert (done if lanes else sorted(done)) == ids[:6] + ids[7:]
