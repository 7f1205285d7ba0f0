"""When a daemon has nothing left to do: as soon as that is so, or for a while, or as soon as others wait for its turn.

Promise: what becomes work by itself counts as work, also when the database did not say; what waits for a provider that is down
keeps no other database waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.part import Works
from daemon.queue import queue
from daemon.queue.worker import Worker

LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.1, 10.0
PATIENCE_SECONDS = 2.0
"""For a provider that is down."""


@dataclass(frozen=True, slots=True)
class Idle:
    """A daemon has found nothing to do. `topics`: None where nothing is open; else those whose jobs could be done now.

    What is open waits for its time, or for a provider, which may be asked again in so many `seconds`; None: none is down.
    """

    topics: Sequence[str] | None
    seconds: float | None = None


class Idleness:
    """Looks at what one daemon has to do."""

    def __init__(
        self,
        database: Database,
        workers: Mapping[str, Worker],
        parts: Sequence[Works],
        *,
        dreams: Callable[[], bool],
    ) -> None:
        """`parts`: those that have work of their own; `dreams`: whether a dream goes on."""
        self._database = database
        self._workers = workers
        self._parts = parts
        self._dreams = dreams

    async def until_done(self) -> None:
        """Returns when no job and no command is done or about to be."""
        while await self._is_busy(self._can_be_done):
            await asyncio.sleep(LOOK_SECONDS)

    async def until_idle(self, seconds: float, *, wanted: asyncio.Event) -> Idle:
        """Returns when there was no work for so long; while `wanted` is set, as soon as none can be done now."""
        loop = asyncio.get_running_loop()
        idle_since = loop.time()
        while loop.time() - idle_since < seconds:
            if wanted.is_set():
                await asyncio.sleep(LOOK_SECONDS)
                if not self._dreams() and not await self._is_busy(self._can_be_done):
                    return await self._idle()
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(LONGEST_LOOK_SECONDS, seconds / 4)):
                        await wanted.wait()
                if self._dreams() or await self._is_busy(self._is_open):
                    idle_since = loop.time()
        return Idle(None)

    async def _idle(self) -> Idle:
        if not await self._is_busy(self._is_open):
            return Idle(None)
        down = [one.topic.waits_for() for one in self._workers.values()]
        return Idle(
            self._reachable(), min((seconds for seconds in down if seconds > PATIENCE_SECONDS), default=None)
        )

    def _reachable(self) -> list[str]:
        """Topics whose provider answers."""
        return [name for name, one in self._workers.items() if one.topic.waits_for() <= PATIENCE_SECONDS]

    async def _can_be_done(self) -> bool:
        return await queue.is_work_left(self._database, self._reachable())

    async def _is_open(self) -> bool:
        return await queue.is_anything_open(self._database)

    async def _is_busy(self, has_jobs: Callable[[], Awaitable[bool]]) -> bool:
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
            await self._database.recover(error)
            return True

    async def _parts_have_work(self) -> bool:
        return any([await part.has_work() for part in self._parts])

    def _begun(self) -> int:
        return sum(part.begun for part in self._parts)
