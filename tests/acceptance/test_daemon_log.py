"""What the log of a daemon says while nothing is to do."""

from __future__ import annotations

import asyncpg

from tests.support.processes.daemons import Daemons


async def test_an_idle_daemon_says_that_it_beats_and_which_ticks_found_nothing(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start(
        log_level="debug",
        heartbeat_seconds=1,
        cleanup_seconds=1,
        dream_idle_hours=5,
        trail_checkpoint_minutes=1 / 60,
    )
    [started] = daemon.events("daemon_started")
    assert started["dream_idle_hours"] == 5
    beat = await daemon.event("heartbeat")
    assert (beat["dream_due"], beat["dreams"], beat["level"]) == (False, False, "debug")
    for tick in (
        "expire_memories",
        "expire_conversations",
        "archive_knowledge",
        "expire_answers",
        "trail_positions",
    ):
        assert (await daemon.event("tick_found_nothing", tick=tick))["level"] == "debug"
    # One that finds something says what.
    await connection.execute("insert into agent_memory (agent_id, content, ttl_hours) values ('a', 'x', 1)")
    before = len(daemon.lines)
    await connection.execute("update agent_memory set expires_at = now() - interval '1 second'")
    await daemon.event("memories_expired", after=before)
    assert await daemon.stop() == 0
