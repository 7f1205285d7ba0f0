"""How a daemon ends: at a signal, without work, or when one of its parts fails.

Promise: a part that ends by itself is a bug, which ends the process and is logged; what runs is cancelled until it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from daemon.idleness import Idle, Idleness
from daemon.logs import describe, frames
from daemon.refusal import PartFailed
from daemon.schedule import Schedule

CANCEL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RestRule:
    """Rest after these seconds without work; while `wanted` is set, as soon as no work can be done now."""

    seconds: float
    wanted: asyncio.Event


async def until_done(idleness: Idleness, schedule: Schedule, logger: FilteringBoundLogger) -> None:
    """Returns when the clean-ups are done, and nothing else is left."""
    await schedule.run_all()
    await idleness.until_done()
    logger.info("nothing_left")


async def until_idle(idleness: Idleness, schedule: Schedule, resting: RestRule) -> Idle:
    """Returns when there is nothing to do."""
    await schedule.run_all()
    idle = await idleness.until_idle(resting.seconds, wanted=resting.wanted)
    await schedule.run_before_rest()
    return idle


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
                raise PartFailed from error


async def end_all(running: Sequence[asyncio.Task[None]]) -> None:
    """Cancels these until they are over."""
    left = set(running)
    while left:
        # More than once: inside a library an exception may replace a cancellation.
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)
    await asyncio.gather(*running, return_exceptions=True)
