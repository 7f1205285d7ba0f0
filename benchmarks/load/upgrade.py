"""A schema is upgraded while clients write: how long their inserts take meanwhile, and how long the tables are locked.

    python -m benchmarks.load.upgrade

Each upgrade applies the triggers, the policies and all functions again.
The inserts are single rows of memories and of commands, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg

from benchmarks.harness import DIMENSIONS, EMBEDDER, arguments, embedded, percentiles, report
from daemon.db.migration_files import MigrationFiles, load_files
from daemon.db.migrator import migrate

INSERTS = (
    "insert into agent_memory (agent_id, content) values ('writer', 'written during the upgrade')",
    "insert into agent_commands (agent_id, message) values ('writer', 'asked during the upgrade')",
)
LOCKED = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted and relation = 'agent_memory'::regclass"


async def write(url: str, stopping: asyncio.Event, seconds: list[float]) -> None:
    """Inserts until it is told to stop, and notes how long each took."""
    connection = await asyncpg.connect(url)
    while not stopping.is_set():
        for insert in INSERTS:
            began = time.perf_counter()
            await connection.execute(insert)
            seconds.append(time.perf_counter() - began)
    await connection.close()


async def watch(url: str, stopping: asyncio.Event, locked_for: list[float]) -> None:
    """Notes for how long, at a stretch, somebody had a table for itself."""
    connection = await asyncpg.connect(url)
    since: float | None = None
    while not stopping.is_set():
        locked = await connection.fetchval(LOCKED)
        now = time.perf_counter()
        if locked and since is None:
            since = now
        elif not locked and since is not None:
            locked_for.append(now - since)
            since = None
        await asyncio.sleep(0.002)
    await connection.close()


@asynccontextmanager
async def writers(
    url: str, clients: int, seconds: list[float], locked_for: list[float]
) -> AsyncIterator[None]:
    """So many clients write within the block, and one watches."""
    stopping = asyncio.Event()
    tasks = [asyncio.create_task(write(url, stopping, seconds)) for _ in range(clients)]
    tasks.append(asyncio.create_task(watch(url, stopping, locked_for)))
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


async def measure(url: str, options: argparse.Namespace) -> dict[str, object]:
    """The upgrades, one after the other, under one load."""
    seconds: list[float] = []
    locked_for: list[float] = []
    async with writers(url, options.clients, seconds, locked_for):
        connection = await asyncpg.connect(url)
        for number in range(options.upgrades):
            files = changed(number) if number else load_files()
            await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, files=files)
        await connection.close()
    return {
        "upgrades": options.upgrades,
        "inserts": len(seconds),
        **{f"insert {name}": value for name, value in percentiles(seconds).items()},
        "tables locked at a stretch, longest ms": round(max(locked_for, default=0.0) * 1000),
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--upgrades", type=int, default=5)
    options = parser.parse_args()
    with embedded() as server:
        report("upgrade", asyncio.run(measure(server.socket_url, options)), options.json)


if __name__ == "__main__":
    main()
