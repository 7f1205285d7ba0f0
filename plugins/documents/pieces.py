"""Tables and long texts in pieces.

A table is cut between rows, each piece under the names of its columns. Promise: every word of a table is in a piece, and a
value stands below the name of its column. Where a table has more columns than a piece has room for, a piece has some of them,
beside the first one, which says what the row is about.

A long text is cut into segments, which are cut into chunks one by one: the splitter takes time that grows with the square of
its text, and no other work of the process goes on meanwhile: a table of 5 MB would stop it for minutes. Cut at the highest
heading in reach, else between paragraphs, lines, sentences or words, so that most segments begin where a chunk begins anyway.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, repeat

from semantic_text_splitter import TextSplitter

from memory.passages import Table, cells_of, line_end

KEY_CHARACTERS = 100
"""Of the first cell of a row where it is repeated beside other columns."""
SHORTEST, LONGEST = 10_000, 20_000
"""Characters of a segment; the last one may be shorter. Of 20,000 the slowest texts take a quarter of a second."""

_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_SPACE = re.compile("(?<=[.!?。\uff01\uff1f])\\s*|\\s+")
_PARTS = frozenset(("Mn", "Mc", "Me", "Cf", "Sk"))
_LONGEST_CLUSTER = 100
"""Characters that are shown as one: a longer sequence of marks is cut."""


def cut(text: str, table: Table, *, most: int, room: int) -> Iterator[str]:
    """The table in pieces of at most `most` characters; the first, if a row fits there, of at most `room`."""
    views = _views(table.names, most // 2)
    blocks = [[view.head] for view in views]
    sizes = [len(view.head) for view in views]
    at = table.rows
    while at < table.end:
        end = line_end(text, at)
        lines = [view.line(text[at:end]) for view in views]
        if any(size + len(line) >= room for size, line in zip(sizes, lines, strict=True)):
            if len(blocks[0]) > 1:
                yield from map("\n".join, blocks)
            blocks = [[view.head] for view in views]
            sizes = [len(view.head) for view in views]
            room = most
        if any(size + len(line) >= most for size, line in zip(sizes, lines, strict=True)):
            yield from _parts(table.names, cells_of(text[at:end]), most)
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
        cells = cells_of(row)
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


def _table(row: Sequence[tuple[str, str]]) -> str:
    return _head([name for name, _ in row]) + "\n" + _line([cell for _, cell in row])


def _head(names: Sequence[str]) -> str:
    return _line(names) + "\n" + "|---" * len(names) + "|"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def segments(
    text: str,
    start: int = 0,
    end: int | None = None,
    *,
    headings: Sequence[tuple[int, int]],
    code: Sequence[tuple[int, int]],
) -> Iterator[tuple[int, str]]:
    """Where each begins, and its text. `headings`: where each begins, and its level. `code`: from where to where blocks are."""
    end = len(text) if end is None else end
    while end - start > LONGEST:
        cut = _cut(text, start + SHORTEST, start + LONGEST, headings, code)
        yield start, text[start:cut]
        start = cut
    yield start, text[start:end]


def _cut(
    text: str, first: int, last: int, headings: Sequence[tuple[int, int]], code: Sequence[tuple[int, int]]
) -> int:
    near = headings[bisect_left(headings, (first, 0)) : bisect_left(headings, (last, 0))]
    if near:
        return min(near, key=lambda heading: (heading[1], heading[0]))[0]
    for line in _BLANK_LINE.finditer(text, first, last):
        at = bisect_left(code, (line.end(), 0)) - 1
        if at < 0 or code[at][1] <= line.end():
            return line.end()
    if (end_of_line := text.rfind("\n", first, last)) >= 0:
        return end_of_line + 1
    for space in _SPACE.finditer(text, first, last):
        return space.end()
    return _between_clusters(text, last)


def _between_clusters(text: str, offset: int) -> int:
    """The offset, or one shortly before it, so that no emoji or accented letter is cut in two."""
    for cut in range(offset, offset - _LONGEST_CLUSTER, -1):
        # Not before a part of the character before: a mark, a joiner, a skin colour.
        if unicodedata.category(text[cut]) not in _PARTS and text[cut - 1] != "\u200d":
            return cut
    return offset
