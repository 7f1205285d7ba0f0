"""A rest of a database: one connection listens, and nothing else runs, until there is work.

Promise: work from before the connection listened is found, too. A row in memoryd.daemons says that the database is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg

from daemon.db.pool import connect
from daemon.presence import RESTS
from daemon.queue.listener import CHANNEL, READY_CHANNEL
from daemon.queue.queue import WORK_LEFT
from plugins.executor.commands import ANY_TO_CLAIM
from plugins.tenants.databases.idle import ANYTHING_OPEN

PING_TIMEOUT_SECONDS = 5.0
BEGIN_TIMEOUT_SECONDS = 15.0
"""The time limit of each statement at the beginning of a rest, before the connection is pinged."""
SERVED = """
insert into memoryd.daemons (id, host, pid, version, wake_up, number, backend, seen_at)
values ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8))
on conflict (id) do update set wake_up = excluded.wake_up, backend = excluded.backend, seen_at = excluded.seen_at
"""
LEAVE = "delete from memoryd.daemons where id = $1"


class Rest:
    """One rest of one database."""

    def __init__(
        self,
        url: str,
        *,
        daemon_id: UUID,
        version: str,
        disconnected: bool,
        pooled: bool,
        parallel: int | None,
        topics: Sequence[str] | None,
        ping_seconds: float,
    ) -> None:
        """`disconnected`: rest without a connection. `pooled`: behind a pooler, which passes no notifications.

        `parallel`: commands of an agent that the built-in executor runs at once; None: no executor. `topics`: topics whose jobs
        count as work if they can be done now; None: any job, and any running command. `ping_seconds`: between two pings.
        """
        self._topics = topics
        self._ping_seconds = ping_seconds
        self._parallel = parallel
        self._url = url
        self._id = daemon_id
        self._version = version
        self._silent = disconnected or pooled
        self._pooled = pooled
        self._news = asyncio.Event()

    def end(self) -> None:
        """Ends the rest from outside: there is work."""
        self._news.set()

    async def last(self, seconds: float) -> None:
        """Rests until there is work, or the time is over. Raises the errors of a lost connection."""
        if self._silent:
            async with self._connection() as connection:
                if await self._begin(connection, backend=None, seconds=seconds):
                    return
            await self._until_news(seconds)
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        async with self._connection() as connection:
            connection.add_termination_listener(lambda _connection: self._news.set())
            for channel in (CHANNEL, READY_CHANNEL):
                await connection.add_listener(channel, lambda *_: self._news.set())
            if await self._begin(
                connection, backend=await connection.fetchval("select pg_backend_pid()"), seconds=0.0
            ):
                return
            while not self._news.is_set() and (left := until - loop.time()) > 0:
                await self._until_news(min(left, self._ping_seconds))
                if not self._news.is_set():
                    await connection.execute(
                        "select 1", timeout=min(self._ping_seconds, PING_TIMEOUT_SECONDS)
                    )
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                await connection.execute(LEAVE, self._id, timeout=PING_TIMEOUT_SECONDS)

    async def _begin(self, connection: asyncpg.Connection, *, backend: int | None, seconds: float) -> bool:
        """Notes that the database is served; returns whether there is work already."""
        number = self._id.int & 0x7FFFFFFF
        row = (self._id, socket.gethostname(), os.getpid(), self._version, RESTS, number, backend, seconds)
        await connection.execute(SERVED, *row, timeout=BEGIN_TIMEOUT_SECONDS)
        asked: list[tuple[Any, ...]] = []
        if self._parallel is not None:
            asked.append((ANY_TO_CLAIM, self._parallel))
        asked.append((ANYTHING_OPEN,) if self._topics is None else (WORK_LEFT, list(self._topics)))
        for sql, *given in asked:
            if await connection.fetchval(sql, *given, timeout=BEGIN_TIMEOUT_SECONDS):
                return True
        return False

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await connect(self._url, pooled=self._pooled, application="memoryd resting")
        try:
            yield connection
        finally:
            connection.terminate()

    async def _until_news(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
