"""The private keys that belong to a database and lie outside of it. A backup names them; it has them only if it is asked to."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.backup.archive import BackupError
from daemon.trail.keys import key_file
from providers.private_files import read_private, write_private

if TYPE_CHECKING:
    from daemon.settings import Settings

_MAX_BYTES = 10_000


def keys_of(settings: Settings) -> dict[str, Path]:
    """The files that are there: of the trail, and of secret fields."""
    return {name: path for name, path in _files(settings).items() if path.is_file()}


def read_keys(files: Mapping[str, Path]) -> dict[str, str]:
    """What is in them, as a backup has it. Raises BackupError."""
    try:
        return {
            name: base64.b64encode(read_private(path, name=f"The key {path}", max_bytes=_MAX_BYTES)).decode()
            for name, path in files.items()
        }
    except (OSError, ValueError) as error:
        raise BackupError(f"A key cannot be read: {error}") from None


def put_back(settings: Settings, keys: Mapping[str, str]) -> list[Path]:
    """Writes the keys of a backup where the settings expect them, unless there is one. Returns the files. Raises OSError."""
    written = []
    for name, path in _files(settings).items():
        if name in keys and not path.exists():
            write_private(path, base64.b64decode(keys[name]))
            written.append(path)
    return written


def _files(settings: Settings) -> dict[str, Path]:
    found = {"trail": key_file(settings), "secrets": settings.secrets_key_file}
    return {name: path.expanduser() for name, path in found.items() if path is not None}
