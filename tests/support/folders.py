"""Folders, and ports, for the servers that tests start.

Promise: short enough for the path of a socket, open to the server's user for as long as they exist (pytest's own are
neither: its next session closes them to others), and in memory where there is room, since each database is 300 files.
"""

from __future__ import annotations

import fcntl
import random
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 2_000_000_000  # containers often give it 64 MB


def make_folder() -> Path:
    """A new empty folder."""
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES
    return Path(tempfile.mkdtemp(prefix="memoryd-test-", dir=MEMORY if in_memory else None)).resolve()


def made_once(run: Path, name: str, fill: Callable[[Path], object]) -> Path:
    """A folder in that of the test run, filled by the first process that needs it. Others that want it meanwhile wait."""
    made = run / name
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            # Under its name it is whole.
            half = run / f"half-{name}"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            fill(half)
            half.rename(made)
    return made


@contextmanager
def server_folder() -> Iterator[Path]:
    """A new empty folder for the block."""
    folder = make_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def quiet_port() -> int:
    """A free port that stays free while the server is down: outgoing connections are given higher ones."""
    for port in random.sample(range(20_000, 30_000), 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no free port between 20,000 and 30,000")
