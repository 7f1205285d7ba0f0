"""The history of what was done, of real daemons."""

from __future__ import annotations

import asyncpg

from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask
from tests.support.waiting import IDLE, READY, until

DONE = "select coalesce(sum(done), 0)::integer from memoryd.activity where topic = 'context'"


async def test_what_daemons_do_is_counted_once_across_restarts_in_a_minute(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    for messages in (1, 3):
        daemon = await daemons.start()
        for n in range(messages):
            await until(connection, READY, await ask(connection, f"deploy {messages}.{n}"))
        await until(connection, IDLE)
        assert await daemon.stop() == 0
    one, other = await daemons.start(), await daemons.start()
    for n in range(4):
        await until(connection, READY, await ask(connection, f"deploy again {n}"))
    assert (await one.stop(), await other.stop()) == (0, 0)
    assert await connection.fetchval(DONE) == 8


async def test_a_daemon_that_is_killed_takes_only_its_minute_along(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start()
    await until(connection, READY, await ask(connection, "deploy"))
    await daemon.stop()
    killed = await daemons.start()
    await until(connection, READY, await ask(connection, "deploy again"))
    await killed.kill()
    # 2 where its minute ended just before.
    assert await connection.fetchval(DONE) in {1, 2}


async def test_run_once_leaves_its_history(memoryd: Commands, connection: asyncpg.Connection) -> None:
    await ask(connection, "deploy")
    assert (await memoryd("run", "--once")).code == 0
    assert await connection.fetchval(DONE) == 1
    assert await connection.fetchval("select count(*) from memoryd.settings where key = 'sizes'") == 1
    # What waited before it began its work.
    assert await connection.fetchval(
        "select waiting from memoryd.activity where topic = 'context' limit 1"
    ) in {1, None}
