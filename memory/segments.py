"""A long text in segments, which are cut into chunks one by one.

The splitter takes time that grows with the square of its text, and no other work of the process goes on meanwhile: a table of
5 MB would stop it for minutes. Cut at the highest heading in reach, else between paragraphs, lines, sentences or words, so that
most segments begin where a chunk begins anyway.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence

SHORTEST, LONGEST = 10_000, 20_000
"""Characters of a segment; the last one may be shorter. Of 20,000 the slowest texts take a quarter of a second."""

_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_SPACE = re.compile("(?<=[.!?。\uff01\uff1f])\\s*|\\s+")
_LONGEST_CLUSTER = 100
"""Characters that are shown as one: a longer sequence of marks is cut."""


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
    if (line_end := text.rfind("\n", first, last)) >= 0:
        return line_end + 1
    for space in _SPACE.finditer(text, first, last):
        return space.end()
    return _between_clusters(text, last)


def _between_clusters(text: str, offset: int) -> int:
    """The offset, or one shortly before it, so that no emoji or accented letter is cut in two."""
    for cut in range(offset, offset - _LONGEST_CLUSTER, -1):
        if not _continues(text[cut]) and text[cut - 1] != "\u200d":
            return cut
    return offset


def _continues(character: str) -> bool:
    """Whether it is part of the character before: a mark, a joiner, a skin colour."""
    return unicodedata.category(character) in {"Mn", "Mc", "Me", "Cf", "Sk"}
