"""Folders for the data of the servers that tests start.

Promise: short enough for the path of a socket, open to the server's user for as long as they exist (pytest's own are
neither: its next session closes them to others), and in memory where there is room, since each database is 300 files.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 2_000_000_000  # containers often give it 64 MB


def make_folder() -> Path:
    """A new empty folder."""
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES
    return Path(tempfile.mkdtemp(prefix="memoryd-test-", dir=MEMORY if in_memory else None)).resolve()


@contextmanager
def server_folder() -> Iterator[Path]:
    """A new empty folder for the block."""
    folder = make_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
