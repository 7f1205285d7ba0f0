"""Secrets of ledgers: from the environment, or from a file that nobody else can read.

Promise: no message contains a secret, or a part of one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

MAX_BYTES = 10_000


class Secret(Protocol):
    """A setting that is not shown."""

    def get_secret_value(self) -> str:
        """The value."""
        ...


def read_secret(value: Secret | None, path: Path | None, *, setting: str) -> str | None:
    """The value, or what stands in the file; None if there is neither.

    `setting` names the variable of the value; that of the file is the same with _FILE. Raises ValueError.
    """
    if value is not None and path is not None:
        raise ValueError(f"both {setting} and {setting}_FILE are set: unset one of them")
    if value is not None:
        return value.get_secret_value().strip() or None
    return None if path is None else _read(path, f"{setting}_FILE")


def _read(path: Path, setting: str) -> str:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in (os.geteuid(), 0):
                raise ValueError(
                    f"the file of {setting} belongs to another user: it must be yours, or root's"
                )
            if status.st_mode & 0o077:
                raise ValueError(f"others can use the file of {setting}: run chmod 600 on it")
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the file of {setting} cannot be read: {error.strerror}") from None
    try:
        text = content.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or len(content) > MAX_BYTES:
        raise ValueError(f"the file of {setting} holds no key: it must be one line of text")
    return text
