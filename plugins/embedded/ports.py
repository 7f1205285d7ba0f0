"""Where the embedded Postgres listens: its port on 127.0.0.1, and the folder of its unix socket.

Promise: the port of the last start is used again if it is free. The socket's path is never too long for the system.
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
    folder.write(FILE, f"{port}\n")


def ports_to_try(folder: Path, wanted: int | None, *, same: bool) -> Iterator[int]:
    """The ports to try, each free when it is returned. `same`: only the port of the last start."""
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
    """The folder of the socket: in the data folder, or among temporary files if its path would be too long."""
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
