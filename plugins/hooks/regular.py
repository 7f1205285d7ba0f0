"""Reads files that others choose: a hook never waits for a named pipe or an endless file."""

from __future__ import annotations

import os

from providers.regular_files import open_regular


def read_text(path: str, most: int, *, end: bool = False) -> str:
    """The first or last `most` bytes of a regular file as text; "" for no such file."""
    try:
        with open_regular(path) as file:
            if end:
                file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most).decode(errors="replace")
    except (OSError, ValueError):
        return ""
