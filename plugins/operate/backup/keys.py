"""The private keys outside of a database that belong to it. A backup names them, and has them only on request."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from plugins.operate.backup.archive import BackupError
from plugins.secrets.settings import SecretFields
from plugins.trail.keys import key_file
from providers.regular_files import read_private, write_private

if TYPE_CHECKING:
    from daemon.settings import Settings

_MAX_BYTES = 10_000


def keys_of(settings: Settings) -> dict[str, Path]:
    """The existing key files: of the trail, and of secret fields."""
    return {name: path for name, path in _files(settings).items() if path.is_file()}


def read_keys(files: Mapping[str, Path]) -> dict[str, str]:
    """Their contents for a backup. Raises BackupError."""
    try:
        return {
            name: base64.b64encode(read_private(path, name=f"The key {path}", max_bytes=_MAX_BYTES)).decode()
            for name, path in files.items()
        }
    except (OSError, ValueError) as error:
        raise BackupError(f"A key cannot be read: {error}") from None


def put_back(settings: Settings, keys: Mapping[str, str]) -> list[Path]:
    """Writes the keys of a backup to the files of the settings, unless one exists. Returns the files. Raises OSError."""
    written = []
    for name, path in _files(settings).items():
        if name in keys and not path.exists():
            write_private(path, base64.b64decode(keys[name]))
            written.append(path)
    return written


def _files(settings: Settings) -> dict[str, Path]:
    found = {"trail": key_file(settings), "secrets": settings.section(SecretFields).secrets_key_file}
    return {name: path.expanduser() for name, path in found.items() if path is not None}
