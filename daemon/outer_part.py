"""Parts of the daemon that deal with the outside: folders, Google Drive. Files and servers give them what nobody thought of.

Promise: such a part may fail, and is started again after a pause that grows; the log, and `memoryd doctor`, say so. The
daemon goes on: agents' work does not wait for a folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from daemon.logs import describe, frames

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
"""Pauses. A part that has worked for the longest one counts as well, and begins with the first one again."""


class Part(Protocol):
    """A part of the daemon."""

    async def run(self) -> None:
        """Works until it is cancelled."""
        ...


async def keep_running(
    name: str,
    part: Part | None,
    build: Callable[[], Part | None],
    *,
    tell: Callable[[str, str | None], None],
    logger: FilteringBoundLogger,
) -> None:
    """Runs a part, and a new one after each failure. `tell`: its name, and its error; None: it works."""
    loop = asyncio.get_running_loop()
    pause = FIRST_SECONDS
    while True:
        began = loop.time()
        well = loop.call_later(LONGEST_SECONDS, tell, name, None)
        try:
            part = part or build()
            assert part is not None
            await part.run()
            cause: Exception = RuntimeError("it ended by itself")
        except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on
            cause = _first(error)
        finally:
            well.cancel()
        pause = FIRST_SECONDS if loop.time() - began >= LONGEST_SECONDS else pause
        logger.error("part_failed", part=name, error=describe(cause), at=frames(cause), again_seconds=pause)
        tell(name, describe(cause))
        part = None
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_SECONDS)


def _first(error: Exception) -> Exception:
    """Of a group of errors the first one."""
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error
