"""Files that must be regular ones, and files with keys.

Promise: a named pipe, which may never end, or a device is refused at once. Files with keys may be read by their owner alone,
and are written whole or not at all; no message contains what is in one.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # a coding agent waits for its hooks, which read files by this module
if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path


def open_regular(path: Path | str) -> BufferedReader:
    """A file that is open for reading. Raises OSError, also for what is no regular file."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(number).st_mode
    if not stat.S_ISREG(mode):
        os.close(number)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise OSError(errno.EINVAL, "Not a regular file")
    return os.fdopen(number, "rb")


def read_private(path: Path, *, name: str, max_bytes: int) -> bytes:
    """The first bytes of the file. Raises OSError, and ValueError where others may read it; `name` begins the sentence."""
    with open_regular(path) as file:
        # Of the file that is open: its name may be given to another one meanwhile.
        about = os.fstat(file.fileno())
        if stat.S_IMODE(about.st_mode) & 0o077:
            raise ValueError(f"{name} can be read by other accounts. Run: chmod 600 {path}")
        if about.st_uid not in (os.geteuid(), 0):
            raise ValueError(f"{name} belongs to another account. Give it to the daemon's account.")
        return file.read(max_bytes)


def write_private(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Writes a file for its owner alone. Raises OSError; FileExistsError unless it may `replace` what is there."""
    beside = path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")  # in containers, processes have one id
    try:
        with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            beside.replace(path)
        else:
            os.link(beside, path)
        _sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """So that the name, too, is there after the machine has lost power."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
