"""The file of a backup: an archive of pg_dump's custom format, and after it what memoryd says of it.

    the archive                      pg_restore reads it without memoryd
    the manifest                     JSON in UTF-8
    its length, its SHA-256, MAGIC   8, 32 and 16 bytes: the end of every whole file

Promise: a file that is cut off, changed, or of a later format is refused before anything is restored from it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"memoryd backup 1"
_BEGINNING = b"memoryd backup "
_TAIL = 8 + 32 + len(MAGIC)
_MAX_MANIFEST = 100_000_000
BLOCK = 1 << 20


class BackupError(Exception):
    """A backup cannot be made, read or restored; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role that grants or policies of the database name, or a member of one."""

    name: str
    login: bool
    member_of: Sequence[str]


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a database, at one moment."""

    rows: Mapping[str, int]
    """By table, `schema.name`."""
    catalog: Mapping[str, str]
    """What the database is made of, by kind and name: a hash of the definition. See daemon/db/catalog.py."""
    roles: Sequence[Role]
    postgres: int
    """Its server_version_num."""
    vector_schema: str
    migration: int
    embedder: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What memoryd says of an archive."""

    memoryd: str
    made_at: str
    contents: Contents
    bytes: int
    sha256: str
    keys: Mapping[str, str] = field(default_factory=dict)
    """Private keys that were asked for: name of the file, and what is in it."""
    keys_left_out: Sequence[str] = ()


def write_end(file: BinaryIO, manifest: Manifest) -> None:
    """Writes what comes after the archive."""
    said = json.dumps(asdict(manifest), sort_keys=True).encode()
    file.write(said + len(said).to_bytes(8, "big") + hashlib.sha256(said).digest() + MAGIC)


def read_manifest(path: Path) -> Manifest:
    """What the file says of itself. Raises BackupError, OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read()
        magic = tail[-len(MAGIC) :]
        if magic != MAGIC:
            if magic.startswith(_BEGINNING):
                raise BackupError(f"{path} was made by a later memoryd. Upgrade memoryd, then try again.")
            raise BackupError(f"{path} is no whole backup of memoryd: its end is missing. Take another one.")
        length = int.from_bytes(tail[:8], "big")
        if length > min(size - _TAIL, _MAX_MANIFEST):
            raise BackupError(_damaged(path))
        file.seek(size - _TAIL - length)
        said = file.read(length)
    if hashlib.sha256(said).digest() != tail[8:40]:
        raise BackupError(_damaged(path))
    manifest = _manifest(json.loads(said))
    if manifest.bytes != size - _TAIL - length:
        raise BackupError(_damaged(path))
    return manifest


def check_archive(path: Path, manifest: Manifest, *, tell: Callable[[int], None]) -> None:
    """Compares the archive with its checksum; `tell` is told how many bytes were read. Raises BackupError, OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = manifest.bytes
        while left and (block := file.read(min(BLOCK, left))):
            digest.update(block)
            left -= len(block)
            tell(len(block))
    if left or digest.hexdigest() != manifest.sha256:
        raise BackupError(_damaged(path))


def _damaged(path: Path) -> str:
    return f"{path} is damaged: it is not what memoryd backup wrote. Take another one."


def _manifest(said: dict[str, Any]) -> Manifest:
    contents = said.pop("contents")
    roles = tuple(Role(**role) for role in contents.pop("roles"))
    return Manifest(**said, contents=Contents(**contents, roles=roles))
