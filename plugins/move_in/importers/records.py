"""Reads the export of a system as records, each with its section: JSON, JSON lines, SQLite.

Promise: beside the text of a file, one record is in memory at a time. A file that is cut off, or is not an export, ends with a
sentence that says where. A record that cannot be read is None. Of SQLite only tables are read, nothing that a file computes.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from plugins.files.decoding import decode
from plugins.files.local import UnreadableFileError
from plugins.move_in.importers.items import Omission

Records = Iterator[tuple[str, Any]]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
_PART = re.compile(r'[][{}]|"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
"""The characters that show where a value of JSON ends: brackets, and texts, which may contain brackets."""
MOST_LOOKED_AT = 20
"""Lines by which it is decided whether a file is one of lines."""
MOST_NAMED = 20
"""Lines that cannot be read whose numbers are told."""
SQLITE = b"SQLite format 3\0"
WAL = b"\2\2"
"""Bytes 18 and 19 of an SQLite file whose changes stand in a file beside it."""
FILE = "the file itself"
"""The section of a document's own fields, beside its records."""
NO_TABLE = Omission("table", "memoryd reads tables of SQLite, and this is a view, or it computes columns")


class ExportError(ValueError):
    """The export cannot be read; the message says what to do."""


def from_json(content: bytes, name: str) -> Records:
    """The records of a file of JSON. Raises ExportError."""
    if content.startswith(b"PK"):
        raise ExportError(f"{name} is a ZIP archive. Unpack it, and name the folder.")
    try:
        text, guessed = decode(content)
    except UnreadableFileError as error:
        raise ExportError(f"{name}: {error}") from None
    if guessed:
        raise ExportError(f"{name} is not UTF-8, so it is not JSON. Save it as UTF-8.")
    yield from _Json(text, name).records()


