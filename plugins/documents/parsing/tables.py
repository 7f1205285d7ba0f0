"""CSV as a Markdown table. Rows keep the cells they have: one odd row does not widen all the others."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import PurePath
from typing import Literal

from plugins.documents.parsing.grids import Cell, line, split
from plugins.documents.parsing.texts import Output, title_of
from plugins.documents.ports import Parsed
from plugins.files.decoding import decode

FIRST = 20
"""Rows that are looked at for the delimiter and the header."""
DELIMITERS = "\t;|,"
"""In this order: a comma is in decimals and sentences, too."""
MAX_CELL = 131_072
"""The csv module's own limit, for the whole process: a file in which a cell could be longer is read in the child."""

_TOLD = re.compile(r"sep=(.)\n", re.IGNORECASE)
"""How Excel is told the delimiter, in the first line."""


def read(content: bytes, name: str, room: int) -> Parsed:
    """One table. `metadata` has the number of `rows` and of `columns`. Raises `UnreadableFileError`."""
    text, mark = decode(content)
    if len(text) > MAX_CELL:
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    output = Output(room)
    told = _TOLD.match(text)
    text = text[told.end() :] if told else text
    tab = "\t" if PurePath(name).suffix.lower() == ".tsv" else None
    rows = _rows(text, told[1] if told else tab or _delimiter(text))
    first = [[Cell(cell) for cell in row] for row in islice(rows, FIRST)]
    title, header, rest = split(first)
    for each in [*title, *([line(header), line(["---"] * len(header))] if header else [])]:
        output.add(each)
    count = 0
    for row in chain(([cell.text for cell in row] for row in rest), rows):
        output.add(line(row))
        count += 1
    return Parsed(
        text=output.text(),
        title=title_of(name),
        document_type="csv",
        metadata={"rows": count, "columns": len(header)} | mark,
    )


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    # With an odd number of quotes one of them is no quote, and would swallow all rows that follow.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if text.count('"') % 2 else csv.QUOTE_MINIMAL
    for row in csv.reader(io.StringIO(text), delimiter=delimiter, quoting=quoting):
        if any(cell.strip() for cell in row):
            yield row


def _delimiter(text: str) -> str:
    """The character that splits most of the first rows alike; a comma if none does."""

    def alike(delimiter: str) -> int:
        widths = Counter(len(row) for row in islice(_rows(text, delimiter), FIRST))
        return max((count for width, count in widths.items() if width > 1), default=delimiter == ",")

    return max(DELIMITERS, key=alike)
