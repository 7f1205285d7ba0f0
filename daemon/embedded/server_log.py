"""The log of the embedded Postgres: what the server says, never what memories say.

Promise: it and its predecessor take 32 MB and no more, while the server goes on writing.
"""

from __future__ import annotations

import os

from daemon.embedded.files import Folder

FILE = "postgres.log"
LOG_BYTES = 16_000_000
"""What the log grows to before it is turned over; it and its predecessor take twice as much."""
_TAIL_BYTES = 64_000


def turn_log(folder: Folder) -> None:
    """Moves the log's newest lines to postgres.log.1 when it has grown to 16 MB.

    Raises OSError when the disk takes no copy; then the log is emptied all the same, which makes room.
    """
    with os.fdopen(folder.open_own(FILE, append=True), "rb") as log:
        size = os.fstat(log.fileno()).st_size
        if size <= LOG_BYTES:
            return
        try:
            log.seek(size - LOG_BYTES)
            folder.write(f"{FILE}.1", log.read(LOG_BYTES).decode("utf-8", "replace"))
        finally:
            # The server appends wherever the end is now. What it wrote since the copy is lost.
            os.truncate(log.fileno(), 0)


def end_of_log(folder: Folder) -> str:
    """The last lines."""
    with os.fdopen(folder.open_own(FILE, append=True), "rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - _TAIL_BYTES))
        return log.read().decode("utf-8", "replace")
