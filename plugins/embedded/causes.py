"""What to do if the embedded Postgres does not start, found in its log, the answers of its programs, and the disk.

Promise: no advice risks the data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from daemon.cli.failure import Failure

_NO_ROOM_BYTES = 32_000_000
"""With less room Postgres may not be able to make its next file of write-ahead log, of 16 MB."""
_DISK_FULL = "The disk is full. Make room on it; nothing committed is lost."
_DAMAGE = (
    r"could not locate a valid checkpoint record|invalid (primary )?checkpoint|could not locate required checkpoint|"
    r"incorrect checksum in control file|pg_control|invalid page in block|is not a valid data directory|WAL ends before|"
    r"(PANIC|FATAL):  could not (open|read|access).*: (No such file|read \d+ of)"
)
_MEMORY = r"out of memory|Cannot allocate memory|could not map anonymous shared memory|Resource temporarily unavailable"
_DAMAGED = (
    "Its files are damaged. Keep a copy of the data folder and restore a backup; "
    "pg_resetwal and deleting files lose data."
)
# In this order, since a full disk also damages files.
_ADVICE = (
    (r"No space left on device|Disk quota exceeded|File too large", _DISK_FULL),
    (
        _MEMORY,
        "The machine is short of memory. Add memory, or end other programs; nothing committed is lost.",
    ),
    (_DAMAGE, _DAMAGED),
    (
        r"Permission denied|Operation not permitted|invalid permissions|has wrong ownership",
        "It may not read or write its own files. Check which user owns the data folder.",
    ),
)


class EmbeddedPostgresError(Failure):
    """The embedded Postgres failed; the message says what to do next."""

    def __init__(self, message: str, advice: str = "") -> None:
        """`advice`: the part of the message that is the same at each attempt."""
        super().__init__(message)
        self.advice = advice


def failure(trouble: str, said: Iterable[str], folder: Path, *, otherwise: str = "") -> EmbeddedPostgresError:
    """The error to raise for a trouble, with the advice that fits these lines of log, or else `otherwise`."""
    text = "\n".join(said)
    found = next((advice for sign, advice in _ADVICE if re.search(sign, text)), None)
    if found is None:
        # On a full disk the server may not have been able to log that.
        with suppress(OSError):
            found = _DISK_FULL if free_bytes(folder) < _NO_ROOM_BYTES else None
    advice = otherwise if found is None else found
    return EmbeddedPostgresError(f"{trouble}. {advice}" if advice else trouble, advice)


def free_bytes(folder: Path) -> int:
    """The bytes that an ordinary user may still write. Raises OSError."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
