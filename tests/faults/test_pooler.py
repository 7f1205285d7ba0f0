"""Behind a transaction pooler nothing of a session survives; only wake-ups by notification are lost."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from daemon.db.server import hears_notifications
from tests.support.content.index import INDEXED, INDEXED_MEMORIES
from tests.support.database.transaction_pooler import TransactionPooler
from tests.support.processes.coding_agent import CONCLUDED, CodingAgent
from tests.support.processes.commands import memoryd
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import remember
from tests.support.services.every_page import addresses
from tests.support.services.web_pages import served
from tests.support.waiting import IDLE, beats, until


@pytest.fixture
async def pooler(empty_url: str) -> AsyncIterator[TransactionPooler]:
    """A pooler with two server connections before an empty database."""
    async with TransactionPooler(empty_url) as started:
        yield started


async def test_the_pooler_of_these_tests_loses_session_state_as_real_ones_do(
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


async def live_through(connection: asyncpg.Connection) -> None:
    """One command from its insertion, through the built-in executor, to what is recalled of it."""
    command = await connection.fetchval(
        "insert into agent_commands (agent_id, message) values ('alice', 'deploy the staging server') returning id"
    )
    memory = await until(
        connection,
        f"select id from agent_memory where command_id = $1 and id in ({INDEXED_MEMORIES})",
        command,
    )
    assert await connection.fetchval("select output from agent_commands") == "deploy the staging server\n"
    note = await connection.fetchval(
        "insert into agent_memory (agent_id, content) values ('alice', 'the staging server restarts slowly') returning id"
    )
    await until(connection, INDEXED, note)
    await until(connection, IDLE)
    linked = "select related_memory_id from memory_associations where memory_id = $1"
    assert await connection.fetchval(linked, note) == memory
    request = await connection.fetchval(
        "insert into memory_requests (kind, agent_id, query) values ('recall', 'alice', 'staging') returning id"
    )
    assert "restarts slowly" in await until(
        connection, "select result::text from memory_requests where id = $1", request
    )


async def test_everything_works_through_a_transaction_pooler(
    pooler: TransactionPooler, empty_url: str, tmp_path: Path
) -> None:
    migrated = await memoryd("migrate", url=pooler.url, folder=tmp_path)
    assert migrated.code == 0, migrated.err
    assert "applied schema/0001" in migrated.out

    daemons = Daemons(pooler.url, tmp_path)
    connection = await asyncpg.connect(empty_url)
    try:
        # The start looks for something to migrate, through the pooler too.
        daemon = await daemons.start(
            poll_seconds=0.2, executor_command="cat", heartbeat_seconds=0.2, cleanup_seconds=1
        )
        assert (await daemon.event("daemon_started"))["wake_up"] == "poll"
        await live_through(connection)
        await until(
            connection,
            "select exists (select from memoryd.lanes where topic = 'tick' and lane = 'expire_memories')",
        )
        assert await daemon.stop() == 0
        assert not [line for line in daemon.lines if line["level"] in ("warning", "error")], daemon.text()
        assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
        assert not await connection.fetchval("select exists (select from memoryd.daemons)")
    finally:
        await connection.close()
        await daemons.kill_all()


async def state_of(url: str) -> set[tuple[str, str, str]]:
    """What a hook sets, on each of the pooler's server connections."""
    found = set()
    for _ in range(4):
        connection = await asyncpg.connect(url, statement_cache_size=0)
        async with connection.transaction():
            row = await connection.fetchrow(
                "select current_setting('role'), current_setting('statement_timeout'),"
                " current_setting('client_min_messages')"
            )
        assert row is not None
        found.add(tuple(row))
        await connection.close()
    return found


async def test_hooks_leave_a_poolers_connections_as_they_were(database_url: str, tmp_path: Path) -> None:
    async with TransactionPooler(database_url) as pooler:
        before = await state_of(pooler.url)
        claude = CodingAgent.at(tmp_path, pooler.url)
        assert "Remembered as a rule" in await claude.say("always run tests with make test's \\ '$1' -- x")
        await claude.tell("Stop", last_assistant_message=CONCLUDED)
        assert "make test's \\ '$1' -- x" in await claude.say("run the tests", "s2")
        assert not claude.spooled
        assert await state_of(pooler.url) == before


async def test_a_pooler_of_sessions_that_takes_no_settings_is_worked_with(
    database_url: str, tmp_path: Path
) -> None:
    async with TransactionPooler(database_url, connections=4, session=True) as pooler:
        assert not await hears_notifications(pooler.url)
        done = await memoryd("recall", "--agent", "alice", "the valve", url=pooler.url, folder=tmp_path)
        assert (done.code, done.out) == (0, "Nothing is remembered about this.\n"), done.err


async def test_behind_a_pooler_of_sessions_a_daemon_listens_and_counts_as_alive(
    database_url: str, connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    # Such a one tells clients a number of its own for their server process, and keeps their settings to itself.
    async with TransactionPooler(database_url, connections=20, session=True, strict=False) as pooler:
        assert await hears_notifications(pooler.url)
        daemon = await daemons.start(url=pooler.url, executor_command="cat", heartbeat_seconds=0.2)
        assert (await daemon.event("daemon_started"))["wake_up"] == "listen"
        await live_through(connection)
        await beats(connection)
        status = await memoryd("status", url=database_url, folder=tmp_path)
        assert status.code == 0, status.out
        backup = await memoryd("backup", str(tmp_path / "copy"), url=pooler.url, folder=tmp_path)
        assert backup.code == 0, backup.err
        assert await daemon.stop() == 0


async def test_pages_work_through_a_transaction_pooler(
    database_url: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    row = await remember(connection, "the valve is open", user_id=uuid.uuid4())
    async with TransactionPooler(database_url) as pooler, served(pooler.url, tmp_path, "--edit") as reader:
        for _ in range(2):
            # More at once than there are connections; what a page sets holds for its transaction alone.
            answers = await asyncio.gather(*(reader.http.get(path) for path in addresses()))
            assert {answer.status_code for answer in answers} <= {200, 404}
        page = await reader.get(f"/memories/{row}")
        version = page.partition('name="version" value="')[2].partition('"')[0]
        form = {"do": "correct", "kind": "fact", "version": version, "content": "the valve is shut"}
        assert (await reader.send(f"/memories/{row}", form)).status_code == 303
        assert "the valve is shut" in await reader.read(f"/memories/{row}")
    assert [line for line in reader.log if line["level"] != "info"] == []


@pytest.mark.parametrize(("pool", "expected"), [("auto", "listen"), ("transaction", "poll")])
async def test_a_direct_connection_listens_or_polls_as_the_setting_says(
    daemons: Daemons, connection: asyncpg.Connection, pool: str, expected: str
) -> None:
    # With a poll of an hour only a notification, or the round after the start, can be what picks the work up.
    poll = 3600 if expected == "listen" else 0.2
    daemon: DaemonProcess = await daemons.start(pooler=pool, poll_seconds=poll, executor_command="cat")
    assert (await daemon.event("daemon_started"))["wake_up"] == expected
    assert await until(connection, "select wake_up from memoryd.daemons") == expected
    await live_through(connection)
    assert await daemon.stop() == 0
