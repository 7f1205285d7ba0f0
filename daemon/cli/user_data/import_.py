"""memoryd import: puts an export back.

Promise: all of the file or nothing of it; rows that exist are not changed, nor are rows of other users.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import typer

from daemon.cli.common import with_database
from daemon.cli.failure import Failure, sentences
from daemon.cli.output import as_json, remark, say, table
from daemon.cli.user_data.deep_json import shallow
from daemon.cli.user_data.export import FORMAT, TABLES, VERSION

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings

BATCH_ROWS = 500
BATCH_LENGTH = 4_000_000
"""Characters of rows that are sent at once; a longer row is sent by itself."""
SECONDS = 600.0
LONG_NUMBER = 4000
"""Digits; Python reads whole numbers of up to 4,300."""
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

IMPORT = "select memoryd.import_rows($1, $2, $3, $4)"
# Whose rows they are is said by the rows.
AUDIT = """
insert into public.agent_execution_logs (step_name, action_type, output_data) values ('import', 'memory_write', $1)
"""


@dataclass(frozen=True, slots=True)
class Export:
    """The contents of a file; of each table its rows as JSON texts."""

    user: UUID
    tables: Mapping[str, Sequence[str]]


def import_(
    file: str = typer.Argument(help="A file that `memoryd export` wrote; - is stdin."),
    user: UUID | None = typer.Option(
        None, help="The user whose memory it becomes; else the user of the export."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Put back what `memoryd export` wrote, under the same ids: all of it, or after an error nothing.

    Rows that exist already are skipped. Commands keep their status, and outcomes are not remembered twice. A file decides
    what agents are told and what its user may read: import only what you trust.
    """
    with sentences():
        given = _read(file)

    async def put_back(_settings: Settings, database: Database) -> dict[str, dict[str, int]]:
        return await _import(database, given, user or given.user, name=file)

    counts = with_database(put_back)
    if json:
        as_json({"user_id": user or given.user, "tables": counts})
        return
    table(
        ["imported>", "skipped>", "table"],
        [[f"{c['imported']:,}", f"{c['skipped']:,}", name] for name, c in counts.items() if any(c.values())],
    )
    if not any(any(c.values()) for c in counts.values()):
        say("The file holds no rows.")
    granted = [t for t in ("user_memory_access", "chat_group_members") if counts.get(t, {}).get("imported")]
    if granted:
        remark(f"What this user may read of others' is as the file says: see {' and '.join(granted)}.")


async def _import(database: Database, given: Export, user: UUID, *, name: str) -> dict[str, dict[str, int]]:
    import asyncpg

    counts: dict[str, dict[str, int]] = {}
    async with database.transaction() as connection:
        known = [r["name"] for r in await connection.fetch(TABLES)]
        for each in [*(t for t in known if t in given.tables), *(t for t in given.tables if t not in known)]:
            imported = 0
            for batch in _batches(given.tables[each]):
                try:
                    imported += await connection.fetchval(
                        IMPORT, given.user, user, each, batch, timeout=SECONDS
                    )
                except asyncpg.StatementTooComplexError:
                    raise Failure(
                        f"{name}, table {each}: a row nests deeper than this Postgres reads. Raise its max_stack_depth and "
                        "import again; nothing was imported."
                    ) from None
                except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
                    raise Failure(f"{name}, table {each}: {error.args[0]}. Nothing was imported.") from None
            counts[each] = {"imported": imported, "skipped": len(given.tables[each]) - imported}
        await connection.execute(AUDIT, json.dumps({n: c["imported"] for n, c in counts.items()}))
    return counts


def _batches(rows: Sequence[str]) -> Iterator[str]:
    """The rows as JSON arrays; a table without rows is one empty array, so that its name is checked all the same."""
    batch: list[str] = []
    length = 0
    for row in rows:
        if batch and (len(batch) >= BATCH_ROWS or length + len(row) > BATCH_LENGTH):
            yield f"[{','.join(batch)}]"
            batch, length = [], 0
        batch.append(row)
        length += len(row)
    yield f"[{','.join(batch)}]"


def _read(name: str) -> Export:
    """Raises Failure where the file cannot be read or is no export of a version that we know."""
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise Failure(f"{name} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Failure(f"{name} is not UTF-8, so it is no export of memoryd's.") from None
    # Numbers stand as they are written: a float would not hold all of them, and an int takes no thousands of digits.
    mark = f"number {uuid.uuid4()} "
    try:
        data = json.loads(
            text,
            parse_float=lambda digits: mark + digits,
            parse_int=lambda digits: int(digits) if len(digits) < LONG_NUMBER else mark + digits,
            parse_constant=_refuse_constant,
        )
        return _export_of(data, name, _rows(name, mark))
    except RecursionError:
        # Rows that nest deeper than Python goes: they are taken as they are written, and Postgres reads them.
        try:
            return _export_of(shallow(text), name, _raw_rows(name))
        except ValueError as error:
            raise Failure(f"{name} is no whole JSON document ({error}). Nothing was imported.") from None
    except ValueError as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise Failure(
            f"{name} is no whole JSON document{where}: was it cut off? Nothing was imported."
        ) from None


def _export_of(data: Any, name: str, rows_of: Callable[[str, Sequence[Any]], Sequence[str]]) -> Export:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise Failure(f'{name} is no export of memoryd\'s: its "format" is not "{FORMAT}".')
    if data.get("version") != VERSION or isinstance(data["version"], bool):
        raise Failure(
            f"{name} is an export of version {json.dumps(data.get('version'))}; this memoryd reads version {VERSION}."
        )
    try:
        user = UUID(data["user_id"])
    except (KeyError, ValueError, AttributeError, TypeError):
        raise Failure(f'{name} does not say whose memory it is: its "user_id" is no uuid.') from None
    tables = data.get("tables")
    if not isinstance(tables, dict) or not all(isinstance(rows, list) for rows in tables.values()):
        raise Failure(f'{name} has no "tables" with rows: was it cut off?')
    return Export(user, {each: rows_of(each, rows) for each, rows in tables.items()})


def _rows(name: str, mark: str) -> Callable[[str, Sequence[Any]], Sequence[str]]:
    number = re.compile(f'"{mark}([^"]*)"')
    return lambda each, rows: [
        _row(row, number, f"{name}, table {each}, row {nth}") for nth, row in enumerate(rows, 1)
    ]


def _raw_rows(name: str) -> Callable[[str, Sequence[Any]], Sequence[str]]:
    def checked(row: str, where: str) -> str:
        if NUL.search(row):
            raise _nul(where)
        return row

    return lambda each, rows: [
        checked(row, f"{name}, table {each}, row {nth}") for nth, row in enumerate(rows, 1)
    ]


def _nul(where: str) -> Failure:
    return Failure(
        f"{where}: it holds a NUL character (\\u0000), which Postgres cannot store. Nothing was imported."
    )


def _row(row: Any, number: re.Pattern[str], where: str) -> str:
    if _holds_nul(row):
        raise _nul(where)
    text = number.sub(r"\1", json.dumps(row, ensure_ascii=False))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Failure(
            f"{where}: it holds half a character (a lone surrogate), which Postgres cannot store. Nothing was imported."
        ) from None
    return text


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any(_holds_nul(k) or _holds_nul(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_holds_nul, value))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
