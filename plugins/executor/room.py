"""The limit on the programs of one process, for all its databases.

Promise: a caller reserves room before it knows how many programs it needs, so there are never too many programs. Callers that
found no room are woken in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable


class Room:
    """Room for this number of programs at once."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self, *, wake: Callable[[], None]) -> int:
        """Reserves half of the free room, since others may come before the need is known. After 0, `wake` is called later."""
        taken = (self._free + 1) // 2
        self._free -= taken
        if not taken:
            self._waiting[wake] = None
        return taken

    def give_back(self, number: int) -> None:
        """Gives back room that is not needed, or no longer needed."""
        self._free += number
        if number:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()
