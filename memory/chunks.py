"""A document in chunks: what is searched, and read, as one piece; each with where in the document it stands.

Promise: cut between headings, paragraphs, list items, tables and blocks of code where they fit, else between sentences, words;
every word of the document is in a chunk, in order. The same text gives the same chunks.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from semantic_text_splitter import MarkdownSplitter

from memory.segments import segments

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
    for start, piece in _pieces(text, headings_at, code):
        if not piece.strip():
            continue
        _follow(outline, path, start + _own_headings(piece))
        headings = tuple(words for _, words in path)
        found.append(Chunk(piece.strip(), headings, _heading(title, headings, before, piece)))
        before = piece
        if len(found) == MAX_CHUNKS:
            break
    return found


def _pieces(
    text: str, headings: Sequence[tuple[int, int, str]], code: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    """Where each piece begins, and its text."""
    for start, segment in segments(text, headings=[(at, level) for at, level, _ in headings], code=code):
        for offset, piece in _splitter().chunk_indices(segment):
            yield start + offset, piece


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
