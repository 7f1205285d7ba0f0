"""One answer for all who ask at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Cached(Generic[Value]):
    """What `ask` answers, for `seconds` after it has. However many want it meanwhile, it is asked once."""

    def __init__(self, ask: Callable[[], Awaitable[Value]], *, seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._asking: asyncio.Task[Value] | None = None
        self._until = 0.0

    async def get(self) -> Value:
        """The value; raises what asking raised."""
        loop = asyncio.get_running_loop()
        if self._asking is None or (self._asking.done() and loop.time() >= self._until):
            self._asking = asyncio.create_task(self._timed())
        # Who waits may be let go; the others still get the answer.
        return await asyncio.shield(self._asking)

    async def close(self) -> None:
        """Ends what is being asked."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _timed(self) -> Value:
        try:
            return await self._ask()
        finally:
            self._until = asyncio.get_running_loop().time() + self._seconds
