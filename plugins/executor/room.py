"""Room for the programs of one process, of all its databases.

Promise: who takes some has it at once, before it knows how many it needs, so there are never more; who finds none is told
when there is some, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable


class Room:
    """Room for this many programs at once."""

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
