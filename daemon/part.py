"""Parts of the daemon: what runs beside the workers as long as the daemon does.

Promise: a part that deals with the outside (folders, servers) may fail, and is built again after a pause that grows; the log,
and `memoryd doctor`, say so. The daemon goes on: agents' work does not wait for a folder. The failure of a
`vital` part ends the daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from structlog.typing import FilteringBoundLogger

from daemon.logs import describe, frames

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
"""Pauses. After a part has worked for the longest one it counts as healthy, and the next pause is the first one again."""


class PartError(Exception):
    """A part of the daemon ended before it was told to; the log has said why. The process ends, to be started again."""


class ImmediateStop(SystemExit):
    """A second signal came: the process ends, without closing anything but its own Postgres."""

    code: int


class Running(Protocol):
    """A part at work."""

    async def run(self) -> None:
        """Works until it is cancelled."""


@runtime_checkable
class Works(Running, Protocol):
    """A part that has work of its own, as the workers have jobs. A daemon ends, or rests, when it has none."""

    begun: int
    """How much work was begun here."""

    @property
    def runs(self) -> bool:
        """Whether something runs that must not be interrupted."""

    def wake(self) -> None:
        """There may be work."""

    async def has_work(self) -> bool:
        """Whether work runs here, or waits and could start now."""

    async def stop(self, *, grace_seconds: float) -> None:
        """Begins no new work, gives running work this time to finish, and hands the rest back."""


@dataclass(frozen=True, slots=True)
class Part:
    """How a part is built. `build` returns None if the settings switch it off, and raises ValueError if they cannot work."""

    name: str
    build: Callable[[], Running | None]
    topic: str | None = None
    """Notifications of this topic call the `wake()` of what `build` returns."""
    vital: bool = False
    """Whether its failure ends the daemon, as that of a worker does."""


class KeptPart:
    """A part that is built again after each failure."""

    def __init__(
        self,
        part: Part,
        *,
        tell: Callable[[str, str | None], None],
        logger: FilteringBoundLogger,
    ) -> None:
        """Builds it. `tell(name, error)` reports a failure; error None: it works. Raises ValueError with what to do."""
        self._part = part
        self._tell = tell
        self._log = logger
        self.running = part.build()

    def wake(self, topic: str | None) -> None:
        """Something of this topic has happened; None: of any topic."""
        if self.running is not None and self._part.topic is not None and topic in (None, self._part.topic):
            self.running.wake()  # type: ignore[attr-defined]

    async def run(self) -> None:
        """Runs it, and a new one after each failure."""
        if self._part.vital:
            assert self.running is not None
            await self.running.run()
            return
        loop = asyncio.get_running_loop()
        name, pause = self._part.name, FIRST_SECONDS
        while True:
            began = loop.time()
            well = loop.call_later(LONGEST_SECONDS, self._tell, name, None)
            try:
                self.running = self.running or self._part.build()
                assert self.running is not None
                await self.running.run()
                cause: Exception = RuntimeError("it ended by itself")
            except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on
                cause = _first(error)
            finally:
                well.cancel()
            pause = FIRST_SECONDS if loop.time() - began >= LONGEST_SECONDS else pause
            self._log.error(
                "part_failed", part=name, error=describe(cause), at=frames(cause), again_seconds=pause
            )
            self._tell(name, describe(cause))
            self.running = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_SECONDS)


def _first(error: Exception) -> Exception:
    """The first error of a group."""
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error
