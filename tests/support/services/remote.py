"""A database whose embeddings come from a server that the test controls: it counts, refuses, hangs and stops when told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from memory.calibration import SUBJECTS
from tests.support.database.schemas import apply, connected
from tests.support.processes.daemons import Daemons
from tests.support.services.openai_server import Fault, OpenAIServer

CALIBRATED = """
insert into memoryd.settings (key, value)
values ('similarity', '{"background": 0, "unit": 1, "spread": 0.3, "rows": 1000000000}')
"""
"""So no daemon asks the server for what the test did not write."""


class CountingServer(OpenAIServer):
    """Keeps the texts of rows and questions that were embedded, and so paid for: those of refused requests are not."""

    def __init__(self, *, dimensions: int = 8) -> None:
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
async def remote_embedder(url: str, folder: Path) -> AsyncIterator[Remote]:
    """A remote embedder of 8 dimensions, and the empty database at this URL made for it."""
    with CountingServer() as server:
        await apply(url, dimensions=server.dimensions, embedder="openai/test")
        daemons = Daemons(url, folder)
        try:
            async with connected(url) as connection:
                await connection.execute(CALIBRATED)
                yield Remote(server, url, daemons, connection)
        finally:
            await daemons.kill_all()