class _Json:
    """A document of JSON: an array is the section "", an object has a section for each of its fields."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._at = self._count = 0

    def records(self) -> Records:
        """Raises ExportError."""
        if self._peek() == "":
            raise ExportError(f"{self._name} is empty. Export again.")
        if self._has_lines():
            yield from self._lines()
        elif self._peek() == "[":
            yield from self._elements("")
            self._end()
        elif self._peek() == '"':
            # Some programs write JSON as a string of JSON.
            text = self._value()
            self._end()
            yield from _Json(text, self._name).records()
        else:
            yield from self._objects()

    def _has_lines(self) -> bool:
        """Whether each line is a document: the first one is whole, or most of those at the beginning are."""
        lines = [
            line for each in islice(_LINE.finditer(self._text), MOST_LOOKED_AT) if (line := each[0].strip())
        ]
        whole = [line[0] + line[-1] in ("{}", '""') for line in lines]
        return len(whole) > 1 and (whole[0] or 2 * sum(whole) > len(whole))

    def _lines(self) -> Records:
        """The records of each line. Lines that cannot be read are left out; nothing is read of them. Raises ExportError."""
        bad: list[int] = []
        for nth, line in enumerate(_LINE.finditer(self._text), 1):
            if not line[0].strip():
                continue
            try:
                found = list(_Json(line[0], self._name).records())
            except ExportError:
                bad.append(nth)
                continue
            self._count += len(found)
            yield from found
        if not self._count:
            raise self._broken("has no line of JSON")
        if bad:
            named = ", ".join(map(str, bad[:MOST_NAMED]))
            yield (
                "",
                Omission(
                    "line", f"it is not JSON: {named}{', ...' if len(bad) > MOST_NAMED else ''}", len(bad)
                ),
            )

    def _objects(self) -> Records:
        """Objects, one after the other. A single object has sections; of several, each is a record."""
        if self._peek() != "{":
            raise self._broken("is not JSON of an export")
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
                raise self._broken("is not JSON")
            self._take(":")
            if self._peek() == "[" and name in SECTIONS and WHOLE.isdisjoint(rest):
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
        yield FILE, rest
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
            raise self._broken("is not JSON" if self._peek() else "is cut off")
        self._at += 1

    def _value(self) -> Any:
        """The next value; None: it is nested too deep, or has a number with too many digits."""
        self._peek()
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            cut = error.pos >= len(self._text) or error.msg.startswith("Unterminated")
            raise self._broken("is cut off" if cut else "is not JSON") from None
        except (ValueError, RecursionError):
            return self._skip()
        return value

    def _skip(self) -> None:
        """Goes to the end of a value that cannot be read. Raises ExportError."""
        if self._text[self._at] not in "[{":
            self._at = re.compile(r"[^\s,\]}]*").match(self._text, self._at).end()  # type: ignore[union-attr]
            return
        depth = 0
        for part in _PART.finditer(self._text, self._at):
            depth += (part[0] in "[{") - (part[0] in "]}")
            if depth == 0:
                self._at = part.end()
                return
        self._at = len(self._text)
        raise self._broken("is nested too deep, and cut off")

    def _broken(self, how: str) -> ExportError:
        return ExportError(
            f"{self._name} {how}, after {self._count:,} records, at character {self._at:,}. "
            "Export it again; nothing was imported."
        )


SECTIONS = {
    "results", "memories", "history", "agents", "blocks", "messages", "passages", "archival_passages", "edges", "nodes",
    "episodes", "facts", "sessions", "threads", "items", "conversations", "peers", "conclusions",
}  # fmt: skip
"""Fields of a document whose elements are records."""
WHOLE = {"session_id", "thread_id"}
"""Fields of a conversation, which is one record with its messages."""


def from_sqlite(path: Path, name: str, tables: Mapping[str, str]) -> Records:
    """The records of these tables. Raises ExportError."""
    try:
        with closing(_opened(path)) as database:
            there = {n: _is_plain(database, n, sql) for n, sql in database.execute(_NAMES) if n in tables}
            if not any(there.get(table) for table in tables):
                raise ExportError(f"{name} has none of the tables {', '.join(tables) or 'that are known'}.")
            database.set_authorizer(_reads_tables_only)
            for table, query in tables.items():
                if there.get(table):
                    for row in database.execute(query):
                        yield table, dict(row)
                elif table in there:
                    yield "", NO_TABLE
    except sqlite3.Error as error:
        raise ExportError(
            f"{name} cannot be read as SQLite: {error}. Is it whole, and its program stopped? Nothing was imported."
        ) from None


_NAMES = "select name, iif(type = 'table' and rootpage > 0, sql, '') from sqlite_master where type in ('table', 'view')"


def _opened(path: Path) -> sqlite3.Connection:
    with path.open("rb") as file:
        head = file.read(100)
        size = file.seek(0, os.SEEK_END)
    wal = head[18:20] == WAL
    # Its pages, if the program that wrote them has counted them. Missing pages would be read as empty.
    page, pages = int.from_bytes(head[16:18], "big"), int.from_bytes(head[28:32], "big")
    if head[24:28] == head[92:96] and size < pages * (65536 if page == 1 else page):
        raise sqlite3.DatabaseError("it is cut off")
    beside = path.with_name(f"{path.name}-wal")
    # If no other file is beside it, it is read without the files that SQLite would make there.
    alone = wal and not (beside.exists() and beside.stat().st_size > 0)
    opened = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if alone else ''}", uri=True)
    opened.row_factory = sqlite3.Row
    opened.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for safe in ("trusted_schema = off", "query_only = on", "cell_size_check = on", "temp_store = memory"):
        opened.execute(f"pragma {safe}")
    return opened


def _is_plain(database: sqlite3.Connection, table: str, sql: str) -> bool:
    """Whether it is a table without computed columns."""
    columns = database.execute("select hidden from pragma_table_xinfo(?)", (table,)).fetchall()
    return sql.startswith("CREATE TABLE") and bool(columns) and not any(hidden for (hidden,) in columns)


def _reads_tables_only(action: int, _name: object, _other: object, _base: object, within: object) -> int:
    """The authorizer of SQLite: whatever the file defines, no view (`within`) is read, and none of its queries runs."""
    known = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)
    return sqlite3.SQLITE_OK if action in known and within is None else sqlite3.SQLITE_DENY
