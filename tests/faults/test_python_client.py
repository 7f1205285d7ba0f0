"""The Python client while the database restarts: what it reported is there once, and it goes on by itself."""

from __future__ import annotations

import asyncio
from uuid import UUID

from memoryd_client import Command, Database, Executor, Memory, OutcomeUnknown, Unavailable

from tests.faults.conftest import OwnPostgres
from tests.support.database.schemas import connected
from tests.support.rows import column

READY = "insert into agent_commands (agent_id, message, status) values ('alice', $1, 'ready') returning id"


async def test_nothing_is_lost_or_doubled_while_the_database_restarts(own_postgres: OwnPostgres) -> None:
    stored: list[UUID] = []
    unknown: list[UUID] = []
    done: list[UUID] = []
    ended = asyncio.Event()

    async def write(memory: Memory) -> None:
        while not ended.is_set():
            try:
                stored.append((await memory.remember(f"heron {len(stored)}")).id)
            except Unavailable:
                await asyncio.sleep(0.01)
            except OutcomeUnknown as error:
                unknown.extend(error.ids)

    async def work(_context: str, message: str, command: Command) -> str:
        done.append(command.id)
        if message == "restart":
            await asyncio.to_thread(own_postgres.server.stop)
            await asyncio.to_thread(own_postgres.server.start)
        if message == "crash":
            await asyncio.to_thread(own_postgres.server.stop, "immediate")
            await asyncio.to_thread(own_postgres.server.start)
        return message

    async with connected(own_postgres.url) as connection:
        commands = [await connection.fetchval(READY, m) for m in ("restart", "crash", "after")]
    async with Database(own_postgres.url) as database:
        writers = [asyncio.create_task(write(Memory(database, agent="alice"))) for _ in range(3)]
        async with Executor(database, "alice", work, poll_seconds=0.05):
            while len(done) < len(commands):
                await asyncio.sleep(0.01)
        ended.set()
        await asyncio.gather(*writers)

    async with connected(own_postgres.url) as connection:
        there = await column(connection, "select id from agent_memory where kind = 'fact'")
        assert set(stored) <= set(there) <= {*stored, *unknown}
        assert len(there) == len(set(there))
        assert await column(connection, "select output from agent_commands where id = any($1) and status = 'completed' "
                            "order by output", commands) == ["after", "crash", "restart"]  # fmt: skip
    assert done == commands
