"""The listener: one dedicated connection that LISTENs and wakes the workers.

Promise: a lost notification costs latency, never work. The connection is pinged every five seconds with a timeout, has
a termination listener, reconnects with jittered backoff, and has all topics asked for after each (re)connect; a slow poll
is always on. Behind a transaction pooler, where LISTEN receives nothing, only the poll finds work.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pool import connect

CHANNEL = "memoryd"
READY_CHANNEL = "command_ready"
PING_SECONDS = 5.0
PING_TIMEOUT_SECONDS = 3.0


class Listener:
    """Calls `wake(topic)` on each notification, `wake(None)` when anything may have been missed."""

    def __init__(
        self,
        url: str,
        *,
        wake: Callable[[str | None], None],
        command_ready: Callable[[], None],
        listens_on: Callable[[int | None], None],
        logger: FilteringBoundLogger,
    ) -> None:
        self._listens_on = listens_on
        self._url = url
        self._wake = wake
        self._command_ready = command_ready
        self._log = logger

    async def run(self) -> None:
        """Listens until cancelled."""
        pause, told = 0.05, False
        while True:
            connection: asyncpg.Connection | None = None
            try:
                connection = await connect(self._url, application="memoryd listener")
                ended = asyncio.Event()
                connection.add_termination_listener(lambda _connection, ended=ended: ended.set())
                await connection.add_listener(CHANNEL, self._heard)
                await connection.add_listener(READY_CHANNEL, self._heard)
                if told:
                    self._log.info("listener_back")
                pause, told = 0.05, False
                # Its own word: of the number in its greeting poolers make one up.
                self._listens_on(await connection.fetchval("select pg_backend_pid()"))
                self._wake(None)
                await self._watch(connection, ended)
            except DATABASE_FAULTS as error:
                reason = type(error).__name__
            else:
                reason = "closed by the server"
            finally:
                # Otherwise other daemons would take over, again and again, what this daemon claims meanwhile.
                self._listens_on(None)
                if connection is not None and not connection.is_closed():
                    connection.terminate()
            if not told:
                self._log.warning("listener_lost", error=reason)
                told = True
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 1.0)

    async def _watch(self, connection: asyncpg.Connection, ended: asyncio.Event) -> None:
        while True:
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await ended.wait()
                return
            except TimeoutError:
                await connection.execute("select 1", timeout=PING_TIMEOUT_SECONDS)

    def _heard(self, _connection: object, _pid: int, channel: str, payload: object) -> None:
        if channel == CHANNEL:
            self._wake(str(payload))
        else:
            self._command_ready()
