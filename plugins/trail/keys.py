"""The key that signs checkpoints: from the environment, or from a file that nobody else may read. Beside the file: the last
checkpoint that this machine signed.

Promise: the key is never logged, stored in the database, or quoted in an error. A checkpoint is in its file before anybody else
can have it, so a restarted daemon signs only a continuation of it, also if the database was changed meanwhile. A file is
written completely or not at all.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from structlog.typing import FilteringBoundLogger

from daemon.settings import Settings
from daemon.settings.values import file_of
from plugins.trail.rules.note import BadNote, Checkpoint, Note
from plugins.trail.settings import Trail
from providers.regular_files import read_private, write_private

FILE = "trail.key"
"""In the data folder of the embedded Postgres."""
MAX_BYTES = 10_000


def key_file(settings: Settings) -> Path | None:
    """The file of the key; None if the settings have the key itself, or no key."""
    key = settings.section(Trail).trail_key
    if key is not None:
        return file_of(key)
    return settings.data_dir.expanduser() / FILE if settings.database_url is None else None


def signing_key(settings: Settings, *, make: bool = False) -> Ed25519PrivateKey | None:
    """The key that the settings name, or None.

    `make`: with the embedded Postgres, makes a key if there is none. Raises ValueError with what to do.
    """
    path, key = key_file(settings), settings.section(Trail).trail_key
    if key is not None and path is None:
        return _parse(key.get_secret_value().replace("\\n", "\n"), "MEMORYD_TRAIL_KEY")
    if path is None:
        return None
    if key is None and not path.exists():
        if not make:
            return None
        with suppress(FileExistsError):  # another process has made it
            make_key(path)
    return _read(path)


def make_key(path: Path) -> Ed25519PrivateKey:
    """Writes a new key to a new file. Raises OSError, FileExistsError."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(path, pem)
    return key


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        text = read_private(path, name=f"The key {path}", max_bytes=MAX_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise ValueError(
            f"The key {path} cannot be read: {error.strerror}. Make one with: memoryd anchors new-key {path}"
        ) from None
    return _parse(text, str(path))


def _parse(text: str, where: str) -> Ed25519PrivateKey:
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(text.encode(), password=None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise ValueError(
        f"{where} is not a private key in PEM for Ed25519. Make one with: memoryd anchors new-key FILE"
    )


class SignatureStore:
    """Stores the last checkpoint of each trail that the key of a file signed."""

    def __init__(self, key_file: Path | None, logger: FilteringBoundLogger) -> None:
        """`key_file` None: the key is in no file, and nothing is kept."""
        self._key_file = key_file
        self._log = logger
        self._told = False

    def file_of(self, trail: UUID) -> Path | None:
        """The file of a trail: a key may sign the trails of several databases."""
        if self._key_file is None:
            return None
        return self._key_file.with_name(f"{self._key_file.name}.{trail}.signed")

    async def read(self, trail: UUID) -> Checkpoint | None:
        """The last checkpoint, or None. Raises ValueError if the file cannot be read."""
        path = self.file_of(trail)
        return None if path is None else await asyncio.to_thread(_read_checkpoint, path)

    async def keep(self, trail: UUID, note: Note) -> None:
        """Writes a checkpoint. If the folder cannot be written, that is logged once, and signing continues."""
        path = self.file_of(trail)
        if path is None:
            return
        try:
            await asyncio.to_thread(write_private, path, str(note).encode(), replace=True)
        except OSError as error:
            if not self._told:
                self._told = True
                self._log.warning("checkpoint_not_kept", file=str(path), reason=error.strerror)


def _read_checkpoint(path: Path) -> Checkpoint | None:
    try:
        content = read_private(path, name=f"the file {path}", max_bytes=MAX_BYTES)
        return Checkpoint.parse(Note.parse(content.decode()).text)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}") from None
    except (BadNote, UnicodeDecodeError):
        raise ValueError(f"the file {path} has no checkpoint") from None
