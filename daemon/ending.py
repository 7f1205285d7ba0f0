"""How a daemon ends: at a signal, without work, or when one of its parts fails.

Promise: at SIGTERM and SIGINT a process stops in order, at a second one at once. A part that ends by itself is a bug, which
ends the process and is logged; what runs is cancelled until it is over. What becomes work by itself counts as work, also when
the database did not say; what waits for a provider that is down keeps no other database waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.logs import describe, frames
from daemon.part import ImmediateStop, PartError, Works
from daemon.queue import queue
from daemon.queue.worker import Worker
from daemon.schedule import Schedule

CANCEL_SECONDS = 1.0


async def until_done(idleness: Idleness, schedule: Schedule, logger: FilteringBoundLogger) -> None:
    """Returns when the clean-ups are done, and nothing else is left."""
    await schedule.run_all()
    await idleness.until_done()
    logger.info("nothing_left")


async def until_signalled(
    told_to_stop: asyncio.Event, running: Sequence[asyncio.Task[None]], logger: FilteringBoundLogger
) -> None:
    """Waits for the signal. If a part ends before, that is a bug: the whole process ends, and has to be started again."""
    told = asyncio.create_task(told_to_stop.wait())
    done, _ = await asyncio.wait([told, *running], return_when=asyncio.FIRST_COMPLETED)
    if told not in done:
        told.cancel()
        for task in done:
            if (error := task.exception()) is not None:
                logger.error(
                    "part_failed",
                    part=getattr(task.get_coro(), "__qualname__", "?"),
                    error=describe(error),
                    at=frames(error),
                )
                raise PartError from error


async def end_all(running: Sequence[asyncio.Task[None]]) -> None:
    """Cancels these until they are over."""
    left = set(running)
    while left:
        # More than once: inside a library an exception may replace a cancellation.
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)
    await asyncio.gather(*running, return_exceptions=True)


async def until_first_ends(*works: Coroutine[Any, Any, object]) -> None:
    """Runs all of them until one ends, and cancels the others. Raises what the one that ended raised."""
    tasks = [asyncio.create_task(each) for each in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 2.0
"""For a provider that is down."""


class Idleness:
    """What one daemon has to do."""

    def __init__(
        self,
        database: Database,
        workers: Mapping[str, Worker],
        parts: Sequence[Works],
        *,
        dreams: Callable[[], bool],
    ) -> None:
        """`parts`: those that have work of their own; `dreams`: whether a dream goes on."""
        self.database = database
        self.workers = workers
        self._parts = parts
        self.dreams = dreams

    async def until_done(self) -> None:
        """Returns when no job and no command is done or about to be."""
        while await self.has_work():
            await asyncio.sleep(LOOK_SECONDS)

    async def has_work(self) -> bool:
        """Whether a job or a command is done, or can be done now."""
        return await self.is_busy(lambda: queue.is_work_left(self.database, self.reachable()))

    def reachable(self) -> list[str]:
        """Topics whose provider answers."""
        return [name for name, one in self.workers.items() if one.topic.waits_for() <= PATIENCE_SECONDS]

    async def is_busy(self, has_jobs: Callable[[], Awaitable[bool]]) -> bool:
        """Whether there is work; also when the database did not say."""
        try:
            if not self._parts:
                return await has_jobs()
            # A command that ends makes a job, and a job that ends a command: so both sides are asked, and the first one again.
            begun = self._begun()
            return (
                await self._parts_have_work()
                or await has_jobs()
                or await self._parts_have_work()
                or self._begun() != begun
            )
        except DATABASE_FAULTS as error:
            if not is_gone(error):
                raise
            await self.database.recover(error)
            return True

    async def _parts_have_work(self) -> bool:
        return any([await part.has_work() for part in self._parts])

    def _begun(self) -> int:
        return sum(part.begun for part in self._parts)


# --- Signals.

SAME_MOMENT_SECONDS = 0.5
"""Signals within it are one: a group of processes gets Ctrl-C, and its leader tells each of them to stop."""


def heed_signals(
    told_to_stop: asyncio.Event,
    *,
    reread: asyncio.Event | None = None,
    grace_seconds: float,
    logger: FilteringBoundLogger,
) -> dict[signal.Signals, Any]:
    """From now on signals set these events; `reread`: at SIGHUP. A second one raises ImmediateStop in the loop.

    Returns who heeded them before.
    """
    loop = asyncio.get_running_loop()
    told = 0.0

    def heed(number: signal.Signals) -> None:
        nonlocal told
        if number == signal.SIGHUP and reread is not None:
            reread.set()
        elif not told_to_stop.is_set():
            logger.info("stopping", signal=number.name, grace_seconds=grace_seconds)
            told_to_stop.set()
            told = loop.time()
        elif loop.time() - told > SAME_MOMENT_SECONDS:
            logger.warning("stopping_at_once", signal=number.name)
            raise ImmediateStop(128 + number)

    def receive(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the daemon has stopped
            loop.call_soon_threadsafe(heed, signal.Signals(number))

    # Not add_signal_handler: at the end of the loop it would give the signals back, and one that comes then would end
    # the process before its Postgres is stopped.
    heeded = (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if reread is not None else ()))
    return {number: signal.signal(number, receive) for number in heeded}


@contextmanager
def signals_heeded(
    told_to_stop: asyncio.Event, *, grace_seconds: float, logger: FilteringBoundLogger
) -> Iterator[None]:
    """Inside, signals set the event; afterwards they are whose they were."""
    before = heed_signals(told_to_stop, grace_seconds=grace_seconds, logger=logger)
    try:
        yield
    finally:
        give_back(before)


def heed_no_more(heeded: Iterable[signal.Signals]) -> None:
    """Ignores these signals from now on: the process is already ending in order."""
    for number in heeded:
        signal.signal(number, lambda _number, _frame: None)


def give_back(before: Mapping[signal.Signals, Any]) -> None:
    """Signals are heeded by those who heeded them before."""
    for number, handler in before.items():
        signal.signal(number, handler)
