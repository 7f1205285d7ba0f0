"""The listener reconnects by itself: afterwards work is picked up by notification as before, with the poll an hour away."""

from __future__ import annotations

import json
import os
import signal
from typing import Any
from uuid import UUID

import asyncpg

from tests.faults.conftest import OwnPostgres
from tests.support.content.fact_chat import add, reply
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask
from tests.support.services.openai_server import OpenAIServer
from tests.support.waiting import READY, until

HOUR = 3600
LISTENER = "select pid from pg_stat_activity where application_name = 'memoryd listener' and datname = current_database()"
END_LISTENER = f"select pg_terminate_backend(pid) from ({LISTENER}) d"


SAY = """
insert into conversation_messages (session_id, user_id, role, content)
values (gen_random_uuid(), gen_random_uuid(), 'user', 'at long last all my boxes are in Lyon')
"""
WRITE = """
insert into documents (title, content, status) values ('Handbook', '## One' || repeat(' is a sentence of the handbook.', 90)
    || chr(10) || '## Two' || repeat(' is another sentence of it.', 90), 'processing')
"""


def _answer(_request: dict[str, Any]) -> str:
    said = json.loads(reply(add=[add("The user lives in Lyon.", "m1")]))
    return json.dumps(said | {"sentences": [{"index": 0, "sentence": "Of the handbook."}]})


async def picked_up(connection: asyncpg.Connection, command: UUID) -> None:
    """Waits until it is ready: far sooner than the poll comes."""
    await until(connection, READY, command)


async def test_a_listener_whose_server_process_was_ended_reconnects(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    daemon = await daemons.start(poll_seconds=HOUR)
    await picked_up(connection, await ask(connection, "deploy the server"))
    for times in range(1, 4):
        seen = len(daemon.lines)
        assert await connection.fetchval(END_LISTENER)
        # While no listener is connected: the workers are woken after the reconnection, and find it.
        missed = await ask(connection, "deploy the server")
        await daemon.event("listener_back", after=seen)
        await picked_up(connection, missed)
        await picked_up(connection, await ask(connection, "deploy the server"))
        # No further reconnection, which looks for work too, but a notification.
        assert len(daemon.events("listener_lost")) == len(daemon.events("listener_back")) == times
    assert not daemon.events("database_lost")
    assert await daemon.stop() == 0


async def test_a_listener_whose_connection_falls_silent_reconnects(
    own_postgres: OwnPostgres, daemons: Daemons
) -> None:
    """As when a firewall drops a connection: it stays open, and nothing comes through. Also not what waits for a model."""
    connection = await asyncpg.connect(own_postgres.url)
    model = OpenAIServer()
    model.chat = _answer
    model.start()
    daemon = await daemons.start(
        url=own_postgres.url, poll_seconds=HOUR, language_model="openai/any",
        openai_base_url=model.base_url, ping_seconds=0.5,
    )  # fmt: skip
    await picked_up(connection, await ask(connection, "deploy the server"))
    silent = await connection.fetchval(LISTENER)
    os.kill(silent, signal.SIGSTOP)
    try:
        missed = await ask(connection, "deploy the server")
        await connection.execute(SAY)
        await connection.execute("select memoryd.queue_stretches(16, '0 seconds')")
        await connection.execute(WRITE)
        await daemon.event("listener_back")
        await picked_up(connection, missed)
        await until(
            connection, "select exists (select from agent_memory where content = 'The user lives in Lyon.')"
        )
        await until(
            connection, "select exists (select from memory_chunks where situation = 'Of the handbook.')"
        )
        await picked_up(connection, await ask(connection, "deploy the server"))
        assert len(daemon.events("listener_back")) == 1
    finally:
        model.stop()
        os.kill(silent, signal.SIGCONT)
        await connection.close()
    assert await daemon.stop() == 0
