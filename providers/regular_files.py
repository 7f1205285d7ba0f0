"""Opening what must be a file: a named pipe, which may never end, or a device is refused at once."""

from __future__ import annotations

import errno
import os
import stat
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
