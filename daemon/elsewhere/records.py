"""Reads what a system exports as records with the section that each is from: JSON, JSON lines, SQLite, Postgres.

Promise: one record is in memory at a time, however big the file is; what is cut off or no export ends with a sentence that says
where. A Postgres URL is never shown.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import asyncpg

from daemon.db.foreign_rows import NotReadableError, columns_of, copy_out

Records = Iterator[tuple[str, Any]]

CHUNK = 1 << 16
SECONDS = 60.0
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
SQLITE = b"SQLite format 3\0"


class ExportError(ValueError):
    """What was given cannot be read; says what to do."""


def is_url(source: str) -> bool:
    """Whether the source is a Postgres database, and no file."""
    return source.startswith(("postgres://", "postgresql://"))


def from_file(path: Path, tables: Mapping[str, str]) -> Records:
    """The records of a file of JSON or SQLite. Raises ExportError, OSError."""
    with path.open("rb") as file:
        head = file.read(16)
    if head == SQLITE:
        yield from _from_sqlite(path, tables)
        return
    if head.startswith(b"PK"):
        raise ExportError(f"{path} is a ZIP archive. Unpack it, and name the folder.")
    with path.open(encoding="utf-8-sig") as text:
        yield from _Json(text, str(path)).records()


class _Json:
    """A document of JSON: an array is the section "", an object has a section for each of its fields."""

    def __init__(self, file: TextIO, name: str) -> None:
        self._file, self._name = file, name
        self._text, self._at, self._before = "", 0, 0
        self._count = 0
        self._chunk = CHUNK
        self._whole = False

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
        except UnicodeDecodeError:
            raise ExportError(f"{self._name} is not UTF-8, so it is no export of JSON.") from None
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
        while True:
            match = _BLANK.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> None:
        if self._peek() != character:
            raise self._broken("is no JSON" if self._peek() else "is cut off")
        self._at += 1

    def _value(self) -> Any:
        self._peek()
        self._chunk = CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # A record that is not whole yet: each time twice as much is read, so that a long one costs little.
                if not self._more():
                    cut = error.pos >= len(self._text) or error.msg.startswith("Unterminated")
                    raise self._broken("is cut off" if cut else "is no JSON") from None
                continue
            except ValueError:
                raise self._broken("has a number of too many digits") from None
            if end < len(self._text) or not self._more():  # else a number may go on
                self._at = end
                return value

    def _more(self) -> bool:
        read = "" if self._whole else self._file.read(self._chunk)
        self._whole = self._whole or not read
        self._before += self._at
        self._text, self._at = self._text[self._at :] + read, 0
        self._chunk = min(self._chunk * 2, 1 << 26)
        return bool(read)

    def _broken(self, how: str) -> ExportError:
        return ExportError(
            f"{self._name} {how}, after {self._count:,} records, at character {self._before + self._at:,}. "
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


async def from_postgres(url: str, tables: Mapping[str, str]) -> AsyncIterator[tuple[str, Any]]:
    """The records of a database's tables, each row as JSON has it. Nothing that their owner made is called.

    Raises ExportError.
    """
    try:
        connection = await asyncpg.connect(url, timeout=SECONDS)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                await connection.execute(PLAINLY)
                there = await _tables(connection, tables)
                if not there:
                    raise ExportError(
                        f"The database has none of the tables {', '.join(tables)}. Is the URL right?"
                    )
                for section, name in there:
                    async for record in _rows(connection, name):
                        yield section, record
        finally:
            await connection.close(timeout=SECONDS)
    except NotReadableError as error:
        raise ExportError(f"{error}. Nothing was imported.") from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        # Only the kind of the error: its words could quote the URL.
        raise ExportError(
            f"The database of the import cannot be read ({type(error).__name__}). Check the URL, its password and its rights."
        ) from None


async def _tables(connection: asyncpg.Connection, tables: Mapping[str, str]) -> list[tuple[str, str]]:
    """The names of the tables that are there, each with its section."""
    found = []
    for section, pattern in tables.items():
        found += [(section, name) for (name,) in await connection.fetch(FIND, *pattern.split())]
    return found


async def _rows(connection: asyncpg.Connection, table: str) -> AsyncIterator[dict[str, Any]]:
    """The rows of a table, whose name has its schema."""
    columns = [
        column
        for column in await columns_of(connection, table)
        if column.name not in ("embedding", "vector") and "vec" not in column.type
    ]
    with tempfile.TemporaryFile() as file:
        await copy_out(connection, table, columns, file, seconds=SECONDS)
        file.seek(0)
        while lines := list(islice(file, BATCH)):
            rows = [_fields(line) for line in lines]
            values = [
                await _values(connection, column.type, [row[n] for row in rows])
                for n, column in enumerate(columns)
            ]
            for row in zip(*values, strict=True):
                yield {column.name: value for column, value in zip(columns, row, strict=True)}


def _fields(line: bytes) -> list[str | None]:
    """A line that COPY has written."""
    fields = line.decode().removesuffix("\n").split("\t")
    return [None if one == "\\N" else _ESCAPED.sub(lambda m: ESCAPES.get(m[1], m[1]), one) for one in fields]


async def _values(connection: asyncpg.Connection, type_: str, texts: list[str | None]) -> list[Any]:
    """The values of one column as JSON has them."""
    if type_.endswith("[]"):
        return [None if one is None else json.loads(one) for one in await connection.fetchval(ARRAYS, texts)]
    if type_ in ("json", "jsonb"):
        return [None if one is None else json.loads(one) for one in texts]
    if type_ == "boolean":
        return [None if one is None else one == "t" for one in texts]
    if type_ in ("smallint", "integer", "bigint"):
        return [None if one is None else int(one) for one in texts]
    if type_ in ("real", "double precision") or type_.startswith("numeric"):
        return [None if one is None else float(one) for one in texts]
    return texts


# A policy of the tables would be a function of somebody's, so it is an error where one would apply.
PLAINLY = (
    "set local search_path = pg_catalog, pg_temp; set local row_security = off; set local timezone = 'UTC'; "
    "set local datestyle = 'ISO'; set local bytea_output = 'hex'; set local client_encoding = 'UTF8'"
)
BATCH = 500
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
ARRAYS = """
select array(select array_to_json(given.one::text[])::text from unnest($1::text[]) with ordinality as given(one, nth)
             order by given.nth)
"""
FIND = """
select format('%I.%I', n.nspname, c.relname)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and n.nspname !~ '^pg_'
  and n.nspname not in ('information_schema', 'memoryd') and c.relname ~ ('^' || $1 || '$')
  and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = $2 and a.attnum > 0 and not a.attisdropped)
  and has_table_privilege(c.oid, 'select')
order by 1
"""
