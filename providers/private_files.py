"""Files with keys: only their owner may read them, and they are written whole or not at all.

Promise: no message contains what is in a file.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from providers.regular_files import open_regular


def read_private(path: Path, *, name: str, max_bytes: int) -> bytes:
    """The first bytes of the file. Raises OSError, and ValueError where others may read it; `name` begins the sentence."""
    with open_regular(path) as file:
        # Of the file that is open: its name may be given to another one meanwhile.
        about = os.fstat(file.fileno())
        if stat.S_IMODE(about.st_mode) & 0o077:
            raise ValueError(f"{name} can be read by other accounts. Run: chmod 600 {path}")
        if about.st_uid not in (os.geteuid(), 0):
            raise ValueError(f"{name} belongs to another account. Give it to the daemon's account.")
        return file.read(max_bytes)


def write_private(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Writes a file for its owner alone. Raises OSError; FileExistsError unless it may `replace` what is there."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")  # in containers, processes have one id
    try:
        with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            beside.replace(path)
        else:
            os.link(beside, path)
        _sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """So that the name, too, is there after the machine has lost power."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
