"""Starts the embedded Postgres of a daemon again after it has ended.

Promise: it tries again, with a growing pause, until a server runs. It logs each kind of reason once. It never starts a second
server beside a live one.
"""

from __future__ import annotations

import asyncio

from structlog.typing import FilteringBoundLogger

from daemon.part import Part
from plugins.embedded.causes import EmbeddedPostgresError
from plugins.embedded.server import EmbeddedPostgres

WATCH_SECONDS = 0.5
MIN_PAUSE, MAX_PAUSE = 0.5, 60.0


class Supervisor:
    """Watches one server, which runs when the watch begins."""

    def __init__(self, server: EmbeddedPostgres, *, logger: FilteringBoundLogger) -> None:
        self._server = server
        self._log = logger

    async def run(self) -> None:
        """Watches until cancelled. Raises EmbeddedPostgresError if the server came back at another address."""
        url = self._server.socket_url
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if self._runs():
                continue
            self._log.warning("postgres_lost", log=str(self._server.log_path))
            await self._bring_back()
            if self._server.socket_url != url:
                raise EmbeddedPostgresError(
                    "memoryd's Postgres now has another address. Start memoryd again."
                )

    def _runs(self) -> bool:
        try:
            return self._server.is_running()
        except (EmbeddedPostgresError, OSError):
            # That is unknown just now. A start finds a running server.
            return False

    async def _bring_back(self) -> None:
        pause, told = MIN_PAUSE, set[str]()
        while True:
            try:
                ours = await asyncio.to_thread(self._server.start, same_port=True)
            except EmbeddedPostgresError as error:
                if error.advice not in told:
                    told.add(error.advice)
                    self._log.error("postgres_not_started", reason=str(error))
            else:
                self._log.info("postgres_restarted", ours=ours)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)


def watching(server: EmbeddedPostgres, logger: FilteringBoundLogger) -> Part:
    """The part of a daemon that starts this server again after it has ended."""
    return Part("embedded Postgres", lambda: Supervisor(server, logger=logger), vital=True)
