"""A dream whose daemon was killed is ended by the next heartbeat of any daemon."""

from __future__ import annotations

import asyncpg

from tests.support.daemons import Daemons
from tests.support.waiting import beats, until

LEFT = """
insert into dream_sessions (trigger, started_at, lease_until)
values ('idle', now() - interval '5 minutes', now() + make_interval(secs => $1))
returning id
"""


async def test_a_heartbeat_ends_the_dream_of_a_killed_daemon(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start(heartbeat_seconds=0.1)
    alive = await connection.fetchval(LEFT, 3600.0)
    await beats(connection)
    assert await connection.fetchval("select status from dream_sessions where id = $1", alive) == "running"
    # What a killed daemon leaves: a row as before, whose lease has run out.
    await connection.execute("update dream_sessions set lease_until = now() - interval '1 second'")
    ended = "select status = 'interrupted' and finished_at is not null from dream_sessions where id = $1"
    assert await until(connection, ended, alive)
    await beats(connection)
    assert len(daemon.events("dream_interrupted")) == 1
