"""When the daemon of one of several databases ends: after a while without work, or as soon as others wait for its turn.

Promise: what waits for a provider that is down keeps no other database waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from daemon.ending import LOOK_SECONDS, PATIENCE_SECONDS, Idleness
from daemon.schedule import Schedule

LONGEST_LOOK_SECONDS = 10.0

# A job of a topic that a daemon serves, also one for later; a conversation to be read; a command that is worked on.
ANYTHING_OPEN = """
select exists (
        select from memoryd.jobs j
        where coalesce((select s.value from memoryd.settings s where s.key = 'topics') ? j.topic, true))
    or exists (select from public.agent_commands c where c.status = 'running')
    or exists (select from memoryd.unread) and exists (
        select from memoryd.settings s where s.key = 'facts' and s.value = '"model"')
"""


@dataclass(frozen=True, slots=True)
class Idle:
    """A daemon has found nothing to do. `topics`: None where nothing is open; else those whose jobs could be done now.

    What is open waits for its time, or for a provider, which may be asked again after `seconds`; None: none is down.
    """

    topics: Sequence[str] | None
    seconds: float | None = None


async def until_idle(
    idleness: Idleness, schedule: Schedule, *, seconds: float, wanted: asyncio.Event
) -> Idle:
    """Returns when there was no work for so long; while `wanted` is set, as soon as none can be done now."""
    await schedule.run_all()
    idle = await _wait(idleness, seconds, wanted)
    await schedule.run_before_rest()
    return idle


async def _wait(idleness: Idleness, seconds: float, wanted: asyncio.Event) -> Idle:
    async def is_anything_open() -> bool:
        return bool(await idleness.database.fetchval(ANYTHING_OPEN))

    loop = asyncio.get_running_loop()
    idle_since = loop.time()
    while loop.time() - idle_since < seconds:
        if wanted.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            if not idleness.dreams() and not await idleness.has_work():
                if not await idleness.is_busy(is_anything_open):
                    return Idle(None)
                down = [worker.topic.waits_for() for worker in idleness.workers.values()]
                return Idle(
                    idleness.reachable(), min((one for one in down if one > PATIENCE_SECONDS), default=None)
                )
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(LONGEST_LOOK_SECONDS, seconds / 4)):
                    await wanted.wait()
            if idleness.dreams() or await idleness.is_busy(is_anything_open):
                idle_since = loop.time()
    return Idle(None)
