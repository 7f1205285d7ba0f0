"""Many databases on two servers, as one process serves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import ask
from tests.support.waiting import READY, until

RESTS = "select exists (select from memoryd.daemons where wake_up = 'rest')"


@dataclass(frozen=True, slots=True)
class Many:
    """Databases by their names, a connection to each, and the file that lists them."""

    urls: Mapping[str, str]
    connections: Mapping[str, asyncpg.Connection]
    file: Path

    def list(self, *names: str, **others: str) -> str:
        """Writes the file with these names (all, unless given), and with others by their URLs; its path."""
        urls = {name: self.urls[name] for name in names or self.urls} | others
        self.file.write_text("".join(f"{name}={url}\n" for name, url in urls.items()))
        return str(self.file)

    async def each(self, sql: str, *args: object) -> dict[str, object]:
        """The first value of a statement in each of them."""
        found = await asyncio.gather(*(one.fetchval(sql, *args) for one in self.connections.values()))
        return dict(zip(self.connections, found, strict=True))


@asynccontextmanager
async def many_databases(
    servers: Sequence[tuple[Server, str]], each: int, folder: Path
) -> AsyncIterator[Many]:
    """As many databases on each server, each copied from that server's template."""
    async with AsyncExitStack() as stack:
        urls: dict[str, str] = {}
        for nth, (server, template) in enumerate(servers):
            for number in range(each):
                urls[f"s{nth}-{number}"] = await stack.enter_async_context(copied(server, template))
        connections: dict[str, asyncpg.Connection] = {}
        for name, url in urls.items():
            connections[name] = await asyncpg.connect(url)
            stack.push_async_callback(connections[name].close)
        yield Many(urls, connections, folder / "databases")


async def serve(processes: Daemons, listed: str, **settings: object) -> DaemonProcess:
    """A process that serves what is listed."""
    given: Any = {"database_urls": listed, "rest_seconds": 1, "poll_seconds": 1} | settings
    process = await processes.start(wait=False, **given)
    await process.event("process_started")
    return process


async def served(connection: asyncpg.Connection, message: str = "deploy the staging server") -> str:
    """A command gets its context; what that is."""
    command = await ask(connection, message, agent_id="alice")
    await until(connection, READY, command)
    context: str = await connection.fetchval("select context from agent_commands where id = $1", command)
    return context
