"""kill -9 or SIGSTOP at any moment: no work is lost and none is done twice."""

from __future__ import annotations

import asyncio
import random
import signal
from typing import Any

import asyncpg

from tests.support.content.finished import all_done
from tests.support.processes.daemons import Daemons
from tests.support.processes.load import load_on

KILLS = 5
ROUNDS = 10


async def test_a_load_is_done_once_although_daemons_are_killed_at_random(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    rng = random.Random(20261120)
    settings: dict[str, Any] = {
        "claim_seconds": 1,
        "poll_seconds": 0.3,
        "heartbeat_seconds": 0.3,
        # More than there are kills: a job that was claimed at each of them is not at fault.
        "max_attempts": KILLS + 2,
        "executor_command": "cat",
        "executor_parallel": 3,
        "cleanup_seconds": 1,
        "dream_idle_hours": 0.0001,
        "dream_every_hours": 0.0001,
    }
    async with load_on(database_url, rounds=ROUNDS, pause=0.2) as load:
        for _ in range(KILLS):
            daemon = await daemons.start(**settings)
            # The moment is the point: no event marks it.
            await asyncio.sleep(rng.uniform(0.0, 0.6))
            await daemon.kill()
    assert load.rounds == ROUNDS
    last = await daemons.start(**settings)
    await all_done(connection)
    counts = await connection.fetchrow(
        """
        select (select count(*) from agent_commands) as commands,
               (select count(*) from agent_memory where command_id is null) as notes,
               (select count(*) from agent_commands where agent_id like 'robot%' and status = 'completed'
                and output <> message || e'\\n' and output not like '%CONTEXT%') as garbled
        """
    )
    assert counts is not None
    assert dict(counts) == {"commands": ROUNDS * 13, "notes": ROUNDS * 10, "garbled": 0}
    assert await last.stop() == 0
    assert (
        await connection.fetchval("select count(*) from memoryd.daemons where pid = $1", last.process.pid)
        == 0
    )


async def test_a_daemon_that_was_stopped_past_its_claims_writes_nothing_when_it_continues(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    """As when a laptop is closed, or a machine paused: its claims run out, and it does not know."""
    settings: dict[str, Any] = {
        "claim_seconds": 1,
        "poll_seconds": 0.3,
        "executor_command": "cat",
        "max_attempts": 20,
    }
    sleeper = await daemons.start(**settings)
    other = await daemons.start(**settings)
    async with load_on(database_url, rounds=ROUNDS, pause=0.2) as load:
        for _ in range(2):
            sleeper.process.send_signal(signal.SIGSTOP)
            # Longer than any claim is valid.
            await asyncio.sleep(1.3)
            sleeper.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.2)
    assert load.rounds == ROUNDS
    await all_done(connection)
    assert await connection.fetchval("select count(*) from agent_commands") == ROUNDS * 13
    assert await connection.fetchval("select count(*) from agent_memory") == ROUNDS * 23
    for daemon in (sleeper, other):
        assert await daemon.stop() == 0
        assert not [line for line in daemon.lines if line.get("level", "error") == "error"], daemon.text()
