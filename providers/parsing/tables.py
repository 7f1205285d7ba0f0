"""CSV as Markdown tables.

The header is written again every 50 rows, so that a chunk that is cut out of a long table still says what its
columns are. Rows keep the cells they have: one odd row does not widen all the others.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePath
from typing import Literal

from providers.parsing.decoding import decode
from providers.parsing.texts import Output, title_of
from providers.ports import Parsed

ROWS = 50
"""Of one table."""
DELIMITERS = ",;\t|"
MAX_CELL = 131_072
"""The csv module's own limit, for the whole process: a file in which a cell could be longer is read in the child."""


def read(content: bytes, name: str, room: int) -> Parsed:
    """Tables of 50 rows. `metadata` has the number of `rows` and of `columns`. Raises `Unreadable`."""
    text, _ = decode(content)
    if len(text) > MAX_CELL:
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    output = Output(room)
    rows = _rows(text, "\t" if PurePath(name).suffix.lower() == ".tsv" else _delimiter(text))
    header = next(rows, [])
    count = 0
    while piece := list(islice(rows, ROWS)):
        if count:
            output.add("")
        output.add(_line(header))
        output.add(_line(["---"] * len(header)))
        for row in piece:
            output.add(_line(row))
        count += len(piece)
    if not count and header:
        output.add(_line(header))
        output.add(_line(["---"] * len(header)))
    return Parsed(
        text=output.text(),
        title=title_of(name),
        document_type="csv",
        metadata={"rows": count, "columns": len(header)},
    )


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    # With an odd number of quotes one of them is no quote, and would swallow all rows that follow.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if text.count('"') % 2 else csv.QUOTE_MINIMAL
    for row in csv.reader(io.StringIO(text), delimiter=delimiter, quoting=quoting):
        if any(cell.strip() for cell in row):
            yield row


def _delimiter(text: str) -> str:
    """The character that splits the first line into most cells; a comma if none does."""
    first = text[:MAX_CELL].lstrip("\n").split("\n", 1)[0]
    outside = "".join(first.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
