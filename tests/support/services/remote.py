"""A database whose embeddings come from a server that the test controls: it counts, refuses, hangs and stops when told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from daemon.db.migrator import migrate
from memory.calibration import SUBJECTS
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied, make_once
from tests.support.processes.daemons import Daemons
from tests.support.services.openai_server import Fault, OpenAIServer

DIMENSIONS = 8
CALIBRATED = """
insert into memoryd.settings (key, value)
values ('similarity', '{"background": 0, "unit": 1, "spread": 0.3, "rows": 1000000000}')
"""
"""So no daemon asks the server for what the test did not write."""


class CountingServer(OpenAIServer):
    """Keeps the texts of rows and questions that were embedded, and so paid for: those of refused requests are not."""

    def __init__(self, *, dimensions: int = DIMENSIONS) -> None:
        super().__init__(dimensions=dimensions)
        self.paid: list[str] = []

    def embeddings(self, request: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """See `OpenAIServer`."""
        self.paid += [text for text in request["input"] if text not in SUBJECTS]
        return super().embeddings(request, fault)


@dataclass(frozen=True, slots=True)
class Remote:
    """The server, the database, and what starts daemons on it: `await daemons.start(**settings)`."""

    server: CountingServer
    url: str
    daemons: Daemons
    connection: asyncpg.Connection

    @property
    def settings(self) -> dict[str, Any]:
        """What makes a daemon use the server."""
        return {
            "embedder": "openai/test",
            "embedding_dimensions": self.server.dimensions,
            "openai_base_url": self.server.base_url,
            "provider_timeout_seconds": 20,
        }


@asynccontextmanager
async def remote_embedder(postgres: Server, empty: str, folder: Path) -> AsyncIterator[Remote]:
    """A remote embedder of 8 dimensions, and a database made for it: its template is made from `empty` once a run."""
    await make_once(postgres, f"{empty}_remote", _fill, source=empty)
    with CountingServer() as server:
        async with copied(postgres, f"{empty}_remote") as url, connected(url) as connection:
            daemons = Daemons(url, folder)
            try:
                yield Remote(server, url, daemons, connection)
            finally:
                await daemons.kill_all()


async def _fill(connection: asyncpg.Connection) -> None:
    await migrate(connection, dimensions=DIMENSIONS, embedder="openai/test")
    await connection.execute(CALIBRATED)
