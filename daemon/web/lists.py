"""Lists of rows, newest first, and rows that have numbers: both in pages.

A page of a list begins behind the last row of the one before it (a time and an id), so rows that are written meanwhile move
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from daemon.web.forms import BadValueError
from daemon.web.viewer import Viewer, rows_found
from handlers.shared.ports import AnyConnection

AT_ONCE = 50
"""Rows of a page."""
LOOKED_AT = 20_000
"""Rows that a page looks through for what no index has: it answers as fast where few of them fit, or none."""
WRONG_PAGE = "before is no position in this list: begin at its first page."


class Conditions:
    """The conditions of one query, each with its values: `where("m.kind = {}", kind)`."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._looked_for: list[str] = []
        self.values: list[object] = []

    def where(self, condition: str, *values: object) -> None:
        """Adds a condition; each {} (or {0}, {1}) in it stands for a value."""
        self._add(self._said, condition, values)

    def asked(self, condition: str, value: object) -> None:
        """Adds a condition with one value, where it was asked for: not for None."""
        if value is not None:
            self.where(condition, value)

    def look_for(self, condition: str, *values: object) -> None:
        """Adds a condition that no index has, so that `Newest` looks through `LOOKED_AT` rows and no more; none for None."""
        if None not in values:
            self._add(self._looked_for, condition, values)

    def _add(self, said: list[str], condition: str, values: Sequence[object]) -> None:
        numbers = (f"${len(self.values) + n}" for n in range(1, len(values) + 1))
        said.append(condition.format(*numbers))
        self.values.extend(values)

    @property
    def looked_for(self) -> str:
        """The conditions that no index has; empty: there are none."""
        return " and ".join(self._looked_for)

    def __str__(self) -> str:
        return " and ".join(self._said) or "true"


@dataclass(frozen=True, slots=True)
class Newest:
    """A table that is listed by a column with a time, the newest first.

    `table`: with its alias, as in "public.documents d"; `shown`: SQL that reads the rows by their ids, $1, in that order. Both
    are ours; `zone`: what follows a time where its index is of another type.
    """

    table: str
    time: str
    shown: str
    zone: str = ""

    @property
    def _row(self) -> str:
        return self.table.split()[-1]

    @property
    def _order(self) -> str:
        return f"{self._row}.{self.time}{self.zone}"

    def found(self, filters: Conditions) -> str:
        """SQL of a page: its rows and one more; where it ends before, then the last row that it looked at, and the next.

        `fits`: whether it is a row of the page; `nth`: how many were looked at.
        """
        order = f"{self._order} desc, {self._row}.id desc"
        if not filters.looked_for:
            return (
                f"select {self._row}.id, true as fits, 0 as nth from {self.table} where {filters} "  # noqa: S608 - names of ours
                f"order by {order} limit {AT_ONCE + 1}"
            )
        return (
            f"select w.id, w.fits and w.nth <= {LOOKED_AT} as fits, w.nth, w.time at time zone 'utc' as time "  # noqa: S608
            f"from (select {self._row}.id, {self._order} as time, {filters.looked_for} as fits, "
            f"row_number() over (order by {order}) as nth from {self.table} where {filters} "
            f"order by {order} limit {LOOKED_AT + 1}) w "
            f"where w.fits or w.nth >= {LOOKED_AT} order by w.time desc, w.id desc limit {AT_ONCE + 2}"
        )

    async def page(
        self, connection: AnyConnection, viewer: Viewer, asked: Mapping[str, str], filters: Conditions
    ) -> dict[str, Any]:
        """The `rows` of a page, and the position of the `next_page`, None where there is none. Raises BadValueError.

        `looked`: how many rows were looked through, where the page ends there although further rows may fit; else None.
        """
        if "before" in asked:
            position = f"({{}}::timestamptz{self.zone}, {{}}::uuid)"
            filters.where(f"({self._order}, {self._row}.id) < {position}", *_position(asked["before"]))
        found = await rows_found(connection, viewer, self.found(filters), *filters.values)
        ids = [row["id"] for row in found if row["fits"]][: AT_ONCE + 1]
        rows = await connection.fetch(self.shown, ids)
        last = rows[AT_ONCE - 1] if len(rows) > AT_ONCE else None
        next_page, looked = last and f"{last[self.time].isoformat()},{last['id']}", None
        if len(ids) <= AT_ONCE and found and found[-1]["nth"] > LOOKED_AT:
            next_page, looked = f"{found[-2]['time'].isoformat()},{found[-2]['id']}", LOOKED_AT
        return {"rows": rows[:AT_ONCE], "next_page": next_page, "looked": looked}


def _position(before: str) -> tuple[datetime, UUID]:
    said, _, row = before.partition(",")
    try:
        time = datetime.fromisoformat(said)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC), UUID(row)
    except ValueError:
        raise BadValueError(WRONG_PAGE) from None


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows that one other row has, with numbers: the messages of a conversation, the chunks of a document.

    `whole`: the column that names the one that has them. `columns`: what is read; all of it SQL of ours.
    """

    table: str
    whole: str
    number: str
    columns: str

    @property
    def shown(self) -> str:
        """SQL of the rows of $1 from number $2 on: a page, and one more."""
        return (
            f"select {self.columns} from {self.table} where {self.whole} = $1 and {self.number} >= $2 "  # noqa: S608
            f"order by {self.number} limit {AT_ONCE + 1}"
        )

    @property
    def earlier(self) -> str:
        """SQL of the number that stands $3 rows before number $2, or of the first; null where none is before."""
        return (
            f"select min(n) from (select {self.number} as n from {self.table} "  # noqa: S608
            f"where {self.whole} = $1 and {self.number} < $2 order by {self.number} desc limit $3) e"
        )

    async def page(self, connection: AnyConnection, whole: UUID, first: int) -> dict[str, Any]:
        """The `rows` from number `first` on, and the first numbers of the pages before and after: `earlier` and `later`."""
        rows = await connection.fetch(self.shown, whole, first)
        return {
            "rows": rows[:AT_ONCE],
            "earlier": await connection.fetchval(self.earlier, whole, first, AT_ONCE),
            "later": rows[AT_ONCE][self.number.rpartition(".")[2]] if len(rows) > AT_ONCE else None,
        }
