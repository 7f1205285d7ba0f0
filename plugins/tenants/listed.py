"""Adds a line to the file of MEMORYD_DATABASE_URLS for `memoryd tenant add`.

Promise: a reader sees the complete old or new file; two commands at once both make their change. Comments, order, owner and
mode stay. A line that a daemon could not read is never written.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from daemon.settings.databases import NamedDatabase, read_databases
from plugins.tenants.urls import TenantError


def read_listed(file: Path) -> tuple[NamedDatabase, ...]:
    """Its databases; none if there is no such file, or only comments. Raises ValueError with what to do."""
    try:
        text = file.read_text("utf-8-sig")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError):
        text = "unread"  # read_databases() says what is wrong
    if all(not line.strip() or line.strip().startswith("#") for line in text.splitlines()):
        return ()
    return read_databases(str(file))


def add(file: Path, name: str, url: str) -> None:
    """Adds a line. Raises TenantError if the name exists already, ValueError and OSError."""
    # The target of a link is replaced, not the link.
    file = file.resolve()
    with _alone(file):
        if any(one.name == name for one in read_listed(file)):  # what is half written stays as it is
            raise TenantError(already_listed(file, name))
        try:
            about = file.stat()
            text = file.read_text("utf-8")
        except FileNotFoundError:
            about, text = None, ""
        beside = file.with_name(file.name + ".new")
        try:
            _write(beside, f"{text}{name}={url}\n", about)
            read_databases(str(beside))
            beside.replace(file)
        except ValueError as error:
            # Name the person's file in the error, not the temporary one.
            raise TenantError(str(error).replace(str(beside), str(file))) from None
        finally:
            beside.unlink(missing_ok=True)
        # It has been changed: where this fails, only a loss of power could undo it.
        with suppress(OSError):
            _sync(file.parent)


def already_listed(file: Path, name: str) -> str:
    return f"{file} has {name} already. To see what it has: memoryd tenant list"


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Waits until no other command changes the file. The file itself cannot be locked: it is replaced."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(file.with_name(file.name + ".lock"), flags, 0o600), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(beside: Path, text: str, about: os.stat_result | None) -> None:
    beside.unlink(missing_ok=True)  # of a command that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
        file.write(text.encode())
        if about is not None:
            with suppress(PermissionError):
                os.fchown(file.fileno(), about.st_uid, about.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(about.st_mode))
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
