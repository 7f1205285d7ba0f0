"""memoryd export: all that is kept about a user, as a file that `memoryd import` puts back.

Promise: every table as of one moment, row by row, however many there are; a file that is there is whole.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import UUID

import typer

from daemon.cli.common import uuid_or_name, with_database
from daemon.cli.failure import Failure
from daemon.cli.output import number, remark

if TYPE_CHECKING:
    from daemon.db.pool import Database
    from daemon.settings import Settings
    from handlers.shared.ports import AnyConnection

FORMAT = "memoryd-export"
VERSION = 1

TABLES = "select u.name from memoryd.user_tables() u"
ROWS = "select r::text from memoryd.user_rows($1, $2) r"
NOW = "select to_jsonb(now() at time zone 'utc') #>> '{}' || '+00:00'"
AUDIT = "select memoryd.audit_read($1, null, 'export', $2, $3)"
PREFETCH = 20
"""Rows on their way at once: one may be many megabytes."""


def export(
    user: UUID = typer.Argument(
        parser=uuid_or_name, help="Whose memory: the user_id of the rows, or the user's name."
    ),
    output: Path | None = typer.Option(None, "-o", "--output", help="File to write; else stdout."),
) -> None:
    """Write all that is kept about a user as JSON: memories, commands, messages, documents, logs, settings.

    Embeddings are left out, because they are computed from the rest. The contexts of commands are left out too, which are the
    agents' own knowledge, and the answers to requests, which repeat what others wrote.
    """

    async def write(_settings: Settings, database: Database) -> int:
        with _file(output) as file:
            async with database.transaction() as connection:
                return await write_export(connection, user, file)

    rows = with_database(write)
    if rows == 0:
        remark(f"Nothing is kept about user {user}.")
    elif output is not None:
        remark(f"{number(rows, 'row')} about user {user} in {output}.")


@contextmanager
def _file(output: Path | None) -> Iterator[BinaryIO]:
    """The file to write, which takes its final name when it is complete."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = output.with_name(output.name + ".part")
    try:
        part.unlink(missing_ok=True)
        # Readable only by this user.
        opened = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror}.") from None
    try:
        with opened:
            yield opened
        part.replace(output)
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


async def write_export(connection: AnyConnection, user: UUID, file: BinaryIO) -> int:
    """Writes the export in a transaction that begins with it; how many rows it has. It is put on record."""
    await connection.execute("set transaction isolation level repeatable read")
    began, rows = time.perf_counter(), 0
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "user_id": str(user)}
    head["exported_at"] = await connection.fetchval(NOW)
    file.write(json.dumps(head)[:-1].encode() + b', "tables": {')
    for index, record in enumerate(await connection.fetch(TABLES)):
        file.write((",\n" if index else "\n").encode() + json.dumps(record["name"]).encode() + b": [")
        first = True
        async for row in connection.cursor(ROWS, user, record["name"], prefetch=PREFETCH):
            file.write(("\n" if first else ",\n").encode() + row[0].encode())
            first, rows = False, rows + 1
        file.write(b"]")
    file.write(b"\n}}\n")
    await connection.execute(AUDIT, user, rows, round((time.perf_counter() - began) * 1000))
    return rows
