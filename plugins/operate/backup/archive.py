"""The file of a backup: pg_dump's custom format, followed by memoryd's manifest.

    what pg_dump wrote               pg_restore reads it without memoryd
    the manifest                     JSON in UTF-8
    its length, its SHA-256, MAGIC   8, 32 and 16 bytes: the end of every whole file

Promise: a file that is cut, changed, or of a later format is refused before anything is restored from it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from daemon.cli.failure import Failure
from providers.regular_files import open_regular

MAGIC = b"memoryd backup 1"
_TAIL = 8 + 32 + len(MAGIC)
_BLOCK = 1 << 20
_LONGEST = 1 << 28
"""Bytes of a manifest."""


class BackupError(Failure):
    """A backup cannot be made, read or restored; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role that grants or policies of the database name, or a member of one."""

    name: str
    login: bool
    member_of: Sequence[str]


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a database at one moment."""

    rows: Mapping[str, int]
    """By table, `schema.name`."""
    catalog: Mapping[str, str]
    """The hash of the definition of each object, by kind and name. See daemon/db/catalog.py."""
    roles: Sequence[Role]
    postgres: int
    """Its server_version_num."""
    vector_schema: str
    migration: int
    embedder: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """memoryd's description of a dump."""

    memoryd: str
    made_at: str
    contents: Contents
    bytes: int
    sha256: str
    keys: Mapping[str, str] = field(default_factory=dict)
    """Requested private keys: the name of each file, and its content in base64."""
    keys_left_out: Sequence[str] = ()


_MANIFEST = TypeAdapter(Manifest)


def write_end(file: BinaryIO, manifest: Manifest) -> None:
    """Writes the end of the file, after the dump."""
    said = _MANIFEST.dump_json(manifest)
    file.seek(0, os.SEEK_END)
    file.write(said + len(said).to_bytes(8, "big") + hashlib.sha256(said).digest() + MAGIC)


def read_manifest(path: Path) -> Manifest:
    """The manifest of a file, after all of the file was checked. Raises BackupError, OSError."""
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read()
        if not tail.endswith(MAGIC):
            if tail[-len(MAGIC) :].startswith(MAGIC[:-1]):
                raise BackupError(f"{path} was made by a later memoryd. Upgrade memoryd, then try again.")
            raise BackupError(
                f"{path} is not a complete backup of memoryd: its end is missing. Take another one."
            )
        damaged = BackupError(
            f"{path} is damaged: it differs from the file that memoryd backup wrote. Take another one."
        )
        length = int.from_bytes(tail[:8], "big")
        dumped = size - _TAIL - length
        if dumped < 0 or length > _LONGEST:
            raise damaged
        file.seek(dumped)
        said = file.read(length)
        if hashlib.sha256(said).digest() != tail[8:40]:
            raise damaged
        try:
            manifest = _MANIFEST.validate_json(said)
        except ValidationError:
            raise damaged from None
        if manifest.bytes != dumped or checksum(file, dumped) != manifest.sha256:
            raise damaged
    return manifest


def checksum(file: BinaryIO, size: int) -> str:
    """The SHA-256 of the first `size` bytes, in hex."""
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0 and (block := file.read(min(_BLOCK, size))):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest()
