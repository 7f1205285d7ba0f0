"""Makes a backup: a dump of pg_dump and a manifest of the same snapshot, while everything runs.

Promise: a file with the requested name is complete and on the disk; an interrupted backup keeps another name, and the next
backup removes it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from daemon.db.pool import POSTGRES_NAMES, connected, pin
from daemon.db.server import hears_notifications
from plugins.operate.backup.archive import BackupError, Manifest, checksum, write_end
from plugins.operate.backup.catalog import LEFT_OUT, read_contents
from plugins.operate.backup.keys import read_keys
from plugins.operate.backup.programs import find_program, run_on

PART = ".part"
"""The end of the name of an unfinished file."""
_SERVER = """
select current_setting('server_version_num')::integer / 10000 as major,
       (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) as sees_all,
       to_regclass('memoryd.migrations') is not null as has_schema
"""


async def make_backup(
    url: str, target: Path, *, keys: Mapping[str, Path], with_keys: bool = False
) -> Manifest:
    """Writes a backup of the database to `target`. `keys`: the private keys that belong to it, by name.

    Raises BackupError, OSError, asyncpg.PostgresError.
    """
    if not await hears_notifications(url):
        raise BackupError(
            "DATABASE_URL leads through a transaction pooler, where no backup can be made: name the database itself."
        )
    async with connected(url, application="memoryd backup") as connection:
        (server,) = await connection.fetch(_SERVER)
        if not server["has_schema"]:
            raise BackupError("This database has no memoryd schema, so there is nothing to back up.")
        program = find_program("pg_dump", server["major"])
        with _part(target) as file:
            # The transaction stays open and idle during the dump: its snapshot must live as long.
            await pin(connection, POSTGRES_NAMES, scope="session", idle_in_transaction_session_timeout="0")
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                snapshot = await connection.fetchval("select pg_export_snapshot()")
                contents = await read_contents(connection)
                arguments = _arguments(snapshot, sees_all=server["sees_all"])
                await run_on(url, program, *arguments, output=file)
            size = file.seek(0, os.SEEK_END)
            manifest = Manifest(
                memoryd=version("memoryd"),
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                contents=contents,
                bytes=size,
                sha256=await asyncio.to_thread(checksum, file, size),
                keys=read_keys(keys) if with_keys else {},
                keys_left_out=() if with_keys else sorted(keys),
            )
            write_end(file, manifest)
        return manifest


def remove_abandoned(part: Path) -> None:
    """Removes the remains of a killed backup, which nobody has locked. Raises BackupError if a process is writing it."""
    try:
        handle = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink(missing_ok=True)
    except BlockingIOError:
        raise BackupError(
            f"Another process is writing {part}. Wait for it, or choose another name."
        ) from None
    finally:
        os.close(handle)


def _arguments(snapshot: str, *, sees_all: bool) -> list[str]:
    """The arguments of pg_dump. The policies show the schema's owner every row, but pg_dump must be told to apply them."""
    return [
        "--format=custom",
        "--compress=gzip:1",
        "--schema=public",
        "--schema=memoryd",
        "--extension=vector",
        f"--exclude-table-data={LEFT_OUT}",
        f"--snapshot={snapshot}",
        *([] if sees_all else ["--enable-row-security"]),
    ]


@contextmanager
def _part(target: Path) -> Iterator[BinaryIO]:
    """A new private file beside `target`, which takes its name when it is complete on the disk."""
    if target.exists() and not target.is_file():
        # It would be gone for all programs: /dev/null, say, or where /dev/stdout leads.
        raise BackupError(f"{target} is there, and not a regular file. Choose another name.")
    part = target.with_name(target.name + PART)
    remove_abandoned(part)
    with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
