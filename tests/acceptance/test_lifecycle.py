"""A command's whole memory lifecycle, through SQL and a real daemon."""

from __future__ import annotations

import asyncpg

from tests.support.content.index import INDEXED
from tests.support.processes.daemons import DaemonProcess
from tests.support.waiting import IDLE, READY, until


async def ask(connection: asyncpg.Connection, message: str, agent: str = "alice") -> object:
    """Inserts a command and waits until it is ready."""
    command = await connection.fetchval(
        "insert into agent_commands (agent_id, message) values ($1, $2) returning id", agent, message
    )
    await until(connection, READY, command)
    return command


async def test_a_command_is_remembered_and_comes_back_in_the_next_context(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    command = await ask(connection, "deploy the staging server")
    (claimed,) = await connection.fetch("select * from claim_command('alice')")
    assert (claimed["id"], claimed["status"], claimed["context"]) == (command, "running", "")

    await connection.execute(
        "select complete_command($1, $2, 0)", command, "building\n\x1b[32mdeployed build 512\x1b[0m"
    )
    await until(connection, IDLE)
    (memory,) = await connection.fetch("select * from agent_memory where command_id = $1", command)
    assert memory["kind"] == "outcome"
    assert memory["content"] == "Task: deploy the staging server → completed\nbuilding\ndeployed build 512"
    assert await connection.fetchval(INDEXED, memory["id"])
    assert "staging" in memory["keywords"]
    assert await connection.fetchval(
        "select expires_at - now() between '71 hours' and '72 hours' from agent_memory"
    )

    await ask(connection, "deploy the production server")
    context = await connection.fetchval("select context from agent_commands where status = 'ready'")
    assert all(part in context for part in ("You are alice.", "★", "deployed build 512"))
    assert len(context) <= 3000
    [started] = daemon.events("daemon_started")
    features = {name: started[name] for name in ("facts", "language_model", "situate", "replica", "drop")}
    assert features == {
        "facts": "off",
        "language_model": None,
        "situate": False,
        "replica": False,
        "drop": False,
    }
    (logged,) = await connection.fetch("select * from memory_queries order by query_time desc limit 1")
    assert logged["retrieved_memory_ids"] == [memory["id"]]
    assert logged["task_keywords"] == ["deploy", "production", "server"]


async def test_a_disabled_agent_is_given_nothing_not_even_what_was_ready(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    ready = await ask(connection, "deploy the staging server")
    await connection.execute(
        "update agents set enabled = false, disabled_reason = 'out of budget' where agent_id = 'alice'"
    )
    late = await connection.fetchval(
        "insert into agent_commands (agent_id, message) values ('alice', 'and the production server') returning id"
    )
    for command in (ready, late):
        await until(connection, "select status = 'cancelled' from agent_commands where id = $1", command)
        error = await connection.fetchval("select error from agent_commands where id = $1", command)
        assert error == "agent alice is disabled: out of budget"
    assert await connection.fetch("select * from claim_command('alice')") == []
