"""Lists of rows, newest first, and numbered rows: both in pages.

A page of a list begins after the last row of the page before (a time and an id), so rows written meanwhile move nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from handlers.shared.ports import AnyConnection
from plugins.web.forms import BadValueError
from plugins.web.names import names_of, nobody_of
from plugins.web.render import number
from plugins.web.viewer import Viewer, by_indexes, rows_found

AT_ONCE = 50
"""Rows of a page."""
SCANNED = 20_000
"""Rows that a page scans at most for a condition without an index: few matches do not make it slow."""
COUNTED = 2000
"""Rows among which those of a list are counted: the newest."""
WRONG_PAGE = "before is no position in this list: begin at its first page."


class Conditions:
    """The conditions of one query, each with its values: `where("m.kind = {}", kind)`."""

    def __init__(self) -> None:
        self._indexed: list[str] = []
        self._scanned: list[str] = []
        self.values: list[object] = []

    def where(self, condition: str, *values: object) -> None:
        """Adds a condition; each {} (or {0}, {1}) in it stands for a value."""
        self._add(self._indexed, condition, values)

    def where_given(self, condition: str, value: object) -> None:
        """Adds a condition with one value; none for None."""
        if value is not None:
            self.where(condition, value)

    def scan_for(self, condition: str, *values: object) -> None:
        """Adds a condition without an index: `Timeline` scans at most `SCANNED` rows for it. Adds none for None."""
        if None not in values:
            self._add(self._scanned, condition, values)

    def value(self, value: object) -> str:
        """The place of a value in SQL of the caller's own."""
        self.values.append(value)
        return f"${len(self.values)}"

    def _add(self, to: list[str], condition: str, values: Sequence[object]) -> None:
        numbers = (f"${len(self.values) + n}" for n in range(1, len(values) + 1))
        to.append(condition.format(*numbers))
        self.values.extend(values)

    @property
    def scanned(self) -> str:
        """The conditions without an index; empty: there are none."""
        return " and ".join(self._scanned)

    def __str__(self) -> str:
        return " and ".join(self._indexed) or "true"


def rows_of(table: str, columns: str) -> str:
    """SQL of the rows of the ids $1, in this order. `table`: with its alias, as in "public.documents d", and what is joined."""
    return (
        f"select {columns} from {table} "  # noqa: S608 - SQL of ours
        "join unnest($1::uuid[]) with ordinality as wanted(id, nth) "
        f"on wanted.id = {table.split()[1]}.id order by wanted.nth"
    )


@dataclass(frozen=True, slots=True)
class Timeline:
    """The rows of a table, the newest first.

    `table`: with its alias, as in "public.documents d"; a query in brackets only where something is scanned for. `time`: the
    column to order by; `zone`: its cast, where the index has one. `columns`: of a row that is shown, `shown_from`: their
    table, where it is another. All of it is SQL of ours.
    """

    table: str
    time: str
    columns: str
    zone: str = ""
    shown_from: str = ""

    @property
    def rows_sql(self) -> str:
        """SQL of the rows of the ids $1, in this order."""
        return rows_of(self.shown_from or self.table, self.columns)

    @property
    def _row(self) -> str:
        return self.table.split()[-1]

    @property
    def _order(self) -> str:
        return f"{self._row}.{self.time}{self.zone}"

    def page_sql(self, filters: Conditions) -> str:
        """SQL of a page and one more row; where the scan ends before, also of the last row that was scanned, and the next.

        `fits`: whether the row belongs to the page; `nth`: its number in the scan.
        """
        order = f"{self._order} desc, {self._row}.id desc"
        if not filters.scanned:
            return (
                f"select {self._row}.id, true as fits, 0 as nth, {self._order} at time zone 'utc' as time "  # noqa: S608 - ours
                f"from {self.table} where {filters} order by {order} limit {AT_ONCE + 1}"
            )
        return (
            f"select w.id, w.fits and w.nth <= {SCANNED} as fits, w.nth, w.time at time zone 'utc' as time "  # noqa: S608
            f"from (select {self._row}.id, {self._order} as time, {filters.scanned} as fits, "
            f"row_number() over (order by {order}) as nth from {self.table} where {filters} "
            f"order by {order} limit {SCANNED + 1}) w "
            f"where w.fits or w.nth >= {SCANNED} order by w.time desc, w.id desc limit {AT_ONCE + 2}"
        )

    def count_sql(self, filters: Conditions) -> str:
        """SQL of how many of the newest rows fit (`fit`), and how many these are (`counted`)."""
        order = f"{self._order} desc, {self._row}.id desc"
        return (
            f"select count(*) filter (where w.fits) as fit, count(*) as counted "  # noqa: S608 - names of ours
            f"from (select {filters.scanned or 'true'} as fits from {self.table} where {filters} "
            f"order by {order} limit {COUNTED}) w"
        )

    async def page(
        self, connection: AnyConnection, viewer: Viewer, asked: Mapping[str, str], filters: Conditions
    ) -> dict[str, Any]:
        """The `rows` of a page, the `names` of their users, how many there are (`in_all`), and the position of the `next_page`.

        `nobody`: where there is no row, what is said of an agent or a user of whom there is none. `looked`: how many rows were
        scanned, where the page ends there although further rows may fit; else None. Raises BadValueError.
        """
        async with by_indexes(connection):
            [count] = await rows_found(connection, viewer, self.count_sql(filters), *filters.values)
        if "before" in asked:
            position = f"({{}}::timestamptz{self.zone}, {{}}::uuid)"
            filters.where(f"({self._order}, {self._row}.id) < {position}", *position_in(asked["before"]))
        found = await rows_found(connection, viewer, self.page_sql(filters), *filters.values)
        ids = [row["id"] for row in found if row["fits"]][: AT_ONCE + 1]
        rows = await connection.fetch(self.rows_sql, ids)
        last = rows[AT_ONCE - 1] if len(rows) > AT_ONCE else None
        times = {row["id"]: row["time"] for row in found if row["fits"]}
        next_page, looked = last and f"{times[last['id']].isoformat()},{last['id']}", None
        if len(ids) <= AT_ONCE and found and found[-1]["nth"] > SCANNED:
            next_page, looked = f"{found[-2]['time'].isoformat()},{found[-2]['id']}", SCANNED
        return {
            "rows": rows[:AT_ONCE],
            "names": await names_of(connection, viewer, (row.get("user_id") for row in rows[:AT_ONCE])),
            "nobody": [] if rows or looked else await nobody_of(connection, viewer, asked),
            "in_all": ("≥ " if count["counted"] == COUNTED else "") + number(count["fit"]),
            "next_page": next_page,
            "looked": looked,
        }


def position_in(before: str) -> tuple[datetime, UUID]:
    """The time and the id after which a page begins. Raises BadValueError."""
    said, _, row = before.partition(",")
    try:
        time = datetime.fromisoformat(said)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC), UUID(row)
    except ValueError:
        raise BadValueError(WRONG_PAGE) from None


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """The numbered rows of one other row: the messages of a conversation, the chunks of a document.

    `whole`: the column with the id of that row. `columns`: those to read. All of it is SQL of ours.
    """

    table: str
    whole: str
    number: str
    columns: str

    @property
    def rows_sql(self) -> str:
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
        rows = await connection.fetch(self.rows_sql, whole, first)
        return {
            "rows": rows[:AT_ONCE],
            "earlier": await connection.fetchval(self.earlier, whole, first, AT_ONCE),
            "later": rows[AT_ONCE][self.number.rpartition(".")[2]] if len(rows) > AT_ONCE else None,
        }
