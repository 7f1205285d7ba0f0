"""The SQL files of package `migrations`, and what they declare: the sources of recall, the options of recall and of contexts.

schema/NNNN_name.sql     tables, columns, indexes, roles: each applied once
functions/**/*.sql       functions, views, triggers, policies: in the order of functions/order.txt, applied again when changed;
                         the line `\\include FILE` stands for the file, as in psql

The commands, the tools of MCP, the page of recall and both clients take the options from here, so that a new one is written
once (tests/integration/recall/test_options.py).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal

_NUMBERED = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_TABLE = re.compile(r"^create table public\.(\w+)", re.MULTILINE)
_INCLUDED = re.compile(r"^\\include (\S+)\n", re.MULTILINE)
_SOURCE = re.compile(r"^        \('(\w+)', '(\w+)', (?:true|false),", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str
    checksum: str

    def __str__(self) -> str:
        return f"{self.version:04d}_{self.name}"


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """One file of functions/; `name` is its path within that folder, without `.sql`."""

    name: str
    sql: str
    checksum: str

    @property
    def hangs_on_tables(self) -> bool:
        """Whether it has views, triggers or policies: applying it locks their tables."""
        return self.name.startswith("tables/")


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """A file of functions that a database has: a row of memoryd.function_files."""

    checksum: str
    objects: tuple[str, ...]
    applied_by: str


@dataclass(frozen=True, slots=True)
class MigrationFiles:
    """All that a database is made of."""

    schema: tuple[Migration, ...]
    functions: tuple[FunctionFile, ...]


@cache
def load_files() -> MigrationFiles:
    """The files of package `migrations`."""
    root = resources.files("migrations")
    return MigrationFiles(
        schema=tuple(load_migrations()),
        functions=tuple(_function_files(root / "functions")),
    )


def load_migrations() -> list[Migration]:
    """The numbered files, in order."""
    found = []
    for entry in (resources.files("migrations") / "schema").iterdir():
        match = _NUMBERED.match(entry.name)
        if match:
            text = entry.read_text(encoding="utf-8")
            found.append(Migration(int(match[1]), match[2], text, checksum_of(text)))
    return sorted(found, key=lambda m: m.version)


def tables_of(schema: Sequence[Migration]) -> list[str]:
    """The tables of schema public that these files make."""
    return [name for one in schema for name in _TABLE.findall(one.sql)]


@cache
def load_sources() -> Mapping[str, str]:
    """The sources that recall searches, each with its table, as memoryd.sources() declares them."""
    declared = resources.files("migrations") / "functions" / "tables" / "sources.sql"
    return dict(_SOURCE.findall(declared.read_text(encoding="utf-8")))


def checksum_of(text: str) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def _function_files(folder: Traversable) -> list[FunctionFile]:
    files = []
    for line in _lines(folder / "order.txt"):
        text = folder.joinpath(line).read_text(encoding="utf-8")
        text = _INCLUDED.sub(lambda m: folder.joinpath(m[1]).read_text(encoding="utf-8"), text)
        files.append(FunctionFile(line.removesuffix(".sql"), text, checksum_of(text)))
    return files


def _lines(file: Traversable) -> list[str]:
    """The lines that say something: a `#` begins a comment."""
    stripped = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in stripped if line]


Kind = Literal["whole", "number", "flag", "names", "roles", "sources", "object", "text", "uuid", "time"]
Of = Literal["recall", "context"]

ROLES = ("user", "assistant", "system", "tool")
"""Of messages."""

_TEXT = r"(?:'((?:[^']|'')*)'|null)(?:::jsonb)?"
_NUMBER, _FLAG = r"(\d+|null)", r"(true|false)"
_COLUMNS = (_TEXT, _TEXT, _NUMBER, _NUMBER, _FLAG, _FLAG, _FLAG, _TEXT, _TEXT, _TEXT)
_ROW = re.compile(r"^        \(" + r",\s*".join(_COLUMNS) + r"\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Option:
    """One row of memoryd.options(), which says what the columns mean."""

    name: str
    kind: Kind
    lowest: int | None
    highest: int | None
    of: tuple[str, ...]
    """Who takes it: "recall", "context"."""
    argument: bool
    in_prompt: object
    help: str


@cache
def load_options() -> tuple[Option, ...]:
    """All of them, in order."""
    declared = resources.files("migrations") / "functions" / "search" / "options.sql"
    return tuple(_option(row.groups()) for row in _ROW.finditer(declared.read_text(encoding="utf-8")))


def options_of(what: Of) -> Sequence[Option]:
    """Those that a call of recall() or build_context() takes in its argument `options`."""
    return [each for each in load_options() if what in each.of and not each.argument]


def _option(row: Sequence[str | None]) -> Option:
    name, kind, lowest, highest, *taken, argument, in_prompt, _, says = row
    return Option(
        str(name),
        kind,  # type: ignore[arg-type]
        _number(lowest),
        _number(highest),
        tuple(what for what, takes in zip(("recall", "context"), taken, strict=True) if takes == "true"),
        argument == "true",
        None if in_prompt is None else json.loads(in_prompt),
        str(says).replace("''", "'"),
    )


def _number(text: str | None) -> int | None:
    return None if text in (None, "null") else int(str(text))
