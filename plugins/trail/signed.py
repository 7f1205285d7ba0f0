"""The last checkpoint that this machine signed, in a file beside the signing key.

Promise: a checkpoint is in the file before anybody else can have it. So a restarted daemon signs only a continuation of it,
also if the database was changed meanwhile. A file is written completely or not at all.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from plugins.trail.rules.note import BadNote, Checkpoint, Note
from providers.private_files import read_private, write_private

MAX_BYTES = 10_000


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
        return None if path is None else await asyncio.to_thread(_read, path)

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


def _read(path: Path) -> Checkpoint | None:
    try:
        content = read_private(path, name=f"the file {path}", max_bytes=MAX_BYTES)
        return Checkpoint.parse(Note.parse(content.decode()).text)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}") from None
    except (BadNote, UnicodeDecodeError):
        raise ValueError(f"the file {path} has no checkpoint") from None
