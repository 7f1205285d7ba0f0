"""One answer for all who ask at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")

CLOSE_SECONDS = 1.0


class Cache(Generic[Value]):
    """What `ask` answers, for `seconds` after it has. However many want it meanwhile, it is asked once.

    Who asks waits for `patience` seconds at most. What takes longer is not given up: asked again, a database that hangs would
    lose a connection each time.
    """

    def __init__(self, ask: Callable[[], Awaitable[Value]], *, seconds: float, patience: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._patience = patience
        self._asking: asyncio.Task[Value] | None = None
        self._began = self._ended = 0.0

    async def get(self) -> Value:
        """The value. Raises TimeoutError, or what asking raised."""
        now = asyncio.get_running_loop().time()
        if self._asking is None or (self._asking.done() and now >= self._ended + self._seconds):
            self._asking, self._began = asyncio.create_task(self._timed()), now
        asking = self._asking
        await asyncio.wait([asking], timeout=max(0.0, self._began + self._patience - now))
        if not asking.done():
            raise TimeoutError
        return asking.result()

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking], timeout=CLOSE_SECONDS)

    async def _timed(self) -> Value:
        try:
            return await self._ask()
        finally:
            self._ended = asyncio.get_running_loop().time()
