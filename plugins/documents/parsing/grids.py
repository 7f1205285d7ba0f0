"""Cells as a Markdown table, for every format that has tables: what is merged stands in each of its cells, and all rows
of names are one header.

Promise: no word of a cell is lost, and time and text are bounded, however many cells a file says that one is merged of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

MAX_COPIED = 1_000_000
"""Characters of a table that stand there since cells are merged. What would be more is not repeated."""
MAX_HEADER = 5
"""Rows of a header."""

_VALUE = re.compile(r"(?!(?:19|20)\d\d$)\W*\d[\d\W]*")
"""A number, a price, a percentage, a date. A year may be the name of a column."""
_BAR = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Cell:
    """Its text, of how many rows and columns it is, and whether the file marks it as a name (None: it marks none)."""

    text: str
    rows: int = 1
    columns: int = 1
    is_name: bool | None = None


_EMPTY = Cell("")
_Row = Sequence[Cell]


def markdown(rows: Sequence[_Row]) -> list[str]:
    """The lines of the table, below those that are its title. None of a table without text."""
    grid = [row for row in _spread(rows) if any(cell.text for cell in row)]
    title, header, rest = split(grid)
    if not header:
        return title
    return [*title, line(header), line(["---"] * len(header)), *(line([c.text for c in row]) for row in rest)]


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_BAR.sub(r"\\|", " ".join(cell.split())) for cell in cells) + " |"


def split(grid: Sequence[_Row]) -> tuple[list[str], list[str], Sequence[_Row]]:
    """The lines that are the table's title, the names of its columns, and the other rows. It may be its first rows alone."""
    title: list[str] = []
    while len(grid) > 1 and _is_title(grid[0]) and _are_names(grid[1]) and not _is_title(grid[1]):
        title += [next(cell.text for cell in grid[0] if cell.text), ""]
        grid = grid[1:]
    count = _header_rows(grid)
    above = [[cell.text for cell in row] for row in grid[:count]]
    width = max(map(len, grid[: count + 1]), default=0)
    return title, [_name(above, n) for n in range(width)], grid[count:]


def _spread(rows: Sequence[_Row]) -> list[_Row]:
    """The rows with each cell in all places that it is merged of."""
    grid: list[_Row] = []
    room = MAX_COPIED
    below: dict[int, tuple[int, Cell]] = {}
    for row in rows:
        room -= sum(len(cell.text) + 4 for _, cell in below.values())
        if room < 0:
            below = {}
        placed = {n: cell for n, (_, cell) in below.items()}
        below = {n: (left - 1, cell) for n, (left, cell) in below.items() if left > 1}
        at = 0
        for cell in row:
            while at in placed:
                at += 1
            for n in range(at, at + max(cell.columns, 1)):
                room -= len(cell.text) + 4 if n > at else 0
                if n > at and (n in placed or room < 0):
                    break
                placed[n] = cell
                if cell.rows > 1:
                    below[n] = cell.rows - 1, cell
        grid.append([placed.get(n, _EMPTY) for n in range(max(placed, default=-1) + 1)])
    return grid


def _is_title(row: _Row) -> bool:
    """Whether one text is all that the row says."""
    return len({cell.text for cell in row if cell.text}) == 1


def _are_names(row: _Row) -> bool:
    return all(cell.is_name is not False and not _VALUE.fullmatch(cell.text) for cell in row if cell.text)


def _header_rows(grid: Sequence[_Row]) -> int:
    """How many rows are the header; none where the file marks names in front of the rows alone."""
    if any(cell.is_name for row in grid[: MAX_HEADER + 1] for cell in row):
        count = 0
        for row in grid[:MAX_HEADER]:
            if not all(cell.is_name or not cell.text for cell in row) or (count and _is_title(row)):
                break
            count += 1
        if count == len(grid) or (count == 0 and not grid[0][0].is_name):
            return 1
        return count
    return 1 + (len(grid) > 2 and _goes_on(*grid[:3]))


def _goes_on(first: _Row, second: _Row, third: _Row) -> bool:
    """Whether the second row has names below names: under one that stands over several columns, above values."""
    columns = list(zip(first, second, strict=False))
    over = any(
        below.text and (not one.text or one.text == before.text) and below.text != one.text
        for (before, _), (one, below) in pairwise(columns)
        if before.text
    )
    tall = any(one.text and one.text == below.text for one, below in columns)
    return (
        over
        and _are_names(first)
        and _are_names(second)
        and not _is_title(second)
        and (tall or any(_VALUE.fullmatch(cell.text) for cell in third))
    )


def _name(above: Sequence[Sequence[str]], column: int) -> str:
    """What the rows of a header say of a column. What stands over several columns is the name of each."""
    said = []
    for nth, row in enumerate(above):
        cell = row[column] if column < len(row) else ""
        if not cell and nth + 1 < len(above) and column < len(above[nth + 1]) and above[nth + 1][column]:
            cell = next((each for each in reversed(row[:column]) if each), "")
        said.append(cell)
    return " ".join(each for each, _ in groupby(filter(None, said)))
