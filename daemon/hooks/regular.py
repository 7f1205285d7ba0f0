"""Reading files that others choose: a named pipe, or a file without end, keeps no hook waiting."""

from __future__ import annotations

import os
import stat


def read_text(path: str, most: int, *, end: bool = False) -> str:
    """At most `most` bytes of a regular file, its first or its last, as text; "" where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            return ""
        if end:
            os.lseek(handle, max(0, about.st_size - most), os.SEEK_SET)
        return os.read(handle, most).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
