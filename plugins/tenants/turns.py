"""Turns of several databases in one process: each gets its turn, however busy another one is.

Promise: of those that wait the next is always of the database that was served longest ago, so one that floods delays the others
by one turn each, not by all that it has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

BATCHES_AT_ONCE = 2
"""Of jobs for which nobody waits. More would only make those wait that somebody waits for: they share one thread."""


class Turns:
    """This many turns at once, in all."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._given = 0
        self._last: dict[str, int] = {}
        """By database the number of its last turn."""
        self.awaited = asyncio.Event()
        """Set while somebody waits for a turn."""

    @asynccontextmanager
    async def turn(self, whose: str) -> AsyncIterator[None]:
        """One turn of this database."""
        if self._free:
            self._free -= 1
            self._count(whose)
        else:
            await self._wait(whose)
        try:
            yield
        finally:
            self._give_on()

    async def _wait(self, whose: str) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(whose, deque()).append(mine)
        self.awaited.set()
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # given in the same moment
                self._give_on()
            elif (others := self._waiting.get(whose)) is not None:
                with suppress(ValueError):
                    others.remove(mine)
                if not others:
                    self._none_waits(whose)
            raise

    def _give_on(self) -> None:
        while self._waiting:
            whose = min(self._waiting, key=lambda one: self._last.get(one, 0))
            waiting = self._waiting[whose]
            first = waiting.popleft()
            if not waiting:
                self._none_waits(whose)
            if not first.done():
                self._count(whose)
                first.set_result(None)
                return
        self._free += 1

    def _none_waits(self, whose: str) -> None:
        del self._waiting[whose]
        if not self._waiting:
            self.awaited.clear()

    def _count(self, whose: str) -> None:
        self._given += 1
        self._last[whose] = self._given


class SharedTurns:
    """The turns that the databases of one process share, by the kind of work."""

    def __init__(self, *, embedding: int) -> None:
        """`embedding`: calls to the embedder at once."""
        self._of_kind = {
            "batches": Turns(BATCHES_AT_ONCE),
            "embedding": Turns(embedding),
            "dreams": Turns(1),
            "builds": Turns(1),  # each build takes half a gigabyte of a server's memory
        }

    def turns_of(self, name: str) -> Callable[[str], AbstractAsyncContextManager[None]]:
        """The turns of one database: see Daemon."""
        return lambda kind: self._of_kind[kind].turn(name)
