"""What a client hears that LISTENs: command_ready, once for each agent and statement; nothing when it is switched off."""

from __future__ import annotations

import json

import asyncpg
import pytest

from tests.support.database.notifications import Notifications
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import ask

INSERT = """
insert into agent_commands (agent_id, message, status) select 'agent ' || n % {}, 'm', '{}' from generate_series(1, {}) n
"""


@pytest.fixture
async def heard(second: asyncpg.Connection) -> Notifications:
    """What a client hears of the public channels."""
    opened = Notifications(second)
    await opened.listen("command_ready", "request_finished")
    return opened


def agents(received: list[tuple[str, str]]) -> list[str]:
    """The agents whose command_ready was heard, sorted; nothing else may have been."""
    assert {channel for channel, _ in received} <= {"command_ready"}
    told = [json.loads(payload) for _, payload in received]
    assert all(set(one) == {"agent_id"} for one in told)
    return sorted(one["agent_id"] for one in told)


async def test_an_insert_of_many_ready_commands_is_notified_once_for_each_agent(
    connection: asyncpg.Connection, heard: Notifications
) -> None:
    await connection.execute(INSERT.format(3, "ready", 30))
    assert agents(await heard.until_now(connection)) == ["agent 0", "agent 1", "agent 2"]


async def test_an_update_to_ready_is_notified_once_for_each_agent(
    connection: asyncpg.Connection, heard: Notifications
) -> None:
    await connection.execute(INSERT.format(2, "pending", 10))
    assert await heard.until_now(connection) == []
    await connection.execute("update agent_commands set status = 'ready'")
    assert agents(await heard.until_now(connection)) == ["agent 0", "agent 1"]
    await connection.execute('update agent_commands set metadata = \'{"still": "ready"}\'')
    await connection.execute("select claim_command('agent 1')")
    await connection.execute("update agent_commands set status = 'completed'")
    assert await heard.until_now(connection) == []


async def test_a_rolled_back_change_is_never_notified(
    connection: asyncpg.Connection, heard: Notifications
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(INSERT.format(3, "ready", 30))
    await transaction.rollback()
    assert await heard.until_now(connection) == []


async def test_an_agent_is_notified_of_its_command_and_can_claim_it(
    connection: asyncpg.Connection, heard: Notifications, daemon: DaemonProcess
) -> None:
    command = await ask(connection, "call me", agent_id='quoted "agent" \\ é')
    channel, payload = await heard.next()
    assert (channel, json.loads(payload)) == ("command_ready", {"agent_id": 'quoted "agent" \\ é'})
    assert await connection.fetchval("select id from claim_command($1)", 'quoted "agent" \\ é') == command


async def test_an_agent_id_of_any_length_can_be_notified(
    connection: asyncpg.Connection, heard: Notifications
) -> None:
    # Of what a name may hold these take most room in JSON.
    for name in ('"\\' * 100, "🐘" * 200):
        await ask(connection, "long", agent_id=name, status="ready")
        (_, payload), *rest = await heard.until_now(connection)
        assert json.loads(payload) == {"agent_id": name}
        assert rest == []
