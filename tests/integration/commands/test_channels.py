"""What a client hears that LISTENs: command_ready, once for each agent and statement; nothing when it is switched off."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from tests.support.daemons import DaemonProcess, Daemons
from tests.support.rows import ask, insert, remember
from tests.support.waiting import IDLE, until

INSERT = """
insert into agent_commands (agent_id, message, status) select 'agent ' || n % {}, 'm', '{}' from generate_series(1, {}) n
"""


class Ear:
    """Everything that was notified, in order."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self._heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def listen(self) -> None:
        for channel in ("command_ready", "request_done", "end"):
            await self.connection.add_listener(
                channel,
                lambda _connection, _pid, channel, payload: self._heard.put_nowait((channel, payload)),
            )

    async def everything(self, sender: asyncpg.Connection) -> list[tuple[str, str]]:
        """What was heard since the last call: notifications come in order of commit, so ours marks the end."""
        await sender.execute('notify "end"')
        heard: list[tuple[str, str]] = []
        while (one := await asyncio.wait_for(self._heard.get(), 20)) != ("end", ""):
            heard.append(one)
        return heard

    async def next(self) -> tuple[str, str]:
        return await asyncio.wait_for(self._heard.get(), 20)


@pytest.fixture
async def ear(second: asyncpg.Connection) -> Ear:
    opened = Ear(second)
    await opened.listen()
    return opened


def agents(heard: list[tuple[str, str]]) -> list[str]:
    """The agents whose command_ready was heard, sorted; nothing else may have been."""
    assert {channel for channel, _ in heard} <= {"command_ready"}
    told = [json.loads(payload) for _, payload in heard]
    assert all(set(one) == {"agent_id"} for one in told)
    return sorted(one["agent_id"] for one in told)


async def test_an_insert_of_many_ready_commands_is_notified_once_for_each_agent(
    connection: asyncpg.Connection, ear: Ear
) -> None:
    await connection.execute(INSERT.format(3, "ready", 30))
    assert agents(await ear.everything(connection)) == ["agent 0", "agent 1", "agent 2"]


async def test_an_update_to_ready_is_notified_once_for_each_agent(
    connection: asyncpg.Connection, ear: Ear
) -> None:
    await connection.execute(INSERT.format(2, "pending", 10))
    assert await ear.everything(connection) == []
    await connection.execute("update agent_commands set status = 'ready'")
    assert agents(await ear.everything(connection)) == ["agent 0", "agent 1"]
    await connection.execute('update agent_commands set metadata = \'{"still": "ready"}\'')
    await connection.execute("select claim_command('agent 1')")
    await connection.execute("update agent_commands set status = 'completed'")
    assert await ear.everything(connection) == []


async def test_a_rolled_back_change_is_never_notified(connection: asyncpg.Connection, ear: Ear) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(INSERT.format(3, "ready", 30))
    await transaction.rollback()
    assert await ear.everything(connection) == []


async def test_an_agent_is_notified_of_its_command_and_can_claim_it(
    connection: asyncpg.Connection, ear: Ear, daemon: DaemonProcess
) -> None:
    command = await ask(connection, "ring me", agent_id='quoted "agent" \\ é')
    channel, payload = await ear.next()
    assert (channel, json.loads(payload)) == ("command_ready", {"agent_id": 'quoted "agent" \\ é'})
    assert await connection.fetchval("select id from claim_command($1)", 'quoted "agent" \\ é') == command


async def test_an_agent_id_of_any_length_can_be_notified(connection: asyncpg.Connection, ear: Ear) -> None:
    # Of what a name may hold these take most room in JSON.
    for name in ('"\\' * 100, "🐘" * 200):
        await ask(connection, "long", agent_id=name, status="ready")
        (_, payload), *rest = await ear.everything(connection)
        assert json.loads(payload) == {"agent_id": name}
        assert rest == []


async def test_the_channels_can_be_switched_off(
    connection: asyncpg.Connection, ear: Ear, daemons: Daemons
) -> None:
    daemon = await daemons.start(public_notifications="false", poll_seconds=3600)
    command = await ask(connection, "quietly")
    await until(connection, "select status = 'ready' from agent_commands where id = $1", command)
    await connection.execute("select claim_command('alice')")
    await connection.execute("select complete_command($1, 'hushed')", command)
    request = await insert(connection, "memory_requests", {"kind": "recall", "query": "anything"})
    await until(connection, "select status = 'done' from memory_requests where id = $1", request)
    await ask(connection, "inserted as ready", status="ready")
    await until(connection, IDLE)
    assert await ear.everything(connection) == []
    # The daemon's own doorbell is not one of them.
    memory = await remember(connection, "still heard")
    await until(connection, "select embedding is not null from agent_memory where id = $1", memory)

    await daemon.stop()
    await daemons.start()
    await ask(connection, "aloud again", agent_id="bob", status="ready")
    assert agents(await ear.everything(connection)) == ["bob"]
