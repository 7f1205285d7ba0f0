"""Reads what a system exports as records with the section that each is from: JSON, JSON lines, SQLite.

Promise: beside the text of a file one record is in memory at a time; what is cut off or no export ends with a sentence that
says where.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

Records = Iterator[tuple[str, Any]]

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
SQLITE = b"SQLite format 3\0"


class ExportError(ValueError):
    """What was given cannot be read; says what to do."""


def from_file(path: Path, tables: Mapping[str, str]) -> Records:
    """The records of a file of JSON or SQLite. Raises ExportError, OSError."""
    with path.open("rb") as file:
        head = file.read(16)
    if head == SQLITE:
        yield from _from_sqlite(path, tables)
        return
    if head.startswith(b"PK"):
        raise ExportError(f"{path} is a ZIP archive. Unpack it, and name the folder.")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ExportError(f"{path} is not UTF-8, so it is no export of JSON.") from None
    yield from _Json(text, str(path)).records()


class _Json:
    """A document of JSON: an array is the section "", an object has a section for each of its fields."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._at = self._count = 0

    def records(self) -> Records:
        """Raises ExportError."""
        try:
            if self._peek() == "":
                raise ExportError(f"{self._name} is empty. Export again.")
            if self._peek() == "[":
                yield from self._elements("")
                self._end()
            else:
                yield from self._lines()
        except RecursionError:
            raise self._broken("is nested too deep") from None

    def _lines(self) -> Records:
        """Objects, one after the other: a single one has sections, of several each is a record."""
        opened = self._peek()
        if opened != "{":
            raise self._broken("is no JSON of an export")
        alone = yield from self._fields()
        while self._peek() == "{":
            if alone is not None:
                yield "", alone
                alone = None
            yield "", self._value()
        if alone is not None:
            yield "", alone
        self._end()

    def _fields(self) -> Generator[tuple[str, Any], None, dict[str, Any] | None]:
        """The arrays of an object as sections. Returns the fields of an object without sections."""
        self._take("{")
        rest: dict[str, Any] = {}
        found = False
        while self._peek() != "}":
            name = self._value()
            if not isinstance(name, str):
                raise self._broken("is no JSON")
            self._take(":")
            if self._peek() == "[" and name in SECTIONS:
                found = True
                yield from self._elements(name)
            else:
                rest[name] = self._value()
            if self._peek() != "}":
                self._take(",")
        self._take("}")
        if not found:
            return rest or None
        for name, value in rest.items():
            if isinstance(value, list):
                yield from ((name, each) for each in value)
        return None

    def _elements(self, section: str) -> Records:
        self._take("[")
        while self._peek() != "]":
            yield section, self._value()
            self._count += 1
            if self._peek() != "]":
                self._take(",")
        self._take("]")

    def _end(self) -> None:
        if self._peek():
            raise self._broken("goes on after its end")

    def _peek(self) -> str:
        """The next character that is not blank; empty at the end of the file."""
        match = _BLANK.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> None:
        if self._peek() != character:
            raise self._broken("is no JSON" if self._peek() else "is cut off")
        self._at += 1

    def _value(self) -> Any:
        self._peek()
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            cut = error.pos >= len(self._text) or error.msg.startswith("Unterminated")
            raise self._broken("is cut off" if cut else "is no JSON") from None
        except ValueError:
            raise self._broken("has a number of too many digits") from None
        return value

    def _broken(self, how: str) -> ExportError:
        return ExportError(
            f"{self._name} {how}, after {self._count:,} records, at character {self._at:,}. "
            "Export it again; nothing was imported."
        )


SECTIONS = {
    "results", "memories", "history", "agents", "blocks", "messages", "passages", "archival_passages", "edges", "nodes",
    "episodes", "facts", "sessions", "threads", "items", "conversations",
}  # fmt: skip
"""Fields of a document whose elements are records."""


def _from_sqlite(path: Path, tables: Mapping[str, str]) -> Records:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            there = {
                r[0]
                for r in database.execute("select name from sqlite_master where type in ('table', 'view')")
            }
            found = [name for name in tables if name in there]
            if not found:
                raise ExportError(f"{path} has none of the tables {', '.join(tables) or 'that are known'}.")
            for name in found:
                for row in database.execute(tables[name]):
                    yield name, dict(row)
    except sqlite3.Error as error:
        raise ExportError(
            f"{path} cannot be read as SQLite: {error}. Is it whole, and its program stopped? Nothing was imported."
        ) from None
