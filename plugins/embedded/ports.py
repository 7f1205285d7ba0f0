"""Where the embedded Postgres listens: its port on 127.0.0.1, and the folder of its unix socket.

Promise: the port of the last time is kept where it is free, and the socket's path is never longer than the system takes.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from plugins.embedded.files import Folder, read_in

USUAL_PORT = 54329
FILE = "port"
_SOCKET_PATH_BYTES = 103  # macOS has the shortest limit: 104 bytes with the closing zero


def remembered_port(folder: Path) -> int | None:
    """The port of the last start; None before the first."""
    with suppress(ValueError):
        return int(read_in(folder, FILE) or "")
    return None


def remember_port(folder: Folder, port: int) -> None:
    """For the next start."""
    folder.write(FILE, f"{port}\n")


def ports_to_try(folder: Path, wanted: int | None, *, same: bool) -> Iterator[int]:
    """The ports to try, each of them free when it is handed out; `same`: only that of the last time."""
    last = remembered_port(folder)
    only = last if same and last is not None else wanted
    for port in (last, USUAL_PORT) if only is None else (only,):
        if port is not None and _is_free(port):
            yield port
    for _ in range(3 if only is None else 0):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        yield port


def socket_folder(folder: Path) -> Path:
    """Where the socket of this data folder is: in it, or beside other temporary files where its path would be too long."""
    inside = folder / "run"
    path = str(inside / ".s.PGSQL.65535")
    if len(path) <= _SOCKET_PATH_BYTES and re.fullmatch(r"[^,\"'\\\x00-\x1f\x7f-\U0010ffff]+", path):
        return inside
    name = f"memoryd-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"
    return Path(tempfile.gettempdir()).resolve() / name


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
