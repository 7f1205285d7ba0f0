"""Sharing the embedded Postgres among commands: the last one that uses it stops it.

Promise: a command never stops the server while a daemon uses it, and never stops a server that was not started by these
commands. The kernel counts the users (a shared lock), so the count is right after a kill -9 too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daemon.cli.failure import Failure
from daemon.embedded.account import server_uid
from daemon.embedded.files import open_folder
from daemon.embedded.server import EmbeddedPostgres
from daemon.settings import Settings

LOCK = "in-use"
"""File in the data folder: locked by all who use the server, with the process id of the server to stop."""


@contextmanager
def embedded(settings: Settings, *, keep: bool = False, existing: bool = False) -> Iterator[EmbeddedPostgres]:
    """The embedded server, running. With `existing` a missing database is a Failure instead of being made.

    With `keep` it runs on afterwards. Raises EmbeddedPostgresError.
    """
    folder = settings.data_dir.expanduser().resolve()
    try:
        if existing and not (folder / "pg").exists():
            raise Failure(missing(folder))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_folder(folder, server=server_uid(folder)) as place:
            lock = place.open_own(LOCK)
    except OSError as error:
        raise Failure(
            f"{folder} cannot be used ({error.strerror}). Set MEMORYD_DATA_DIR to another."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        # Also of one that the daemon starts again: the last of us is to stop it.
        server = EmbeddedPostgres(
            settings.data_dir, port=settings.postgres_port, started=lambda pid: _note(lock, pid)
        )
        server.start()
        try:
            yield server
        finally:
            if not keep and _last(lock) and _noted(lock) == server.postmaster_pid():
                server.stop()
    finally:
        os.close(lock)


def missing(folder: Path) -> str:
    """What to do where there is no database."""
    return f"There is no database in {folder} yet. Run: make run (or memoryd run), or set DATABASE_URL."


def _last(lock: int) -> bool:
    """Whether no other process uses the server; then none can begin to before the lock is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _note(lock: int, pid: int | None) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(pid or "").encode(), 0)


def _noted(lock: int) -> int | None:
    text = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
