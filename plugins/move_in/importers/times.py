"""The times of records that have none: those of what stands beside them in their file.

Promise: memory is taken for each conversation and owner, not for each record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from plugins.move_in.importers.items import time_of


class Times:
    """The times of the records, while they are read in their order."""

    def __init__(self) -> None:
        self._first: dict[int, datetime] = {}
        self._last: dict[int, datetime] = {}
        self._files: list[datetime | None] = []
        self._latest = datetime.now(UTC) + timedelta(days=1)

    def owner(self, user: object, agent: str | None) -> list[int]:
        """Who a record of this file is beside: records of the same user and agent, else of the agent, else of the user."""
        file = len(self._files)
        both = [hash((file, user, agent))] if user is not None and agent is not None else []
        return [*both, *(hash((file, one)) for one in (agent, user) if one is not None)]

    def noted(self, time: datetime | None, beside: Iterable[int], since: object) -> dict[str, Any]:
        """Fields of a row: its time. Without one, what decides on it when all is read, the nearest first.

        `since`: the time of what the record belongs to, which counts if nothing is beside it. A time to come is none.
        """
        if time is None or time > self._latest:
            said = [[key, self._last.get(key)] for key in beside]
            return {"created_at": None, "beside": [*said, [None, time_of(since)]], "file": len(self._files)}
        for key in beside:
            self._first.setdefault(key, time)
            self._last[key] = time
        return {"created_at": time}

    def end_file(self, time: object) -> None:
        """The file ends; it has this time of its own."""
        self._files.append(time_of(time))

    def decided(self, row: Mapping[str, Any]) -> str | datetime | None:
        """The time of a row without one: of the record before it, of the next, of what it belongs to, or of the file."""
        for key, before in row["beside"]:
            if time := before or self._first.get(key):
                return time
        return self._files[row["file"]] if row["file"] < len(self._files) else None
