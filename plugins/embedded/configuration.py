"""The settings of the embedded Postgres, written at each start.

Promise: nothing here ever trades durability for speed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from plugins.embedded.files import Folder

FILE = "memoryd.conf"
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "127.0.0.1",
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "shared_buffers": "256MB",
        "work_mem": "16MB",
        "maintenance_work_mem": "256MB",
        "max_wal_size": "2GB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "jit": "off",
        "autovacuum_naptime": "10s",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_checkpoints": "off",
        # Messages of errors quote values, and statements and details contain memories: none of these belong in a log. The
        # reason why a server does not start or was ended is logged as LOG, FATAL or PANIC, and so is memoryd's own audit.
        "log_min_messages": "log",
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
    }
)
"""For a small machine. fsync, full_page_writes and synchronous_commit keep their default, on."""

_SHARED_MEMORY_BYTES = 512_000_000


def write_configuration(
    cluster: Folder, settings: Mapping[str, str], *, sockets: Path, port: int, owner: tuple[int, int] | None
) -> None:
    """Writes the file that the cluster's own configuration includes."""
    given = {**settings, "port": str(port), "unix_socket_directories": str(sockets)}
    with suppress(OSError):
        shared = os.statvfs("/dev/shm")  # noqa: S108 - only its size: containers often give it 64 MB
        if shared.f_frsize * shared.f_blocks < _SHARED_MEMORY_BYTES:
            given.setdefault("dynamic_shared_memory_type", "sysv")
    escaped = {name: value.replace("\\", "\\\\").replace("'", "''") for name, value in given.items()}
    lines = [f"{name} = '{value}'\n" for name, value in escaped.items()]
    text = "".join(["# Written by memoryd at each start; ALTER SYSTEM overrides it.\n", *lines])
    cluster.write(FILE, text, owner=owner)
