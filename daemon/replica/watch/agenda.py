"""What the next pass over the replica has to look at."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection

from daemon.replica.watch.carried_over import MOST


class Agenda:
    """Collects it until the pass begins."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._files_event = asyncio.Event()
        self._paths: set[str] = set()
        self._rows = False
        self._everything_at = 0.0

    def rows(self) -> None:
        """Documents or entries changed."""
        self._rows = True
        self._event.set()

    def paths(self, paths: Collection[str] | None) -> None:
        """Files changed; None: nobody knows which."""
        if paths is None or len(self._paths) > MOST:
            self.everything()
        else:
            self._paths.update(paths)
        self._event.set()
        self._files_event.set()

    def everything(self, *, after: float = 0.0) -> None:
        """All files are looked at after this number of seconds at the latest."""
        self._everything_at = min(self._everything_at, time.monotonic() + after)

    def take(self) -> tuple[set[str] | None, bool]:
        """For a pass that begins now: the paths to look at, and whether rows have changed.

        None: all paths. The caller then says again when all files are due next.
        """
        self._event.clear()
        self._files_event.clear()
        paths, self._paths = self._paths, set()
        rows, self._rows = self._rows, False
        if time.monotonic() < self._everything_at:
            return paths, rows
        self._everything_at = float("inf")
        return None, True

    async def wait(self, seconds: float, *, rows: bool) -> None:
        """Until something is due, but no longer than this. `rows`: then they are, in case that nobody was told of a change."""
        seconds = min(seconds, max(0.0, self._everything_at - time.monotonic()))
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            self._rows |= rows

    async def rest(self, seconds: float) -> None:
        """So long nothing is done about rows; what people do ends it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._files_event.wait()
