"""Serves one of several databases: by a daemon while there is work, else by a rest; and retries while neither is possible.

Promise: no other database waits for a faulty one. Its fault is logged once, and it is served again when it is repaired.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import metadata

import structlog
from structlog.typing import FilteringBoundLogger

from daemon import presence
from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import connect
from daemon.db.server import StandbyError, is_pooled, refuse_standby
from daemon.ending import Idleness
from daemon.lifecycle import Daemon
from daemon.logs import describe, frames
from daemon.measures import Measures
from daemon.part import PartError
from daemon.schedule import Schedule
from daemon.served import ServedDatabase
from daemon.settings import Settings
from daemon.settings.databases import NamedDatabase
from plugins.executor.settings import Executor
from plugins.tenants.databases.idle import Idle, until_idle
from plugins.tenants.databases.resting import Rest
from plugins.tenants.turns import Turns

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 15.0
"""Pauses between two attempts at an unreachable database; after a refusal the longest one."""
REST_SECONDS = 60.0
"""Time without work before a database rests."""
REST_MINUTES = 60.0
"""The longest rest; after it expired rows are deleted, and a due dream begins."""
SLICE = 0.5
"""Share of that time for which a database with work keeps its turn while others wait."""
PING = 2.0
"""Heartbeats between two pings of a resting connection, which find one that was lost without an error."""
STARTS_AT_ONCE = 2
REACH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServingMeans:
    """The objects that the servings of one process share."""

    migrate: Callable[[Settings, str], Awaitable[None]]
    """Brings a database up to date."""
    build: Callable[[Settings, NamedDatabase, Measures], Daemon]
    explain: Callable[[Exception], str | None]
    """A sentence for a failure that the operator can repair; None for a bug."""
    turns: Turns
    starts: Turns


class Serving(ServedDatabase):
    """Serves one database until it is cancelled."""

    def __init__(
        self, named: NamedDatabase, settings: Settings, means: ServingMeans, *, logger: FilteringBoundLogger
    ) -> None:
        """`settings`: those of this database."""
        super().__init__(Measures(), state="waiting")
        self.named = named
        self._settings = settings
        self._means = means
        self._log = logger
        self._id = uuid.uuid4()
        self._idle: Idle | None = None
        """What the daemon found when it ended without work."""
        self._rest: Rest | None = None
        self._ready = False
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Works, rests, and tries again, until `stop`."""
        structlog.contextvars.bind_contextvars(database=self.named.name)
        pause = FIRST_SECONDS
        while not self._stopped.is_set():
            try:
                await self._work()
                if self._idle is not None and not self._stopped.is_set():
                    await self._rest_after(self._idle)
                pause = FIRST_SECONDS
            except Exception as error:  # noqa: BLE001 - whatever it is, it stops no other database
                gone = isinstance(error, StandbyError) or (
                    isinstance(error, DATABASE_FAULTS) and is_gone(error)
                )
                self._log_reason(error)
                pause = min(2 * pause, LONGEST_SECONDS) if gone else LONGEST_SECONDS
                await self._wait(pause * random.uniform(0.5, 1.0))

    def stop(self, *, leave: bool = False) -> None:
        """Ends its daemon as a signal does, and a rest at once. `leave`: do not wait for a lost database."""
        self._stopped.set()
        if self.daemon is not None:
            self.daemon.stop(leave=leave)
        if self._rest is not None:
            self._rest.end()

    async def _work(self) -> None:
        self._idle = None
        if not self._ready or self.reason is not None:
            # A database that is away takes nobody's turn.
            await self._reach()
        if self.reason is None:
            self.state = "waiting"
        turns, settings = self._means.turns, self._settings
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(turns.turn(self.named.name))
            if self._stopped.is_set():
                return
            self.daemon = None
            async with self._means.starts.turn(self.named.name):
                if not self._ready:
                    await self._means.migrate(settings, self.named.url)
                    self._ready = True
                self.daemon = daemon = self._means.build(settings, self.named, self.measures)
                running = asyncio.create_task(daemon.run(until=self._until_idle))
                await self._until_started(daemon, running)
            if daemon.started.is_set():
                self._change_to("working")
            try:
                await self._until_ended(daemon, running, turn)
            finally:
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running
        if daemon.demoted:
            raise StandbyError

    async def _until_idle(self, idleness: Idleness, schedule: Schedule) -> None:
        wanted = self._means.turns.awaited
        self._idle = await until_idle(idleness, schedule, seconds=REST_SECONDS, wanted=wanted)

    async def _until_ended(self, daemon: Daemon, running: asyncio.Task[None], turn: AsyncExitStack) -> None:
        """Checks from time to time whether others wait for a turn, or the database is unreachable."""
        awaited, lent, lost = self._means.turns.awaited, False, False
        while not running.done():
            await asyncio.wait([running], timeout=REST_SECONDS * SLICE)
            was_lost, lost = lost, daemon.is_lost
            if lost and was_lost and not daemon.runs_programs:
                daemon.stop(leave=True)  # it is away
            elif awaited.is_set() and daemon.runs_programs:
                # A running program is not ended for others, and they do not wait for it.
                await turn.aclose()
                lent = True
            elif awaited.is_set() or (lent and not daemon.runs_programs):
                daemon.stop()

    async def _until_started(self, daemon: Daemon, running: asyncio.Task[None]) -> None:
        started = asyncio.create_task(daemon.started.wait())
        try:
            await asyncio.wait([running, started], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            running.cancel()
            raise
        finally:
            started.cancel()

    async def _reach(self) -> None:
        """Checks, at first and after a failure, whether the database takes writes, and whether a pooler is in between."""
        connection = await connect(self.named.url, pooled=True, timeout=REACH_SECONDS)
        try:
            await refuse_standby(connection)
        finally:
            connection.terminate()
        if not self._ready:
            pooled = await is_pooled(self._settings, self.named.url)
            pooler = "transaction" if pooled else "direct"
            self._settings = self._settings.model_copy(update={"pooler": pooler})

    async def _rest_after(self, idle: Idle) -> None:
        self._change_to("resting")
        settings = self._settings
        # A random part: not all databases wake at the same moment.
        seconds = (settings.suspend_minutes or REST_MINUTES) * 60 * random.uniform(0.8, 1.0)
        if idle.topics is not None:
            seconds = min(REST_SECONDS, idle.seconds or REST_SECONDS)
        executor = settings.section(Executor)
        self._rest = Rest(
            self.named.url,
            daemon_id=self._id,
            version=metadata.version("memoryd"),
            disconnected=settings.suspend_minutes is not None,
            pooled=settings.pooler == "transaction",
            parallel=executor.executor_parallel if executor.executor_command else None,
            topics=idle.topics,
            ping_seconds=PING * presence.HEARTBEAT_SECONDS,
        )
        self.daemon = None
        self._log.debug("database_rests")
        try:
            await self._rest.last(seconds)
        finally:
            self._rest = None

    def _change_to(self, state: str) -> None:
        if self.reason is not None:
            self._log.info("database_served")
        self.state, self.reason = state, None

    def _log_reason(self, error: Exception) -> None:
        """Logs why it is not served, once for each reason."""
        sentence = self._means.explain(error)
        reason = describe(error) if sentence is None else sentence
        if reason != self.reason:
            if sentence is None and not isinstance(error, PartError):
                self._log.error("part_failed", part="database", error=reason, at=frames(error))
            else:
                self._log.error("database_not_served", reason=reason)
        self.reason, self.state = reason, "away"

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
