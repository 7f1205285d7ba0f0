"""Sharing the embedded Postgres among commands: the last one that uses it stops it.

Promise: a command never stops the server while a daemon uses it, nor a server that no such command started. The kernel counts
the users (a shared lock), so the count is right after a kill -9, too. SIGTERM and SIGINT leave no server behind, at any time
and in any number.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from daemon.cli.failure import Failure
from daemon.settings import Settings
from plugins.embedded.account import server_uid
from plugins.embedded.files import open_folder
from plugins.embedded.server import EmbeddedPostgres

_ENDINGS = (signal.SIGTERM, signal.SIGINT)
LOCK = "in-use"
"""The file in the data folder that all users of the server lock, with the process id of the server to stop."""


@contextmanager
def embedded(settings: Settings, *, existing: bool = False) -> Iterator[EmbeddedPostgres]:
    """The embedded server, running. With `existing` a missing database is not made, but raises Failure.

    Raises EmbeddedPostgresError.
    """
    with ended_in_order():
        yield from _embedded(settings, existing=existing)


def _embedded(settings: Settings, *, existing: bool) -> Iterator[EmbeddedPostgres]:
    folder = settings.data_dir.expanduser().resolve()
    try:
        if existing and not (folder / "pg").exists():
            raise Failure(missing(folder))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_folder(folder, server=server_uid(folder)) as opened:
            lock = opened.open_own(LOCK)
    except OSError as error:
        raise Failure(
            f"{folder} cannot be used ({error.strerror}). Set MEMORYD_DATA_DIR to another."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        # Also for a server that the daemon starts again: the last user stops it.
        server = EmbeddedPostgres(
            settings.data_dir, port=settings.postgres_port, started=lambda pid: _write_pid(lock, pid)
        )
        try:
            with _signals_wait():
                server.start()
            yield server
        finally:
            for number in _ENDINGS:
                signal.signal(number, lambda _number, _frame: None)  # it is already ending
            if _last(lock) and _read_pid(lock) == server.postmaster_pid():
                server.stop()
    finally:
        os.close(lock)


def server_of(settings: Settings, *, existing: bool = False) -> EmbeddedPostgres:
    """The server as it is, without a start. With `existing` a database that was never made raises Failure."""
    folder = settings.data_dir.expanduser().resolve()
    if existing and not (folder / "pg").exists():
        raise Failure(missing(folder))
    return EmbeddedPostgres(settings.data_dir, port=settings.postgres_port)


def missing(folder: Path) -> str:
    """What to do if there is no database."""
    return f"There is no database in {folder} yet. Run: make run (or memoryd run), or set DATABASE_URL."


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: asyncio cancels its tasks. An exception in the middle would crash asyncpg."""
    told: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        if not told:
            told.append(number)
            signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in _ENDINGS}
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        if told:
            raise SystemExit(128 + told[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """All signals wait for the end of the block: a server that is just starting cannot be found, so it could not be stopped."""
    held: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: held.append(number)) for number in _ENDINGS
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def _last(lock: int) -> bool:
    """Whether no other process uses the server. If so, none can begin to until the lock is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_pid(lock: int, pid: int | None) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(pid or "").encode(), 0)


def _read_pid(lock: int) -> int | None:
    text = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
