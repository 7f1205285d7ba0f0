"""What several databases share in one process: each gets its turn, however much another one wants.

Promise: of those that wait the next is always of the database that was served longest ago, so one that floods delays the others
by one turn each, not by all that it has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

BATCHES_AT_ONCE = 2
"""Of jobs for which nobody waits. More would only make those wait that somebody waits for: they share one thread."""
NO_LIMIT = 1_000_000


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


class Room:
    """Room for this many programs at once.

    Promise: who takes some has it at once, before it knows how many it needs, so there are never more; who finds none is told
    when there is some, in the order in which they came.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self, *, wake: Callable[[], None]) -> int:
        """Half of what is free: others may come while it is found out how many are needed. None: `wake` is called later."""
        taken = (self._free + 1) // 2
        self._free -= taken
        if not taken:
            self._waiting[wake] = None
        return taken

    def give_back(self, number: int) -> None:
        """What was taken and is not needed, or not any more."""
        self._free += number
        if number:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()


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

    @classmethod
    def of_many(cls, commands: int, *, embedding: int) -> Shared:
        """By turns. `commands`: programs at once; `embedding`: calls to the embedder."""
        return cls(
            batches=Turns(BATCHES_AT_ONCE),
            embedding=Turns(embedding),
            dreams=Turns(1),
            builds=Turns(1),
            commands=Room(commands),
        )

    @classmethod
    def of_one(cls, commands: int) -> Shared:
        """Of a single database, which waits for no other."""
        batches, embedding, dreams, builds = (Turns(NO_LIMIT) for _ in range(4))
        return cls(batches, embedding, dreams, builds, Room(commands))
