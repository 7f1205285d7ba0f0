"""Lists of rows, newest first: their filters as conditions of SQL, and their pages.

A page begins behind the last row of the one before it (a time and an id), so rows that are written meanwhile move nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from daemon.web.forms import BadValueError

AT_ONCE = 50
"""Rows of a page."""


class Conditions:
    """The conditions of one query, each with its values: `where("m.kind = {}", kind)`."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self.values: list[object] = []

    def where(self, condition: str, *values: object) -> None:
        """Adds a condition; each {} (or {0}, {1}) in it stands for a value."""
        numbers = (f"${len(self.values) + n}" for n in range(1, len(values) + 1))
        self._said.append(condition.format(*numbers))
        self.values.extend(values)

    def before(
        self,
        asked: Mapping[str, str],
        time: str,
        row: str,
        value: str = "{}::timestamptz at time zone 'utc'",
    ) -> None:
        """Only what comes behind the position in `asked`; `time` and `row` are the columns that the list is sorted by.

        `value`: how a time is written that is compared with `time`.
        """
        if "before" in asked:
            self.where(f"({time}, {row}) < ({value}, {{}}::uuid)", *_position(asked["before"]))

    def __str__(self) -> str:
        return " and ".join(self._said) or "true"


def next_page(rows: Sequence[Any], time: str = "created_at") -> str | None:
    """The position of the next page; None where there is none. `rows` has one more than is shown, if there are more."""
    if len(rows) <= AT_ONCE:
        return None
    last = rows[AT_ONCE - 1]
    return f"{last[time].isoformat()},{last['id']}"


def _position(before: str) -> tuple[datetime, UUID]:
    time, _, row = before.partition(",")
    try:
        return datetime.fromisoformat(time), UUID(row)
    except ValueError:
        raise BadValueError("before is no position in this list: begin at its first page.") from None
