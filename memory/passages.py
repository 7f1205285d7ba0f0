"""A text in passages: what is searched as one. A short text is one passage; a long one is cut where its structure allows.

Promise: every character that is not white space is in exactly one passage, in order, but for the names of a table's columns,
which stand above its rows in each; no passage begins or ends inside a word, unless the word alone is too long, and none inside
an emoji or between a letter and its accents. The time is linear.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_WORDS = 200
MAX_CHARACTERS = 1_600
"""Of a passage: 200 words of 7 letters, or in scripts without spaces (Chinese, Thai) what counts as that many words."""
MAX_PASSAGES = 200
"""Of a text: what follows is not searched."""
ROW_CHARACTERS = 40
"""Of the rows of a table in a passage, at least: a row is what is asked for, so most have one of their own."""
HEAD_CHARACTERS = 800
"""Of what stands above each: more is a passage by itself, but for the names of the columns."""
WIDE_CHARACTERS = 300
"""Of a passage of scripts that write no spaces: there a character says as much as half a word."""

NAME_CHARACTERS = 200
"""Of the name of a column. What looks like a table and has a longer one is text beside text."""

_WIDE = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
# Where a text may be cut, the best cut first: between paragraphs, before a heading or the item of a list, between lines,
# sentences, clauses, words.
_CUTS = (
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(r"\n(?=[^\S\n]*(?:[-*+\u2022#>]|\d{1,3}[.)]|```|~~~)(?:\s|\S))"),
    re.compile(r"\n+"),
    re.compile("(?<=[.!?\u2026])[\"'\u201d\u2019)\\]]{0,3}\\s+|(?<=[\u3002\uff01\uff1f\u0964])"),
    re.compile("(?<=[,;:\uff0c\uff1b\uff1a\u3001])\\s*"),
    re.compile(r"\s+"),
)
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_JOINERS = "\u200d\u2060"
_RULE = re.compile(r"^[|:\- \t]++$", re.MULTILINE)
_BAR = re.compile(r"(?<!\\)\|")


def passages(text: str) -> list[str]:
    """The passages of a text, at least one, each at most MAX_WORDS words or so; at most MAX_PASSAGES of them."""
    found: list[str] = []
    for passage in _parts(text):
        if passage.strip():
            found.append(passage.strip())
        if len(found) == MAX_PASSAGES:
            break
    return found or [text.strip()]


def _parts(text: str) -> Iterator[str]:
    """The text, a table row by row: each below the names of the columns, and what stands before these if it is short."""
    at = 0
    least = max(ROW_CHARACTERS, len(text) // (MAX_PASSAGES // 2))
    for table in tables(text, ()):
        head = text[at : table.rows].rstrip()
        if len(head) > HEAD_CHARACTERS:
            yield from _merged(_pieces(text[at : table.start]))
            head = text[table.start : table.rows].rstrip()
        some = ""
        for row in text[table.rows : table.end].splitlines():
            if some and (len(some) > least or _size(f"{head}{some}\n{row}") > 1):
                yield from _merged(_pieces(head + some))
                some = ""
            some = f"{some}\n{row}"
        if some or table.rows == table.end:
            yield from _merged(_pieces(head + some))
        at = table.end
    if at < len(text):
        yield from _merged(_pieces(text[at:]))


def _size(text: str) -> float:
    """How much of a passage the text fills: 1 is a full one."""
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    # Bars between the cells of a table are no words.
    words = text.count(" ") + text.count("\n") + 1 - text.count(" |")
    return max(words / MAX_WORDS, len(text) / MAX_CHARACTERS) + wide / WIDE_CHARACTERS


def _pieces(text: str, level: int = 0) -> Iterator[str]:
    """The text in pieces that fit into a passage, cut where it is best."""
    if _size(text) <= 1:
        yield text
    elif level == len(_CUTS):
        yield from _cut(text)
    else:
        start = 0
        for cut in _CUTS[level].finditer(text):
            # Between two pieces the white space belongs to the first.
            if cut.end() > start:
                yield from _pieces(text[start : cut.end()], level + 1)
                start = cut.end()
        if start < len(text):
            yield from _pieces(text[start:], level + 1)


def _merged(pieces: Iterator[str]) -> Iterator[str]:
    """Pieces that follow each other, together as long as they fit."""
    passage = ""
    size = 0.0
    for piece in pieces:
        more = _size(piece)
        if passage and size + more > 1:
            yield passage
            passage, size = "", 0.0
        passage += piece
        size += more
    if passage:
        yield passage


def _cut(text: str) -> Iterator[str]:
    """A word that is too long, in parts; never between a character and what is drawn with it."""
    start = 0
    step = WIDE_CHARACTERS if _WIDE.search(text) else MAX_CHARACTERS
    while start < len(text):
        end = min(start + step, len(text))
        limit = min(end + 64, len(text))
        while end < limit and (
            _belongs_together(text[end - 1], text[end]) or _is_in_flag(text[start : end + 1])
        ):
            end += 1
        yield text[start:end]
        start = end


def _belongs_together(before: str, after: str) -> bool:
    return (
        unicodedata.combining(after) != 0
        or unicodedata.category(after) in ("Mn", "Mc", "Me")
        or before in _JOINERS
        or after in _JOINERS
        or "\ufe00" <= after <= "\ufe0f"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\U000e0020" <= after <= "\U000e007f"
    )


def _is_in_flag(text: str) -> bool:
    """Whether the last character of the text is the second half of a flag: two letters, of which many may follow each other."""
    letters = len(text) - len(text.rstrip(_FLAG_LETTERS))
    return letters > 0 and letters % 2 == 0


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
        names = cells_of(text[start : rule.start()])
        while at < len(code) and code[at][1] <= start:
            at += 1
        if (at < len(code) and code[at][0] <= start) or (
            len(names) == 1 and "|" not in text[start : rule.start()]
        ):
            continue
        if any(names) and max(map(len, names)) <= NAME_CHARACTERS:
            rows = end = line_end(text, rule.start())
            while end < len(text) and "|" in text[end : (line := line_end(text, end))]:
                end = line
            yield Table(start, rows, end, tuple(names))


def cells_of(row: str) -> list[str]:
    """The cells of a line of a table."""
    cells = [" ".join(cell.split()) for cell in _BAR.split(row.strip())]
    return cells[not cells[0] : len(cells) - (len(cells) > 1 and not cells[-1])]


def line_end(text: str, at: int) -> int:
    """Where the line after the one at this offset begins."""
    return text.find("\n", at) + 1 or len(text)
