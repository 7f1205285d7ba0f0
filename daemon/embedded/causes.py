"""Why the embedded Postgres ended or does not start, and what to do about it: found in its log, on its disk and in the kernel.

Promise: each cause has one sentence that says what to do, and none of them risks the data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Cause = Literal[
    "disk_full", "out_of_memory", "corrupted", "port_taken", "not_permitted", "stopped", "killed", "other"
]
"""Why a server ended or does not start."""

NO_ROOM_BYTES = 32_000_000
"""With less than that Postgres can hardly make its next file of write-ahead log, of 16 MB."""

ADVICE: Mapping[Cause, str] = MappingProxyType(
    {
        "disk_full": "The disk is full. Make room on it; nothing committed is lost.",
        "out_of_memory": "The machine is short of memory. Give it more, or end what takes it; nothing committed is lost.",
        "corrupted": "Its files are damaged. Keep a copy of the data folder and restore a backup; "
        "pg_resetwal and deleting files lose data.",
        "port_taken": "Another program has its port. End that program, or set MEMORYD_POSTGRES_PORT to another.",
        "not_permitted": "It may not read or write its own files. See which user the data folder belongs to.",
        "stopped": "It was shut down. You need do nothing.",
        "killed": "Its process was killed. You need do nothing.",
        "other": "See postgres.log in the data folder.",
    }
)

_DAMAGE = (
    r"could not locate a valid checkpoint record|invalid (primary )?checkpoint|could not locate required checkpoint|"
    r"incorrect checksum in control file|pg_control|invalid page in block|is not a valid data directory|WAL ends before|"
    r"(PANIC|FATAL):  could not (open|read|access).*: (No such file|read \d+ of)"
)
# In this order: a full disk also damages, and whatever happens ends in a shutdown.
_SIGNS: tuple[tuple[Cause, str], ...] = (
    ("disk_full", r"No space left on device|Disk quota exceeded|File too large"),
    ("out_of_memory", r"out of memory|Cannot allocate memory|could not map anonymous shared memory"),
    ("corrupted", _DAMAGE),
    ("port_taken", r"could not create any TCP/IP sockets|Address already in use"),
    ("not_permitted", r"Permission denied|Operation not permitted|invalid permissions|has wrong ownership"),
    ("stopped", r"received (smart|fast|immediate) shutdown request"),
)
_BEGINNING = "starting PostgreSQL"


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot do what was asked; the message says what to do next."""

    def __init__(self, message: str, cause: Cause = "other") -> None:
        super().__init__(message)
        self.cause: Cause = cause


def cause_of(lines: Iterable[str], folder: Path) -> Cause:
    """The cause that these lines tell, of the server's log or of its programs.

    A server on a full disk may not have been able to write them. So where they tell no cause, the disk is looked at.
    """
    text = "\n".join(lines)
    for cause, sign in _SIGNS:
        if re.search(sign, text):
            return cause
    return "disk_full" if is_full(folder) else "other"


def failure(trouble: str, said: Iterable[str], folder: Path) -> EmbeddedPostgresError:
    """The error to raise for a trouble, with what to do where these lines tell its cause."""
    cause = cause_of(said, folder)
    return EmbeddedPostgresError(trouble if cause == "other" else f"{trouble}. {ADVICE[cause]}", cause)


def cause_of_end(log: str, folder: Path) -> Cause:
    """Why the last server that wrote this log ended; "killed" where it had no time to say it."""
    last = log[log.rfind(_BEGINNING) :] if _BEGINNING in log else log
    cause = cause_of(last.splitlines()[-50:], folder)
    return "killed" if cause == "other" else cause


def is_full(folder: Path) -> bool:
    """Whether the disk has no room left for the server."""
    with suppress(OSError):
        return free_bytes(folder) < NO_ROOM_BYTES
    return False


def free_bytes(folder: Path) -> int:
    """What an ordinary user may still write. Raises OSError."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def killed_for_memory() -> int:
    """How many processes the kernel has ended because memory ran out, as far as it counts them."""
    count = 0
    for path in (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat")):
        with suppress(OSError):
            found = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
            count += int(found[1]) if found else 0
    return count
