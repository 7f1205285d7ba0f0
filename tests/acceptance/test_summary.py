"""The summary in the log: normal work is seen, and a daemon at rest is silent."""

from __future__ import annotations

import asyncpg

from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, remember
from tests.support.waiting import BLOCKED, IDLE, until

SECRET = "the vault opens at nine"
QUESTION = "insert into memory_requests (kind, query, agent_id) values ('recall', $1, 'alice')"
RUN = """
with taken as (select id from claim_command('alice')) select complete_command(id, 'done', 0) from taken
"""


async def test_what_was_done_is_summed_up(daemons: Daemons, connection: asyncpg.Connection) -> None:
    daemon = await daemons.start(summary_seconds=0.3)
    await remember(connection, SECRET, agent_id="alice")
    await ask(connection, "open the vault")
    await connection.execute(QUESTION, SECRET)
    await until(connection, IDLE)
    await connection.fetch(RUN)
    await until(connection, IDLE)
    assert await daemon.stop() == 0
    lines = daemon.events("summary")
    total = {
        name: sum(line.get(name, 0) for line in lines)
        for name in ("contexts", "captured", "indexed", "linked", "requests")
    }
    # What is captured is indexed with it.
    assert total == {"contexts": 1, "captured": 1, "indexed": 1, "linked": 2, "requests": 1}
    answered = [line for line in lines if "p50_ms" in line]
    assert answered
    assert all(0 <= line["p50_ms"] <= line["p99_ms"] for line in answered)
    # The last line, at the end, asks the database nothing any more.
    for line in lines[:-1]:
        assert line["lag_seconds"] >= 0
        assert line["dead"] == 0
    assert SECRET not in daemon.text()


async def test_an_end_while_the_database_is_asked_loses_no_count(
    daemons: Daemons, connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    daemon = await daemons.start(summary_seconds=0.1)
    async with second.transaction():
        # What waits is asked for, and the answer does not come.
        await second.execute("lock table memoryd.dead_letters in access exclusive mode")
        await remember(connection, SECRET, agent_id="alice")
        await until(connection, IDLE)
        await until(connection, BLOCKED)
        assert await daemon.stop() == 0
    assert sum(line.get("indexed", 0) for line in daemon.events("summary")) == 1


async def test_a_daemon_at_rest_is_silent(daemons: Daemons, connection: asyncpg.Connection) -> None:
    daemon = await daemons.start(summary_seconds=0.1)
    await until(connection, IDLE)
    assert await daemon.stop() == 0
    assert daemon.events("summary") == []
