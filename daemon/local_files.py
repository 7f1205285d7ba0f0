"""Finding and reading files: never outside the folders that were named.

Promise: a symbolic link is followed only if it was named itself; hidden files and folders are left out; what is no file (a
pipe, a device) is never opened for reading.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from providers.ports import Unreadable

MAX_BYTES = 200_000_000
"""The largest file; a bigger one is refused before it is read."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was found."""

    path: Path
    modified: datetime
    digest: bytes
    """SHA-256 of its bytes."""

    @property
    def name(self) -> str:
        """The whole path, as the database can store it. Two paths have two names, so bytes that are no text are written out."""
        return written(os.fspath(self.path))


class Source(Protocol):
    """Where files are. Its methods block, and are called in threads."""

    def look_at(self, path: Path) -> File:
        """The state of a file now. Raises Unreadable."""
        ...

    def read(self, path: Path) -> tuple[bytes, File]:
        """The bytes of a file, and its state at that moment. Raises Unreadable."""
        ...

    def is_there(self, name: str) -> bool:
        """Whether there is still something at this path."""
        ...


def walk(paths: Iterable[Path], *, leave_out: Collection[Path] = ()) -> Iterator[Path]:
    """The files that are named, and those in named folders, each once, in order. `leave_out`: folders."""
    seen: set[Path] = set()
    for path in paths:
        whole = Path(os.path.realpath(path))
        for found in _inside(whole, leave_out) if whole.is_dir() else [whole]:
            if found not in seen:
                seen.add(found)
                yield found


def _inside(folder: Path, leave_out: Collection[Path]) -> Iterator[Path]:
    for inside, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and Path(inside, name) not in leave_out
        )
        for name in sorted(names):
            path = Path(inside, name)
            if not name.startswith(".") and not path.is_symlink():
                yield path


class LocalFiles:
    """Files of this machine."""

    @staticmethod
    def is_there(name: str) -> bool:
        """See `Source`."""
        return os.path.lexists(name)

    @staticmethod
    def look_at(path: Path) -> File:
        """See `Source`. The file is hashed without being kept."""
        with opened(path) as (file, status):
            digest = hashlib.file_digest(file, "sha256").digest()
            return File(path, modified_of(status), digest)

    @staticmethod
    def read(path: Path) -> tuple[bytes, File]:
        """See `Source`."""
        with opened(path) as (file, status):
            content = file.read(MAX_BYTES + 1)
        return content, File(path, modified_of(status), hashlib.sha256(content).digest())


def modified_of(status: os.stat_result) -> datetime:
    """When it was changed last."""
    # A time before 1970 or after now is wrong, and some that a file may have are none in Python.
    return datetime.fromtimestamp(max(0.0, min(status.st_mtime, time.time())), UTC)


@contextmanager
def opened(path: Path, *, most: int = MAX_BYTES) -> Iterator[tuple[BufferedReader, os.stat_result]]:
    """An open file and its status. A symbolic link at the end of the path is not followed, and a pipe is not waited for."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(
            f"It cannot be opened: {error.strerror}. Check that it is there and may be read."
        ) from None
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not _is_there_itself(number, path):
            raise Unreadable("A link leads to it. Name the file itself, or its folder.")
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("It is not a file. Name files, or folders that contain files.")
        if status.st_size > most:
            raise Unreadable(
                f"It has {status.st_size:,} bytes, the limit is {most:,}. Split it, or take out pictures."
            )
        try:
            yield file, status
        except OSError as error:
            raise Unreadable(f"It cannot be read: {error.strerror}.") from None


def _is_there_itself(number: int, path: Path) -> bool:
    """Whether the open file is at this path, and not behind a link that somebody has put in the place of a folder meanwhile."""
    told = Path(f"/proc/self/fd/{number}")
    if told.is_symlink():
        return os.fspath(told.readlink()) == os.fspath(path)
    return os.path.realpath(path) == os.fspath(path)


def is_text(path: str) -> bool:
    """Whether a path can be written down. Others are left alone."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in path


def written(path: str) -> str:
    """A path as text that can be written down: bytes that are no UTF-8 as `\\xff`, and then a backslash as two."""
    path = path.replace("\0", "\ufffd")
    if is_text(path):
        return path
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = path.encode("utf-8", "surrogatepass")  # half of a character, in a name that JSON told
    return raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
