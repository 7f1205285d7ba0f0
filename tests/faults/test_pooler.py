"""Behind a transaction pooler nothing of a session survives; all that is lost is the doorbell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from daemon.doorbell import hears_notifications
from tests.support.command_line import memoryd
from tests.support.daemons import DaemonProcess, Daemons
from tests.support.transaction_pooler import TransactionPooler
from tests.support.waiting import IDLE, until


@pytest.fixture
async def pooler(empty_url: str) -> AsyncIterator[TransactionPooler]:
    """A pooler with two server connections before an empty database."""
    async with TransactionPooler(empty_url) as started:
        yield started


async def test_the_pooler_of_these_tests_breaks_what_the_real_ones_break(
    pooler: TransactionPooler, empty_url: str
) -> None:
    assert not await hears_notifications(pooler.url)
    assert await hears_notifications(empty_url)
    with pytest.raises(asyncpg.ProtocolViolationError, match="jit"):
        await asyncpg.connect(pooler.url, server_settings={"jit": "off"})
    connection = await asyncpg.connect(pooler.url)
    await connection.fetchval("select $1::integer", 1)
    with pytest.raises(asyncpg.InvalidSQLStatementNameError):
        await connection.fetchval("select $1::integer", 1)
    await connection.close()


async def live_through(connection: asyncpg.Connection, agent: str) -> None:
    """One command from its insertion to the context of the next."""
    command = await connection.fetchval(
        "insert into agent_commands (agent_id, message) values ($1, 'deploy the staging server') returning id", agent
    )
    await until(connection, "select status = 'ready' from agent_commands where id = $1", command)
    await connection.execute("select claim_command($1)", agent)
    await connection.execute("select complete_command($1, 'deployed build 512')", command)
    memory = await until(connection, "select id from agent_memory where command_id = $1 and embedding is not null", command)
    note = await connection.fetchval(
        "insert into agent_memory (agent_id, content) values ($1, 'the staging server restarts slowly') returning id", agent
    )
    await until(connection, "select embedding is not null from agent_memory where id = $1", note)
    await until(connection, IDLE)
    linked = "select related_memory_id from memory_associations where memory_id = $1"
    assert await connection.fetchval(linked, note) == memory
    request = await connection.fetchval(
        "insert into memory_requests (kind, agent_id, query) values ('recall', $1, 'staging') returning id", agent
    )
    assert "build 512" in await until(connection, "select result::text from memory_requests where id = $1", request)


async def test_everything_works_through_a_transaction_pooler(
    pooler: TransactionPooler, empty_url: str, tmp_path: Path
) -> None:
    migrated = await memoryd("migrate", url=pooler.url, folder=tmp_path)
    assert migrated.code == 0, migrated.err
    again = await memoryd("migrate", url=pooler.url, folder=tmp_path)
    assert (again.code, again.out) == (0, "The schema is up to date.\n"), again.err

    daemons = Daemons(pooler.url, tmp_path)
    connection = await asyncpg.connect(empty_url)
    try:
        daemon = await daemons.start(poll_seconds=0.2, executor_command="cat", heartbeat_seconds=0.2, cleanup_seconds=1)
        assert (await daemon.event("daemon_started"))["doorbell"] == "poll"
        await connection.execute("insert into agent_commands (agent_id, message) values ('robot', 'say hello')")
        assert await until(connection, "select output from agent_commands where status = 'completed'") == "say hello\n"
        await until(connection, "select exists (select from memoryd.ticks where name = 'expire_memories')")
        await daemon.stop()
        assert not await connection.fetchval("select exists (select from memoryd.daemons)")

        daemon = await daemons.start(poll_seconds=0.2)
        await live_through(connection, "alice")
        assert await daemon.stop() == 0
        assert not [line for line in daemon.lines if line["level"] in ("warning", "error")], daemon.text()
        assert await connection.fetchval("select count(*) from memoryd.dead_jobs") == 0
    finally:
        await connection.close()
        await daemons.kill_all()


@pytest.mark.parametrize(("doorbell", "expected"), [("auto", "listen"), ("listen", "listen"), ("poll", "poll")])
async def test_a_direct_connection_has_the_doorbell_that_was_asked_for(
    daemons: Daemons, connection: asyncpg.Connection, doorbell: str, expected: str
) -> None:
    # With a poll of an hour only the doorbell, or the round after the start, can be what picks the work up.
    poll = 3600 if expected == "listen" else 0.2
    daemon: DaemonProcess = await daemons.start(doorbell=doorbell, poll_seconds=poll)
    assert (await daemon.event("daemon_started"))["doorbell"] == expected
    assert await until(connection, "select doorbell from memoryd.daemons") == expected
    await live_through(connection, "alice")
    assert await daemon.stop() == 0
