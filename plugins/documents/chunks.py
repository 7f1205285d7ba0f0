"""A document in chunks: what is searched, and read, as one piece; each with where in the document it stands.

Promise: cut between headings, paragraphs, list items, tables and blocks of code where they fit, else between sentences, words;
every word of the document is in a chunk, in order. Rows of a table stand below the names of its columns in each chunk. The same
text gives the same chunks.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from semantic_text_splitter import MarkdownSplitter

from memory.passages import tables
from memory.text import is_blank
from plugins.documents.pieces import cut, segments

MIN_CHARACTERS = 600
MAX_CHARACTERS = 1_200
"""Of a chunk: some 200 words. Smaller pieces that follow each other are put together until they have MIN_CHARACTERS."""
MAX_CHUNKS = 20_000
"""Of a document. 10 MB, the longest text that a file may have, give 17,000 at most. What follows is not searched."""
NAME_CHARACTERS = 200
"""Of a title or a heading that are shown and searched with a chunk."""
BEFORE_WORDS = 16
"""Of what the paragraph before a chunk says: so that "it", at a chunk's beginning, has something to mean."""

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(\S[^\n]*)$", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_LAST_HEADINGS = re.compile(r"(?:^ {0,3}#{1,6}[ \t]+\S[^\n]*\n\s*)+\Z", re.MULTILINE)
# A link ends at the next bracket of its kind, and underscores are looked at from the first of a run alone: otherwise each of a
# thousand would be read to the end of the text, or of the run.
_MARKS = re.compile(r"[*`]+|(?<!\w)_+|(?<!_)_++(?!\w)|!?\[([^\[\]]*)\]\([^)\[]*\)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document. `heading` says what it is about, and is searched with it."""

    text: str
    headings: tuple[str, ...]
    """Those that it stands under, the highest first."""
    heading: str


def chunks(text: str, *, title: str) -> list[Chunk]:
    """The chunks of a document in Markdown, at most MAX_CHUNKS; none of a blank one."""
    code = [m.span() for m in _FENCE.finditer(text)]
    headings_at = list(_outline(text, code))
    outline = deque(headings_at)
    path: list[tuple[int, str]] = []
    found: list[Chunk] = []
    before = ""
    for start, piece, lead in _joined(_pieces(text, [(at, level) for at, level, _ in headings_at], code)):
        if is_blank(piece):
            continue
        _follow(outline, path, start + _own_headings(piece))
        headings = tuple(words for _, words in path)
        found.append(
            Chunk(piece, headings, _heading(title, headings, before if lead is None else lead, piece))
        )
        before = "" if piece.endswith("|") else piece
        if len(found) == MAX_CHUNKS:
            break
    return found


_Piece: TypeAlias = tuple[int, str, str | None]
"""Where it begins, its text, and of a piece of a table what stands before that."""


def _joined(pieces: Iterator[tuple[_Piece, bool]]) -> Iterator[_Piece]:
    """The pieces, a small one together with the next where a table begins or ends between them."""
    held: _Piece | None = None
    for (start, piece, lead), begins in pieces:
        if held is None:
            held = start, piece, lead
        elif begins and len(held[1]) < MIN_CHARACTERS and len(held[1]) + len(piece) + 2 <= MAX_CHARACTERS:
            held = held[0], f"{held[1]}\n\n{piece}", held[2]
        else:
            yield held
            held = start, piece, lead
    if held is not None:
        yield held


def _pieces(
    text: str, headings: Sequence[tuple[int, int]], code: Sequence[tuple[int, int]]
) -> Iterator[tuple[_Piece, bool]]:
    """Each piece, and whether a table, the headings before one, or what is after one begins with it."""
    at = 0
    for table in tables(text, code):
        top = max(at, table.start - MAX_CHARACTERS)
        above = _LAST_HEADINGS.search(text[top : table.start])
        top = table.start if above is None else top + above.start()
        room = MAX_CHARACTERS
        for start, piece, begins in _prose(text, at, top, headings, code):
            yield (start, piece, None), begins
            room = MAX_CHARACTERS - len(piece) - 2 if len(piece) < MIN_CHARACTERS else MAX_CHARACTERS
        if above is not None:
            yield (top, above[0].strip(), None), True
            room -= len(above[0]) + 2
        below = bisect_left(headings, (table.start, 0)) - 1
        said = text.find("\n", headings[below][0]) if below >= 0 else 0
        lead = text[max(at, said, table.start - 1_000) : table.start]
        for nth, piece in enumerate(cut(text, table, most=MAX_CHARACTERS, room=room)):
            yield (table.start, piece, lead), nth == 0
        at = table.end
    for start, piece, begins in _prose(text, at, len(text), headings, code):
        yield (start, piece, None), begins


def _prose(
    text: str, at: int, end: int, headings: Sequence[tuple[int, int]], code: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, str, bool]]:
    """The pieces between two tables: where each begins, its text, and whether it is the first."""
    begins = True
    for start, segment in segments(text, at, end, headings=headings, code=code):
        for offset, piece in _splitter().chunk_indices(segment):
            if piece.strip():
                yield start + offset, piece.strip(), begins
                begins = False


@cache
def _splitter() -> MarkdownSplitter:
    return MarkdownSplitter((MIN_CHARACTERS, MAX_CHARACTERS))


def _outline(text: str, code: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Of each heading: where it begins, its level, its words. What looks like one in a block of code is none."""
    at = 0
    for heading in _HEADING.finditer(text):
        while at < len(code) and code[at][1] <= heading.start():
            at += 1
        if at == len(code) or heading.start() < code[at][0]:
            words = heading[2].rstrip(" \t").rstrip("#").rstrip(" \t")
            yield heading.start(), len(heading[1]), _plain(words[:NAME_CHARACTERS])


def _own_headings(piece: str) -> int:
    """How many characters of a piece are the headings at its beginning."""
    end = 0
    for line in re.finditer(r"[^\n]*\n?", piece):
        if line[0].strip() and not _HEADING.match(line[0].rstrip("\n")):
            break
        end = line.end()
    return end if end < len(piece) else len(piece) - 1


def _follow(outline: deque[tuple[int, int, str]], path: list[tuple[int, str]], offset: int) -> None:
    """Brings the path of headings up to this offset. What it passes is taken off the outline."""
    while outline and outline[0][0] <= offset:
        _, level, words = outline.popleft()
        while path and path[-1][0] >= level:
            path.pop()
        path.append((level, words))


def _heading(title: str, headings: Sequence[str], before: str, piece: str) -> str:
    """Title, headings, and the end of what stands before: what a reader who opens the document here would look for."""
    path = " > ".join(dict.fromkeys([title[:NAME_CHARACTERS], *headings]))
    said = _plain(" ".join(before[-1_000:].split()[-BEFORE_WORDS:])) if not _HEADING.match(piece) else ""
    return f"{path}\n... {said}" if said else path


def _plain(words: str) -> str:
    return " ".join(_MARKS.sub(lambda m: m[1] or "", words).split())
