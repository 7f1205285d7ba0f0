"""kill -9 after a language model has replied and before that is committed: in a dream's writing, and in that of facts.

What the model was asked stays counted. Nothing is half written, and the next daemon does it all. The moment is not guessed: a
lock that the test holds stops the writing, and is awaited.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg

from tests.support.content.dreams import failures
from tests.support.content.fact_chat import add, reply
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import ask, column
from tests.support.services.openai_server import OpenAIServer
from tests.support.waiting import BLOCKED, IDLE, until

ANN = UUID(int=10)
# On a slow machine a daemon loses a claim of a second, and rightly asks the model once more: the calls are counted here.
SETTINGS: dict[str, Any] = {
    "heartbeat_seconds": 0.1, "claim_seconds": 5, "poll_seconds": 0.3,
    "language_model": "openai/any",
}  # fmt: skip
WRITTEN = """
select (select count(*) from dream_insights) as insights,
       (select count(*) from memory_associations where association_type = 'causal') as causes,
       (select count(*) from agent_memory where user_id is not null) as facts,
       (select count(*) from memoryd.names) as names
"""
LAST_BEAT = "select max(seen_at) from memoryd.daemons"
CALLS = "select (value ->> 'calls')::integer from memoryd.settings where key = 'model_calls'"
DREAM = "insert into memory_requests (kind) values ('dream')"
SAY = """
insert into conversation_messages (session_id, user_id, role, content)
values (gen_random_uuid(), $1, 'user', 'at long last all my boxes are in Lyon')
"""
RUN_OUT = "update dream_sessions set lease_until = now() - interval '1 second' where status = 'running'"


def answer(request: dict[str, Any]) -> str:
    if request["response_format"]["json_schema"]["name"] == "facts":
        return reply(add=[add("The user lives in Lyon.", "m1")], names=[("Lyon", "place")])
    causal = [{"cause": 0, "effect": 1, "strength": 0.9}]
    return json.dumps({"insight": "It fails at night.", "recommendation": None, "causal": causal})


@asynccontextmanager
async def killed_while_it_waits(
    connection: asyncpg.Connection, url: str, table: str, daemon: DaemonProcess
) -> AsyncIterator[None]:
    """Nothing can be written into this table; once somebody waits for that, the daemon is killed."""
    other = await asyncpg.connect(url)
    try:
        async with other.transaction():
            await other.execute(f"lock table {table} in share mode")
            yield
            await until(connection, BLOCKED)
            await daemon.kill()
    finally:
        await other.close()


async def test_what_a_model_said_is_written_once_or_not_at_all(
    daemons: Daemons, connection: asyncpg.Connection, database_url: str
) -> None:
    with OpenAIServer() as server:
        server.chat = answer
        settings = SETTINGS | {"openai_base_url": server.base_url}
        await failures(connection, 3)
        await ask(connection, "stay awake", status="cancelled")
        daemon = await daemons.start(**settings)
        await until(connection, IDLE)
        # The insight is written, in a transaction whose next statement, the causes that the model named, waits.
        async with killed_while_it_waits(connection, database_url, "memory_associations", daemon):
            await connection.execute(DREAM)
        assert tuple(await connection.fetchrow(WRITTEN) or ()) == (0, 0, 0, 0)
        assert await connection.fetchval(CALLS) == len(server.requests) == 1

        # A heartbeat of another daemon ends the dream once its lease has run out, and not before.
        await connection.execute("delete from memoryd.jobs")
        daemon = await daemons.start(**settings)
        for _ in range(3):
            last = await connection.fetchval(LAST_BEAT)
            await until(connection, f"select ({LAST_BEAT}) > $1", last)
        assert daemon.events("dream_interrupted") == []
        await connection.execute(RUN_OUT)
        await daemon.event("dream_interrupted")
        await connection.execute(DREAM)
        assert (await daemon.event("dream_ended"))["status"] == "completed"
        assert tuple(await connection.fetchrow(WRITTEN) or ()) == (1, 1, 0, 0)
        assert await connection.fetchval(CALLS) == len(server.requests) == 2
        statuses = await column(connection, "select status from dream_sessions order by started_at")
        assert statuses == ["interrupted", "completed"]

        async with killed_while_it_waits(connection, database_url, "agent_memory", daemon):
            await connection.execute(SAY, ANN)
            await connection.execute("select memoryd.queue_stretches(16, '0 seconds')")
        assert await connection.fetchval("select count(*) from memoryd.unread") == 1
        assert tuple(await connection.fetchrow(WRITTEN) or ()) == (1, 1, 0, 0)
        await daemons.start(**settings)
        await until(connection, IDLE)
        assert tuple(await connection.fetchrow(WRITTEN) or ()) == (1, 1, 1, 1)
        assert await connection.fetchval(CALLS) == len(server.requests) == 4
        assert (
            await connection.fetchval(
                "select metadata ->> 'count' from agent_memory where user_id is not null"
            )
            == "1"
        )
