"""A command's way through its statuses: claimed once and oldest first, completed by function or by hand, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from tests.support.database.schemas import embedded_by
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import DIMENSIONS, ask, column, one_row, remember
from tests.support.services.openai_server import HANG, OpenAIServer
from tests.support.waiting import IDLE, READY, until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STATUS = "select status from agent_commands where id = $1"


@pytest.fixture
async def twenty(database_url: str) -> AsyncIterator[list[asyncpg.Connection]]:
    opened = [await asyncpg.connect(database_url) for _ in range(20)]
    yield opened
    for one in opened:
        await one.close()


async def test_twenty_concurrent_claimants_claim_each_command_once(twenty: list[asyncpg.Connection]) -> None:
    await twenty[0].execute(
        "insert into agent_commands (agent_id, message, status, created_at) "
        "select 'alice', 'task ' || n, 'ready', $1::timestamptz + make_interval(secs => n) from generate_series(1, 300) n",
        NOON,
    )

    async def claim_all(connection: asyncpg.Connection) -> list[datetime]:
        claimed: list[datetime] = []
        while rows := await connection.fetch("select * from claim_command('alice')"):
            assert len(rows) == 1
            assert rows[0]["status"] == "running"
            claimed.append(rows[0]["created_at"])
        return claimed

    by_claimant = await asyncio.gather(*(claim_all(one) for one in twenty))
    assert all(claimed == sorted(claimed) for claimed in by_claimant)
    everything = sorted(time for claimed in by_claimant for time in claimed)
    assert everything == [NOON + timedelta(seconds=n) for n in range(1, 301)]
    assert sum(1 for claimed in by_claimant if claimed) > 1
    unfinished = "select count(*) from agent_commands where status <> 'running' or started_at is null"
    assert await twenty[0].fetchval(unfinished) == 0


async def test_the_oldest_ready_command_is_claimed_first(connection: asyncpg.Connection) -> None:
    for message, hours, status in (
        ("third", 3, "ready"),
        ("first", 1, "ready"),
        ("earliest of all, but not ready", 0, "pending"),
        ("second", 2, "ready"),
    ):
        await ask(connection, message, created_at=NOON + timedelta(hours=hours), status=status)
    await ask(connection, "of somebody else", agent_id="bob", created_at=NOON, status="ready")
    claimed = [await connection.fetchval("select message from claim_command('alice')") for _ in range(4)]
    assert claimed == ["first", "second", "third", None]


async def test_a_known_agent_without_ready_commands_claims_none(connection: asyncpg.Connection) -> None:
    await connection.execute("insert into agents (agent_id) values ('idle')")
    assert await connection.fetch("select * from claim_command('idle')") == []
    await remember(connection, "an agent is known by its memories too", agent_id="thinker")
    assert await connection.fetch("select * from claim_command('thinker')") == []


async def test_a_rolled_back_claim_leaves_the_command_ready(
    connection: asyncpg.Connection, twenty: list[asyncpg.Connection]
) -> None:
    command = await ask(connection, "come back", status="ready")
    transaction = connection.transaction()
    await transaction.start()
    assert await connection.fetchval("select id from claim_command('alice')") == command
    meanwhile = twenty[0].fetch("select * from claim_command('alice')")
    assert await asyncio.wait_for(meanwhile, 90) == []
    await transaction.rollback()
    assert await twenty[0].fetchval("select id from claim_command('alice')") == command


@pytest.mark.parametrize(("exit_code", "status"), [(0, "completed"), (1, "failed"), (None, "completed")])
async def test_completing_a_command_sets_the_status_by_the_exit_code(
    connection: asyncpg.Connection, exit_code: int | None, status: str
) -> None:
    command = await ask(connection, "try it", status="ready")
    await connection.execute("select claim_command('alice')")
    if exit_code is None:
        await connection.execute("select complete_command($1, 'output')", command)
    else:
        await connection.execute("select complete_command($1, 'output', $2)", command, exit_code)
    row = await one_row(
        connection,
        "select status, output, exit_code, finished_at >= started_at as in_order from agent_commands where id = $1",
        command,
    )
    assert tuple(row) == (status, "output", exit_code or 0, True)


async def test_statuses_set_by_hand_work_like_the_functions(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    by_function, by_hand = (
        await ask(connection, "deploy it", agent_id="f"),
        await ask(connection, "deploy it", agent_id="h"),
    )
    for command in (by_function, by_hand):
        await until(connection, READY, command)
    await connection.execute("select claim_command('f')")
    await connection.execute("select complete_command($1, 'refused', 3)", by_function)
    await connection.execute("update agent_commands set status = 'running' where id = $1", by_hand)
    await connection.execute(
        "update agent_commands set status = 'failed', output = 'refused', exit_code = 3 where id = $1",
        by_hand,
    )
    await until(connection, IDLE)
    one, other = await connection.fetch(
        "select m.kind, m.content, m.metadata, m.ttl_hours, m.created_at = c.finished_at as when_it_finished, "
        "c.started_at is not null as has_begun, c.finished_at >= c.started_at as has_ended "
        "from agent_commands c join agent_memory m on m.command_id = c.id where c.id = any($1)",
        [by_function, by_hand],
    )
    assert tuple(one) == tuple(other)
    assert tuple(one)[:2] == ("error", "Task: deploy it → failed (exit 3)\nrefused")
    assert tuple(one)[4:] == (True, True, True)


async def test_a_statement_over_many_commands_captures_each(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await connection.execute(
        "insert into agent_commands (agent_id, message, status) "
        "select 'agent ' || n % 3, 'task ' || n, 'running' from generate_series(1, 30) n"
    )
    await connection.execute("update agent_commands set status = 'completed', output = 'done ' || message")
    await until(connection, IDLE)
    contents = await column(connection, "select content from agent_memory where kind = 'outcome'")
    assert sorted(map(str, contents)) == sorted(
        f"Task: task {n} → completed\ndone task {n}" for n in range(1, 31)
    )


async def test_a_command_inserted_as_finished_is_captured(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    long_ago = datetime(2020, 5, 17, 8, 30, tzinfo=UTC)
    user, session = UUID(int=7), UUID(int=8)
    command = await ask(
        connection,
        "migrate the ledger",
        user_id=user,
        session_id=session,
        status="failed",
        output="constraint violated",
        exit_code=2,
        created_at=long_ago - timedelta(hours=1),
        finished_at=long_ago,
    )
    await until(connection, IDLE)
    memory = await one_row(connection, "select * from agent_memory where command_id = $1", command)
    assert (memory["kind"], memory["created_at"], memory["user_id"], memory["session_id"]) == (
        "error",
        long_ago,
        user,
        session,
    )
    assert memory["content"] == "Task: migrate the ledger → failed (exit 2)\nconstraint violated"
    # Remembered now, so forgotten 72 hours from now.
    assert await connection.fetchval(
        "select expires_at - now() between '71 hours' and '72 hours' from agent_memory"
    )
    assert await column(connection, "select id from recall('ledger', 'alice', $1)", user) == [memory["id"]]


async def test_a_later_change_of_an_outcome_is_not_captured_again(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    command = await ask(connection, "count the sheep", status="running")
    await connection.execute("select complete_command($1, 'forty', 0)", command)
    await until(connection, IDLE)
    await connection.execute(
        "update agent_commands set status = 'failed', output = 'lost one' where id = $1", command
    )
    await connection.execute(
        "update agent_commands set status = 'running', output = null where id = $1", command
    )
    await connection.execute("select complete_command($1, 'forty-one', 0)", command)
    await until(connection, IDLE)
    contents = await column(connection, "select content from agent_memory")
    assert contents == ["Task: count the sheep → completed\nforty"]


async def test_commands_of_a_disabled_agent_are_cancelled_with_the_reason(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await connection.execute(
        "insert into agents (agent_id, enabled, disabled_reason) values ('off', false, 'over budget'), ('mute', false, null)"
    )
    off, mute = (
        await ask(connection, "spend more", agent_id="off"),
        await ask(connection, "speak", agent_id="mute"),
    )
    other = await ask(connection, "carry on")
    await until(connection, READY, other)
    await until(connection, IDLE)
    rows = await connection.fetch(
        "select status, error, context, ready_at, finished_at is not null as finished from agent_commands "
        "where id = any($1) order by error",
        [off, mute],
    )
    assert [tuple(row) for row in rows] == [
        ("cancelled", "agent mute is disabled", None, None, True),
        ("cancelled", "agent off is disabled: over budget", None, None, True),
    ]
    assert await connection.fetchval("select count(*) from agent_memory") == 0
    assert await connection.fetch("select * from claim_command('off')") == []

    await connection.execute("update agents set enabled = true where agent_id = 'off'")
    await until(connection, READY, await ask(connection, "save", agent_id="off"))


async def test_a_command_cancelled_before_its_turn_stays_cancelled(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    async with connection.transaction():  # nor can the daemon be the faster one
        command = await ask(connection, "never mind")
        await connection.execute("update agent_commands set status = 'cancelled' where id = $1", command)
    await until(connection, IDLE)
    row = await one_row(
        connection,
        "select status, context, finished_at is not null from agent_commands where id = $1",
        command,
    )
    assert tuple(row) == ("cancelled", None, True)


async def test_a_command_cancelled_while_its_context_is_made_stays_cancelled(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    with OpenAIServer(dimensions=DIMENSIONS) as server:
        await embedded_by(connection, "openai/any")
        server.always = HANG
        await daemons.start(
            embedder="openai/any",
            embedding_dimensions=DIMENSIONS,
            openai_base_url=server.base_url,
            openai_api_key="k",
        )
        command = await ask(connection, "never mind")
        assert await asyncio.to_thread(server.hanging.wait, 20)
        await connection.execute("update agent_commands set status = 'cancelled' where id = $1", command)
        server.heal()
        await until(connection, IDLE)
    assert tuple(await one_row(connection, "select status, context from agent_commands")) == (
        "cancelled",
        None,
    )
    assert await connection.fetchval("select count(*) from memory_queries") == 0


async def test_a_command_put_back_to_pending_gets_a_fresh_context(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    command = await ask(connection, "paint the fence")
    await until(connection, READY, command)
    await remember(connection, "the fence is to be painted green", kind="fact")
    await until(connection, IDLE)
    await connection.execute(
        "update agent_commands set status = 'pending', context = null where id = $1", command
    )
    await until(connection, READY, command)
    assert "painted green" in await connection.fetchval(
        "select context from agent_commands where id = $1", command
    )


async def test_a_command_inserted_as_ready_is_claimed_without_a_context(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    command = await ask(connection, "no context, please", status="ready")
    claimed = await one_row(connection, "select id, context from claim_command('alice')")
    assert tuple(claimed) == (command, None)
    assert await connection.fetchval(STATUS, command) == "running"
