"""Scheduled tasks: ticks, each of which is run at its times by one daemon of all.

Promise: any number of daemons run each tick once, with no leader: who writes its time into the row of the task runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone, is_locked_out
from daemon.db.pool import Database
from daemon.logs import describe, frames

LAST_TICK_SECONDS = 2.0

# The database's clock names the tick, so that daemons whose clocks differ agree on it.
TAKE_TICK = """
insert into memoryd.lanes as l (topic, lane, not_before)
values ('tick', $1, to_timestamp(floor(extract(epoch from now()) / $2::double precision) * $2::double precision))
on conflict (topic, lane) do update
set not_before = excluded.not_before
where l.not_before < excluded.not_before
returning 1
"""


@dataclass(frozen=True, slots=True)
class Tick:
    """One entry of the schedule."""

    name: str
    every_seconds: float
    run: Callable[[], Awaitable[int | None]]
    """Says how much it found to do; None where it looks for nothing."""
    before_rest: Callable[[], Awaitable[object]] | None = None
    """What is done at once when the daemon is about to rest: nobody is there when its time comes."""


class Schedule:
    """Runs ticks until shut down."""

    def __init__(self, *, database: Database, logger: FilteringBoundLogger) -> None:
        from apscheduler.schedulers.asyncio import AsyncIOScheduler  # noqa: PLC0415 - commands run no ticks

        self._database = database
        self._log = logger
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._ticks: list[Tick] = []

    def add(self, tick: Tick) -> None:
        """Puts a tick on the schedule, at the same times in every daemon."""
        self._ticks.append(tick)
        self._scheduler.add_job(
            self._begin,
            "interval",
            seconds=max(1, int(tick.every_seconds)),
            start_date=datetime(2020, 1, 1, tzinfo=UTC),
            args=[tick],
            id=tick.name,
            coalesce=True,
            misfire_grace_time=60,
        )

    def start(self) -> None:
        """Begins; needs a running event loop."""
        self._scheduler.start()

    async def run_all(self) -> None:
        """Runs each tick whose time nobody has taken yet, one after the other."""
        for tick in self._ticks:
            await self._run(tick)

    async def run_before_rest(self) -> None:
        """Does what would come due while nobody is there."""
        for tick in self._ticks:
            if tick.before_rest is not None:
                with contextlib.suppress(*DATABASE_FAULTS):
                    await tick.before_rest()

    async def stop(self) -> None:
        """Ends; a tick that is running has two seconds to end by itself."""
        self._scheduler.pause()
        # The scheduler cancels what it has not begun yet, and takes that for an error: one round lets it begin.
        await asyncio.sleep(0)
        self._scheduler.shutdown(wait=False)
        if self._running:
            _, late = await asyncio.wait(self._running.values(), timeout=LAST_TICK_SECONDS)
            for task in late:
                task.cancel()

    async def _begin(self, tick: Tick) -> None:
        if tick.name not in self._running:
            task = asyncio.create_task(self._run(tick))
            self._running[tick.name] = task
            task.add_done_callback(lambda ended: self._end(tick, ended))

    def _end(self, tick: Tick, task: asyncio.Task[None]) -> None:
        del self._running[tick.name]
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug, which ends neither the other ticks nor the next run of this one.
            self._log.error("tick_failed", tick=tick.name, error=describe(error), at=frames(error))

    async def _run(self, tick: Tick) -> None:
        try:
            seconds = float(int(tick.every_seconds))
            taken = await self._database.fetchval(TAKE_TICK, tick.name, seconds)
            if taken and await tick.run() == 0:
                self._log.debug("tick_found_nothing", tick=tick.name)
        except DATABASE_FAULTS as error:
            # The next tick does what this one could not.
            if not (is_gone(error) or await self._database.reconnect_after_failover(error)):
                # Rows that somebody has locked are no fault of anybody.
                level = logging.INFO if is_locked_out(error) else logging.ERROR
                self._log.log(level, "tick_failed", tick=tick.name, error=describe(error))
