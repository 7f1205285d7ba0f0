"""What the next pass over the replica has to look at."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection

from daemon.replica.remembered import MOST


class Due:
    """Collects it until the pass begins."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._paths: set[str] = set()
        self._everything_at = 0.0

    def rows(self) -> None:
        """Documents or entries changed."""
        self._event.set()

    def paths(self, paths: Collection[str] | None) -> None:
        """Files changed; None: nobody knows which."""
        if paths is None or len(self._paths) > MOST:
            self.everything()
        else:
            self._paths.update(paths)
        self._event.set()

    def everything(self, *, after: float = 0.0) -> None:
        """In so many seconds, or earlier, all files are looked at."""
        self._everything_at = min(self._everything_at, time.monotonic() + after)

    def take(self) -> set[str] | None:
        """The paths to look at, for a pass that begins now; None: all. When all are due again is to be said anew then."""
        self._event.clear()
        paths, self._paths = self._paths, set()
        if time.monotonic() < self._everything_at:
            return paths
        self._everything_at = float("inf")
        return None

    async def wait(self, seconds: float) -> None:
        """Until something is due, but no longer than this."""
        seconds = min(seconds, max(0.0, self._everything_at - time.monotonic()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
