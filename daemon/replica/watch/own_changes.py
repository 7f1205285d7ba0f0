"""What memoryd itself wrote or deleted last: an event of it tells nothing new, so it starts no pass."""

from __future__ import annotations

import os

Mark = tuple[int, int, int]
"""Size, time and number of a file. They are known before the file gets its name, and so before a person can replace it."""
MAX_PATHS = 1_000
"""Of which events are still expected. More are forgotten, which costs a pass."""


def mark(found: os.stat_result) -> Mark:
    """Of a file."""
    return found.st_size, found.st_mtime_ns, found.st_ino


class OwnChanges:
    """Remembers it, by path."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark | None] = {}

    def remember(self, path: str, left: Mark | None) -> None:
        """What memoryd left there; None: it deleted the file."""
        if len(self._marks) >= MAX_PATHS:
            self._marks.clear()
        self._marks[path] = left

    def __contains__(self, path: str) -> bool:
        return path in self._marks

    def is_as_left(self, path: str, found: Mark | None) -> bool:
        """Whether that is what is there now."""
        return path in self._marks and self._marks[path] == found
