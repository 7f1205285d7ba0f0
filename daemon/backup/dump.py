"""Makes a backup: pg_dump's archive and a manifest, both of one snapshot, while everything runs.

Promise: a file with the name that was asked for is whole and on the disk; what was cut off keeps another name, and the next
backup removes it.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from daemon.backup.archive import BLOCK, BackupError, Contents, Manifest, write_end
from daemon.backup.catalog import LEFT_OUT, read_contents
from daemon.backup.programs import ended, find_program, start
from daemon.db.pool import connect
from daemon.db.pooler import hears_notifications
from handlers.shared.ports import AnyConnection
from providers.private_files import read_private

PART = ".part"
"""Ends the name of a file that is not whole yet."""
_SNAPSHOT = "select pg_export_snapshot()"
_SERVER = """
select current_setting('server_version_num')::integer / 10000 as major,
       (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) as sees_all,
       to_regclass('memoryd.migrations') is not null as has_schema
"""
_MAX_KEY = 10_000


@dataclass(frozen=True, slots=True)
class Keys:
    """The private keys that belong to a database, and whether they go into its backup."""

    files: Mapping[str, Path]
    included: bool = False


async def make_backup(
    url: str, target: Path, *, keys: Keys, tell: Callable[[int], None] = lambda _bytes: None
) -> Manifest:
    """Writes a backup of the database to `target`; `tell` is told how many bytes were written.

    Raises BackupError, OSError, asyncpg.PostgresError.
    """
    if not await hears_notifications(url):
        raise BackupError(
            "DATABASE_URL leads through a transaction pooler, where no backup can be made: name the database itself."
        )
    connection = await connect(url, application="memoryd backup")
    try:
        (server,) = await connection.fetch(_SERVER)
        if not server["has_schema"]:
            raise BackupError("This database has no memoryd schema, so there is nothing to back up.")
        program = find_program("pg_dump", server["major"])
        with _part(target) as file:
            # Nothing is asked while the dump goes on: the snapshot must live as long.
            await connection.execute("set idle_in_transaction_session_timeout = 0")
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                arguments = _arguments(await connection.fetchval(_SNAPSHOT), sees_all=server["sees_all"])
                size, digest, contents = await _dump(program, url, arguments, file, connection, tell)
            manifest = Manifest(
                memoryd=version("memoryd"),
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                contents=contents,
                bytes=size,
                sha256=digest,
                keys=_read_keys(keys) if keys.included else {},
                keys_left_out=() if keys.included else sorted(keys.files),
            )
            write_end(file, manifest)
        return manifest
    finally:
        await connection.close()


def _arguments(snapshot: str, *, sees_all: bool) -> list[str]:
    """Of pg_dump. The policies let the owner of the schema see every row, but pg_dump must be told to ask them."""
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


async def _dump(
    program: Path,
    url: str,
    arguments: list[str],
    file: BinaryIO,
    connection: AnyConnection,
    tell: Callable[[int], None],
) -> tuple[int, str, Contents]:
    with tempfile.TemporaryFile() as said:
        process = start(program, url, *arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, said=said)
        try:
            copying = asyncio.create_task(asyncio.to_thread(_copy, process, file, tell))
            try:
                contents = await read_contents(connection)
                size, digest = await copying
            finally:
                # Without this process nothing comes any more, and the thread ends.
                process.kill()
                await asyncio.wait([copying])
        finally:
            code = process.wait()
        if code != 0:
            raise BackupError(f"pg_dump failed: {ended(said)}")
    return size, digest, contents


def _copy(process: subprocess.Popen[bytes], file: BinaryIO, tell: Callable[[int], None]) -> tuple[int, str]:
    """Writes what the process says; returns its size and SHA-256 when the process has ended."""
    assert process.stdout is not None
    digest, size = hashlib.sha256(), 0
    while block := process.stdout.read(BLOCK):
        file.write(block)
        digest.update(block)
        size += len(block)
        tell(len(block))
    process.wait()
    return size, digest.hexdigest()


@contextmanager
def _part(target: Path) -> Iterator[BinaryIO]:
    """A private file beside `target`, which takes its name when all of it is on the disk."""
    part = target.with_name(target.name + PART)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(
                f"Another process is writing {part}. Wait for it, or choose another name."
            ) from None
        try:
            file.truncate()
            os.fchmod(file.fileno(), 0o600)
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


def _read_keys(keys: Keys) -> dict[str, str]:
    try:
        return {
            name: base64.b64encode(read_private(path, name=f"The key {path}", max_bytes=_MAX_KEY)).decode()
            for name, path in keys.files.items()
        }
    except (OSError, ValueError) as error:
        raise BackupError(f"A key cannot be read: {error}") from None
