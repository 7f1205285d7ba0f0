"""Tables in a Markdown text, and a table in pieces: whole rows, each piece under the names of its columns.

Promise: every word of a table is in a piece, and a value stands below the name of its column. Where a table has more columns
than a piece has room for, a piece has some of them, beside the first one, which says what the row is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, repeat

from semantic_text_splitter import TextSplitter

from memory.segments import segments

NAME_CHARACTERS = 200
"""Of the name of a column. What looks like a table and has a longer one is text beside text."""
KEY_CHARACTERS = 100
"""Of the first cell of a row where it is repeated beside other columns."""

_RULE = re.compile(r"^[|:\- \t]++$", re.MULTILINE)
_BAR = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Table:
    """Where it begins, where its rows begin, and where it ends; the names of its columns."""

    start: int
    rows: int
    end: int
    names: tuple[str, ...]


def tables(text: str, code: Sequence[tuple[int, int]]) -> Iterator[Table]:
    """The tables that are in no block of code: a line of names, a line of dashes, and the lines with bars that follow."""
    at = end = 0
    for rule in _RULE.finditer(text):
        if "|" not in rule[0] or "-" not in rule[0] or rule.start() <= end:
            continue
        start = text.rfind("\n", 0, rule.start() - 1) + 1
        names = _cells(text[start : rule.start()])
        while at < len(code) and code[at][1] <= start:
            at += 1
        if (at < len(code) and code[at][0] <= start) or (
            len(names) == 1 and "|" not in text[start : rule.start()]
        ):
            continue
        if any(names) and max(map(len, names)) <= NAME_CHARACTERS:
            rows = end = _line_end(text, rule.start())
            while end < len(text) and "|" in text[end : (line := _line_end(text, end))]:
                end = line
            yield Table(start, rows, end, tuple(names))


def cut(text: str, table: Table, *, most: int, room: int) -> Iterator[str]:
    """The table in pieces of at most `most` characters; the first, if a row fits there, of at most `room`."""
    views = _views(table.names, most // 2)
    blocks = [[view.head] for view in views]
    sizes = [len(view.head) for view in views]
    at = table.rows
    while at < table.end:
        end = _line_end(text, at)
        lines = [view.line(text[at:end]) for view in views]
        if any(size + len(line) >= room for size, line in zip(sizes, lines, strict=True)):
            if len(blocks[0]) > 1:
                yield from map("\n".join, blocks)
            blocks = [[view.head] for view in views]
            sizes = [len(view.head) for view in views]
            room = most
        if any(size + len(line) >= most for size, line in zip(sizes, lines, strict=True)):
            yield from _parts(table.names, _cells(text[at:end]), most)
        else:
            for nth, line in enumerate(lines):
                blocks[nth].append(line)
                sizes[nth] += len(line) + 1
        at = end
    if len(blocks[0]) > 1 or table.rows == table.end:
        yield from map("\n".join, blocks)


@dataclass(frozen=True, slots=True)
class _View:
    """Some columns of a table, and the first one. `head`: their names."""

    head: str
    first: int
    last: int | None

    def line(self, row: str) -> str:
        if self.first == 0 and self.last is None:
            return " ".join(row.split())
        cells = _cells(row)
        return _line(
            [*(cell[:KEY_CHARACTERS] for cell in cells[: self.first > 0]), *cells[self.first : self.last]]
        )


def _views(names: Sequence[str], most: int) -> list[_View]:
    """The columns in as many parts as it takes for the names of each to fit, of about the same length.

    A part that is much shorter than the others would be found before them, whichever column is asked for.
    """
    fewest = _packed(names, most)
    least = len(_head(names)) // len(fewest)
    even = (_packed(names, size) for size in range(least, most, max(1, (most - least) // 20)))
    return next((views for views in even if len(views) == len(fewest)), fewest)


def _packed(names: Sequence[str], most: int) -> list[_View]:
    """The columns in parts, as many in each as fit."""
    found: list[_View] = []
    first = last = 0
    while last < len(names):
        first, size = last, len(_head(names[: last > 0]))
        while last < len(names) and (last == first or size + len(names[last]) + 7 <= most):
            size += len(names[last]) + 7
            last += 1
        head = _head([*names[: first > 0], *names[first:last]])
        found.append(_View(head, first, last if last < len(names) else None))
    return found


def _parts(names: Sequence[str], cells: Sequence[str], most: int) -> Iterator[str]:
    """A row that is too long for a piece, in as many as it takes. A long cell is cut, too."""
    key = (names[0], cells[0][:KEY_CHARACTERS])
    row: list[tuple[str, str]] = []
    for name, cell in zip(chain(names, repeat("")), cells, strict=False):
        for part in _cell_parts(cell, most // 2 - KEY_CHARACTERS):
            if len(_table([*row, (name, part)])) > most:
                yield _table(row)
                row = [key]
            row.append((name, part))
    yield _table(row)


def _cell_parts(cell: str, most: int) -> Iterator[str]:
    if len(cell) <= most:
        yield cell
    else:
        for _, segment in segments(cell, headings=[], code=[]):
            yield from _splitter(most).chunks(segment)


@cache
def _splitter(most: int) -> TextSplitter:
    return TextSplitter(most)


def _cells(row: str) -> list[str]:
    cells = [" ".join(cell.split()) for cell in _BAR.split(row.strip())]
    return cells[not cells[0] : len(cells) - (len(cells) > 1 and not cells[-1])]


def _table(row: Sequence[tuple[str, str]]) -> str:
    return _head([name for name, _ in row]) + "\n" + _line([cell for _, cell in row])


def _head(names: Sequence[str]) -> str:
    return _line(names) + "\n" + "|---" * len(names) + "|"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _line_end(text: str, at: int) -> int:
    """Where the line after the one at this offset begins."""
    return text.find("\n", at) + 1 or len(text)
