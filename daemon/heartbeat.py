"""The heartbeat: refreshes this daemon's row, and starts a dream when the fleet is idle.

Promise: whether a dream is due is read only from the database, so a restart changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from daemon.db import presence
from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.logs import describe
from handlers.dream.dreamer import Dreamer

BEAT = """
insert into memoryd.daemons (id, host, pid, version, wake_up, number, backend, failing)
values ($1, $2, $3, $4, $5, $6, $7, $8::jsonb)
on conflict (id) do update
set seen_at = now(), wake_up = excluded.wake_up, backend = excluded.backend, failing = excluded.failing
"""

LEAVE = "delete from memoryd.daemons where id = $1"


class Heartbeat:
    """Beats until cancelled."""

    def __init__(
        self,
        *,
        database: Database,
        daemon_id: UUID,
        number: int,
        version: str,
        dreamer: Dreamer,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        logger: FilteringBoundLogger,
    ) -> None:
        """`turn`: within it is dreamt when the fleet is idle."""
        self._turn = turn
        self.wake_up = "listen"
        self._database = database
        self._daemon_id = daemon_id
        self._number = number
        self._backend: int | None = None
        self._failing: dict[str, str] = {}
        self._news = asyncio.Event()
        self._version = version
        self._dreamer = dreamer
        self._log = logger
        self._dream: asyncio.Task[object] | None = None

    async def run(self) -> None:
        """Beats at once, then every heartbeat."""
        try:
            while True:
                try:
                    await self.beat()
                    await self._dreamer.end_dead()
                    due = not self.dreams and await self._dreamer.due()
                    self._log.debug("heartbeat", dream_due=due, dreams=self.dreams)
                    if due:
                        self._dream = asyncio.create_task(self._idle_dream())
                except DATABASE_FAULTS as error:
                    if not (is_gone(error) or await self._database.reconnect_after_failover(error)):
                        self._log.error("heartbeat_failed", error=describe(error))
                # Not wait_for: it loses a cancellation that comes at the same moment as the event.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(presence.HEARTBEAT_SECONDS):
                        await self._news.wait()
                self._news.clear()
        finally:
            if self._dream is not None:
                self._dream.cancel()
                await asyncio.wait([self._dream], timeout=2.0)

    @property
    def dreams(self) -> bool:
        """Whether a dream goes on, or waits for its turn."""
        return self._dream is not None and not self._dream.done()

    def listens_on(self, backend: int | None) -> None:
        """Writes at once which server process belongs to the listener: other daemons see by it that this one runs."""
        self._backend = backend
        self._news.set()

    def tell(self, part: str, error: str | None) -> None:
        """Writes at once that a part has failed; None: that it works."""
        before = dict(self._failing)
        if error is None:
            self._failing.pop(part, None)
        else:
            self._failing[part] = error
        if self._failing != before:
            self._news.set()

    async def beat(self) -> None:
        """Writes this daemon's row."""
        await self._database.execute(
            BEAT,
            self._daemon_id,
            socket.gethostname(),
            os.getpid(),
            self._version,
            self.wake_up,
            self._number,
            self._backend,
            json.dumps(self._failing),
        )

    async def leave(self) -> None:
        """Deletes this daemon's row: it stops on purpose."""
        await self._database.execute(LEAVE, self._daemon_id)

    async def _idle_dream(self) -> None:
        try:
            async with self._turn():
                await self._dreamer.dream("idle")
        except DATABASE_FAULTS as error:
            self._log.warning("dream_lost", error=describe(error))
