"""The doorbell: one dedicated connection that LISTENs and wakes the workers.

Promise: a lost notification costs latency, never work. The connection is pinged every five seconds with a timeout, has
a termination listener, reconnects with jittered backoff, and wakes every topic after each (re)connect; a slow poll is
always on. Behind a transaction pooler, where LISTEN is of no use, the poll does the work alone.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.pool import DATABASE_FAULTS, connect, is_gone

CHANNEL = "memoryd"
READY_CHANNEL = "command_ready"
PING_SECONDS = 5.0
PING_TIMEOUT_SECONDS = 3.0


class Doorbell:
    """Calls `ring(topic)` on each notification, `ring(None)` when anything may have been missed."""

    def __init__(
        self,
        url: str,
        *,
        ring: Callable[[str | None], None],
        ready: Callable[[], None],
        listens_on: Callable[[int | None], None],
        logger: FilteringBoundLogger,
    ) -> None:
        self._listens_on = listens_on
        self._url = url
        self._ring = ring
        self._ready = ready
        self._log = logger
        self.listening = asyncio.Event()

    async def run(self) -> None:
        """Listens until cancelled."""
        pause, told = 0.05, False
        while True:
            connection: asyncpg.Connection | None = None
            try:
                connection = await connect(self._url, application="memoryd doorbell")
                ended = asyncio.Event()
                connection.add_termination_listener(lambda _connection, ended=ended: ended.set())
                await connection.add_listener(CHANNEL, self._heard)
                await connection.add_listener(READY_CHANNEL, self._heard)
                if told:
                    self._log.info("doorbell_back")
                pause, told = 0.05, False
                self.listening.set()
                self._listens_on(connection.get_server_pid())
                self._ring(None)
                await self._watch(connection, ended)
            except DATABASE_FAULTS as error:
                reason = type(error).__name__
            else:
                reason = "closed by the server"
            finally:
                self.listening.clear()
                # Or others would take back, again and again, what this daemon claims meanwhile.
                self._listens_on(None)
                if connection is not None and not connection.is_closed():
                    connection.terminate()
            if not told:
                self._log.warning("doorbell_lost", error=reason)
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
            self._ring(str(payload))
        else:
            self._ready()


async def hears_notifications(url: str, *, timeout: float = 2.0) -> bool:
    """Whether a notification sent over one connection reaches another: false behind a transaction pooler."""
    channel = f"memoryd_test_{uuid.uuid4().hex}"
    heard = asyncio.Event()
    listener = await connect(url, pooled=True)
    try:
        await listener.add_listener(channel, lambda *_: heard.set())
        sender = await connect(url, pooled=True)
        try:
            # Several short transactions: a pooler hands its server connections round.
            try:
                for _ in range(3):
                    async with sender.transaction():
                        await sender.execute(f"notify {channel}")
            except asyncpg.ProgramLimitExceededError:
                # The server's queue is full, and will not be for ever: then what counts is whose the connections are.
                return await _have_backends_of_their_own(listener, sender)
            await asyncio.wait_for(heard.wait(), timeout)
        finally:
            await sender.close()
        return True
    except TimeoutError:
        return False
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        if is_gone(error):
            raise  # a database that comes up or goes down is no pooler
        return False
    finally:
        listener.terminate()


async def _have_backends_of_their_own(one: asyncpg.Connection, other: asyncpg.Connection) -> bool:
    """A transaction pooler gives both what server connection is free, mostly the same one."""
    seen = [[await c.fetchval("select pg_backend_pid()") for _ in range(3)] for c in (one, other, one)]
    return [len(set(pids)) for pids in seen] == [1, 1, 1] and seen[0][0] == seen[2][0] != seen[1][0]
