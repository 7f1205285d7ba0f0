"""What several databases share in one process: each gets its turn, however much another one wants.

Promise: of those that wait the next is always of the database that was served longest ago, so one that floods delays the others
by one turn each, not by all that it has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass


class Turns:
    """This many turns at once, in all."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._given = 0
        self._last: dict[str, int] = {}
        """By database the number of its last turn."""

    @property
    def are_awaited(self) -> bool:
        """Whether somebody waits for a turn."""
        return bool(self._waiting)

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
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # given in the same moment
                self._give_on()
            elif (others := self._waiting.get(whose)) is not None:
                with suppress(ValueError):
                    others.remove(mine)
                if not others:
                    del self._waiting[whose]
            raise

    def _give_on(self) -> None:
        while self._waiting:
            whose = min(self._waiting, key=lambda one: self._last.get(one, 0))
            waiting = self._waiting[whose]
            first = waiting.popleft()
            if not waiting:
                del self._waiting[whose]
            if not first.done():
                self._count(whose)
                first.set_result(None)
                return
        self._free += 1

    def _count(self, whose: str) -> None:
        self._given += 1
        self._last[whose] = self._given


class Room:
    """How many programs may still be run at once."""

    def __init__(self, free: int) -> None:
        self.free = free


@dataclass(frozen=True, slots=True)
class Shared:
    """What the databases of one process share."""

    batches: Turns
    """Of jobs that nobody waits for."""
    embedding: Turns
    dreams: Turns
    builds: Turns
    """Of indexes: each takes half a gigabyte of a server's memory."""
    commands: Room
