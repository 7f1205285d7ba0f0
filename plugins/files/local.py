"""Finding and reading files: never outside the folders that were named.

Promise: a symbolic link is followed only if it was named itself; hidden files and folders are left out; what is no file (a
pipe, a device) is never opened for reading.

Whether a program has a file open for writing is told by the kernel, with a lease: a read lease is refused while anybody has the
file open for writing. It knows only the programs of this machine, and gives leases only on files of one's own.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import signal
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Protocol

MAX_BYTES = 200_000_000
"""The largest file; a bigger one is refused before it is read."""
_LOCAL = frozenset(
    "bcachefs btrfs exfat ext2 ext3 ext4 f2fs jfs overlay ramfs reiserfs tmpfs vfat xfs zfs".split()  # noqa: SIM905
)
"""File systems that no other machine writes to."""
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


class UnreadableFileError(Exception):
    """This file can never be read as it is; parsing it again would fail again.

    The message is for the person who dropped the file: it says what is wrong with it and what to do. It never
    contains what is in the file.
    """


@dataclass(frozen=True, slots=True)
class File:
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
        """The state of a file now. Raises UnreadableFileError."""
        ...

    def read(self, path: Path) -> tuple[bytes, File]:
        """The bytes of a file, and its state at that moment. Raises UnreadableFileError."""
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
        return os.path.lexists(name)

    @staticmethod
    def look_at(path: Path) -> File:
        """See `Source`. The file is hashed without being kept."""
        with opened(path) as (file, status):
            digest = hashlib.file_digest(file, "sha256").digest()
            return File(path, modified_of(status), digest)

    @staticmethod
    def read(path: Path) -> tuple[bytes, File]:
        with opened(path) as (file, status):
            content = file.read(MAX_BYTES + 1)
        return content, File(path, modified_of(status), hashlib.sha256(content).digest())


def modified_of(status: os.stat_result) -> datetime:
    # A time before 1970 or after now is wrong, and some that a file may have are none in Python.
    return datetime.fromtimestamp(max(0.0, min(status.st_mtime, time.time())), UTC)


@contextmanager
def opened(path: Path, *, most: int = MAX_BYTES) -> Iterator[tuple[BufferedReader, os.stat_result]]:
    """An open file and its status. A symbolic link at the end of the path is not followed, and a pipe is not waited for."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableFileError(
            f"It cannot be opened: {error.strerror}. Check that it is there and may be read."
        ) from None
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not _is_there_itself(number, path):
            raise UnreadableFileError("A link leads to it. Name the file itself, or its folder.")
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFileError("It is not a file. Name files, or folders that contain files.")
        if status.st_size > most:
            raise UnreadableFileError(
                f"It has {status.st_size:,} bytes, the limit is {most:,}. Split it, or take out pictures."
            )
        try:
            yield file, status
        except OSError as error:
            raise UnreadableFileError(f"It cannot be read: {error.strerror}.") from None


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


def whole_characters(text: str) -> str:
    """The text with the halves of surrogate pairs joined, and lone ones as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


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


def is_open_for_writing(file: int) -> bool | None:
    """Whether anybody has a file open for writing, by its descriptor; None if the system does not say."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # Who opens the file while the lease is held makes the kernel send a signal. Its usual one would end this process.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    return False


def is_local(folder: Path) -> bool:
    """Whether only this machine writes to the file system that a folder is on. False where that is not known."""
    try:
        lines = _MOUNTS.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    real, kind = Path(os.path.realpath(folder)), ""
    longest = -1
    for line in lines:
        left, _, right = line.partition(" - ")
        mounted = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), left.split(" ")[4]))
        # Of two file systems at one path, the later one is seen.
        if (mounted == real or mounted in real.parents) and len(mounted.parts) >= longest:
            longest, kind = len(mounted.parts), right.split(" ")[0]
    return kind in _LOCAL
