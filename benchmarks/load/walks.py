"""Which functions of ours run, each counted once: how far one has to read to follow an event through the code.

    python -m benchmarks.load.walks [--list]

Three walks: an insert until it is indexed and linked; the same where a replica is kept; and a person's edit of a file of the
replica until the database has it. The daemon runs in this process, and its loops count as they come by. With them the writes
of files of the replica are counted: how often the file was written after the edit.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Self
from uuid import UUID

import asyncpg

from benchmarks.harness import arguments, database, report, wait_for
from benchmarks.load.latency import ASSOCIATED, INSERT_MEMORY
from daemon.cli.run import making
from daemon.settings import load_settings

ROOT = Path(__file__).parents[2]
ROOMS = tuple(f"{ROOT / room}{os.sep}" for room in ("daemon", "handlers", "memory", "providers", "plugins"))
IDLE = "select not exists (select from memoryd.jobs)"
WRITTEN = "select count(*) = 2 from memoryd.replica_collections"
EDITED = "select content like '%by hand%' from agent_memory where id = $1"
QUIET_SECONDS = 3.0
"""After the last step: what follows it is part of the walk."""


class Walk:
    """The functions that run while it lasts."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        threading.setprofile(self._count)
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _count(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOMS) and code.co_name[0] != "<":
            self.functions.add((code.co_filename.removeprefix(f"{ROOT}{os.sep}"), code.co_qualname))

    def figures(self) -> dict[str, int]:
        """Functions, and the files that they are in."""
        return {"functions": len(self.functions), "files": len({file for file, _ in self.functions})}


@asynccontextmanager
async def working(url: str, **settings: object) -> AsyncIterator[None]:
    """A daemon in this process."""
    given = load_settings(database_url=url, log_level="error", **settings)
    async with making(given) as made:
        daemon = made.daemon(given, url)
        running = asyncio.create_task(daemon.run())
        await daemon.started.wait()
        try:
            yield
        finally:
            daemon.stop()
            await running


async def insert(url: str, connection: asyncpg.Connection, text: str) -> tuple[Walk, UUID]:
    """A memory until it is indexed and linked, beside one that is."""
    await connection.fetchval(INSERT_MEMORY, "the espresso machine of the office is called Bertha")
    await wait_for(connection, IDLE)
    await asyncio.sleep(QUIET_SECONDS)
    with Walk() as walk:
        memory = await connection.fetchval(INSERT_MEMORY, text)
        await wait_for(connection, ASSOCIATED, memory)
        await wait_for(connection, IDLE)
    return walk, memory


async def edit(folder: Path, connection: asyncpg.Connection, memory: UUID) -> tuple[Walk, int]:
    """A person's edit of the memory's file; and how often the file was written afterwards."""
    await asyncio.sleep(QUIET_SECONDS)
    with Walk() as walk:
        file, seen, writes = edit_file(folder, memory), 0, -1
        await wait_for(connection, EDITED, memory)
        for _ in range(int(QUIET_SECONDS / 0.005)):
            if (now := identity(file)) != seen:
                seen, writes = now, writes + 1
            await asyncio.sleep(0.005)
    return walk, writes


def identity(file: Path) -> int:
    """Of the file that is there now: each write makes a new one."""
    return file.stat().st_ino


def edit_file(folder: Path, memory: UUID) -> Path:
    """Changes the memory's words in its file; returns the file."""
    [file] = [path for path in folder.rglob("*.md") if str(memory) in path.read_text("utf-8")]
    file.write_text(file.read_text("utf-8").replace("descaled", "descaled by hand"), encoding="utf-8")
    return file


async def measure(url: str, *, listed: bool) -> dict[str, object]:
    """The figures of the walks."""
    connection = await asyncpg.connect(url)
    async with working(url):
        alone, _ = await insert(url, connection, "Bertha was descaled on Monday, says the office")
    with tempfile.TemporaryDirectory(prefix="memoryd-walks-") as folder:
        async with working(url, replica=Path(folder)):
            kept, memory = await insert(url, connection, "Bertha, the espresso machine, was descaled by Ann")
            edited, writes = await edit(Path(folder), connection, memory)
    await connection.close()
    if listed:
        for name, walk in (("insert", alone), ("insert with a replica", kept), ("edit", edited)):
            print(f"\n{name}", *sorted(map(" ".join, walk.functions)), sep="\n  ")
    return {
        "insert": alone.figures(),
        "insert_with_replica": kept.figures(),
        "edit_of_a_file": edited.figures() | {"writes": writes},
    }


def main() -> None:
    """Runs the benchmark."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--list", action="store_true", help="name the functions")
    given = parser.parse_args()
    with database(given.database_url) as url:
        figures = asyncio.run(measure(url, listed=given.list))
    report("walks", figures, given.json)


if __name__ == "__main__":
    main()
