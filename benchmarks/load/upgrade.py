"""A schema is upgraded while clients write: how long their inserts take meanwhile, and how long the tables are locked.

    python -m benchmarks.load.upgrade

Each upgrade applies the triggers, the policies and all functions again.
The inserts are single rows of memories and of commands, one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg

from benchmarks.harness import DIMENSIONS, EMBEDDER, Figures, Times, command, percentiles
from daemon.db.migration_files import MigrationFiles, load_files
from daemon.db.migrator import migrate

INSERTS = (
    "insert into agent_memory (agent_id, content) values ('writer', 'written during the upgrade')",
    "insert into agent_commands (agent_id, message) values ('writer', 'asked during the upgrade')",
)
LOCKED = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted and relation = 'agent_memory'::regclass"


async def write(url: str, stopping: asyncio.Event, times: Times) -> None:
    """Inserts until it is told to stop, and notes how long each took."""
    connection = await asyncpg.connect(url)
    while not stopping.is_set():
        for insert in INSERTS:
            with times.of("insert"):
                await connection.execute(insert)
    await connection.close()


async def watch(url: str, stopping: asyncio.Event, times: Times) -> None:
    """Notes for how long, at a stretch, somebody had a table for itself."""
    connection = await asyncpg.connect(url)
    while not stopping.is_set():
        began = time.perf_counter()
        while await connection.fetchval(LOCKED):
            await asyncio.sleep(0.002)
        times.add("locked", time.perf_counter() - began)
        await asyncio.sleep(0.002)
    await connection.close()


@asynccontextmanager
async def writers(url: str, clients: int, times: Times) -> AsyncIterator[None]:
    """So many clients write within the block, and one watches."""
    stopping = asyncio.Event()
    tasks = [asyncio.create_task(write(url, stopping, times)) for _ in range(clients)]
    tasks.append(asyncio.create_task(watch(url, stopping, times)))
    try:
        await asyncio.sleep(1)
        yield
        await asyncio.sleep(1)
    finally:
        stopping.set()
        await asyncio.gather(*tasks)


def changed(number: int) -> MigrationFiles:
    """The files, each function file with another checksum than before."""
    files = load_files()
    return replace(files, functions=tuple(replace(f, checksum=f"{number}") for f in files.functions))


async def measure(
    url: str, connection: asyncpg.Connection, *, clients: int = 3, upgrades: int = 5
) -> Figures:
    """The upgrades, one after the other, under one load."""
    times = Times()
    async with writers(url, clients, times):
        for number in range(upgrades):
            files = changed(number) if number else load_files()
            await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, files=files)
    return {
        "upgrades": upgrades,
        "inserts": len(times["insert"]),
        **percentiles(times["insert"], "insert "),
        "tables locked at a stretch, longest ms": round(max(times["locked"]) * 1000),
    }


if __name__ == "__main__":
    command(__doc__, measure)
