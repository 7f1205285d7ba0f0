"""Which files have changed since they were last read, and what they say.

Promise: a file is read again when its signature changed. A file whose times are so young that a further change might leave them
as they are is read each time. A file that is still being written waits. Where the store tells hashes, one that is known is not
read at all.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from uuid import UUID

from daemon.replica.folder import Entry, Folder, Listing, Signature
from memory.replica_names import is_document
from memory.replica_sections import marked, read_sections
from memory.replica_text import Found, read

SETTLE_SECONDS = 1.0
"""A file that changed more recently may still be written."""
TRUST_SECONDS = 2.0
"""File systems note times in steps of up to two seconds."""


@dataclass(frozen=True, slots=True)
class Known:
    """A file that was read."""

    hash: bytes
    id: UUID | None
    """The document that it names."""
    conflict: UUID | None
    """The conflict that it names."""
    is_text: bool
    collection: UUID | None = None
    """The collection of entries that it names."""


@dataclass(slots=True)
class Files:
    """The files of a replica as they are now."""

    known: dict[str, Known] = field(default_factory=dict)
    unread: dict[str, Known] = field(default_factory=dict)
    """Files that are no text."""
    unknown: set[str] = field(default_factory=set)
    """There is a file, but what it says is not known: it waits, cannot be read, or is no text."""
    waiting: int = 0
    """How many wait until they have settled."""
    not_text: int = 0
    failed: int = 0


class Reading:
    """Reads what changed. Blocks: call it in a thread."""

    def __init__(self, folder: Folder, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._folder = folder
        self._settle = settle_seconds
        self._seen: dict[str, tuple[Signature, Known]] = {}
        self._changing: dict[str, tuple[Signature, float]] = {}

    def files(
        self, listing: Listing, expected: Iterable[str], noted: Mapping[bytes, Known] = MappingProxyType({})
    ) -> Files:
        """What the files of this listing say. `expected`: the paths of files that were there before.

        `noted`: what files say that were read or written before, by the SHA-256 of their bytes.
        """
        now, clock = time.time(), time.monotonic()
        found = Files()
        seen: dict[str, tuple[Signature, Known]] = {}
        changing: dict[str, tuple[Signature, float]] = {}
        for path, entry in listing.files.items():
            if not is_document(path):
                continue
            before = self._seen.get(path)
            if before is not None and before[0] == entry.signature:
                seen[path] = before
            elif entry.hash is not None and entry.hash in noted:
                seen[path] = entry.signature, noted[entry.hash]
            elif self._is_settled(path, entry, changing, now=now, clock=clock):
                self._read(path, entry, found, seen, trusted=_is_trusted(entry, now))
            else:
                found.waiting += 1
                found.unknown.add(path)
            if path in seen:
                known = seen[path][1]
                if known.is_text:
                    found.known[path] = known
                else:
                    found.not_text += 1
                    found.unread[path] = known
                    found.unknown.add(path)
        self._seen = {path: one for path, one in seen.items() if one[0]}
        self._changing = changing
        found.unknown.update(path for path in expected if listing.is_unknown(path))
        return found

    def content(self, path: str, known: Known) -> Found | None:
        """What a file says that was read; None if it has changed since, or cannot be read."""
        data = self.data(path, known)
        return None if data is None else read(data)

    def data(self, path: str, known: Known) -> bytes | None:
        """A file that was read; None if it has changed since, or cannot be read."""
        try:
            data = self._folder.read(path)
        except OSError:
            return None
        return data if sha256(data).digest() == known.hash else None

    def _is_settled(
        self,
        path: str,
        entry: Entry,
        changing: dict[str, tuple[Signature, float]],
        *,
        now: float,
        clock: float,
    ) -> bool:
        if entry.hash is not None or now - entry.modified.timestamp() >= self._settle:
            return True
        # Its time may be wrong, or in the future: what counts then is how long it has stayed the same.
        signature, since = self._changing.get(path, (entry.signature, clock))
        if signature != entry.signature:
            since = clock
        changing[path] = entry.signature, since
        return clock - since >= self._settle

    def _read(
        self,
        path: str,
        entry: Entry,
        found: Files,
        seen: dict[str, tuple[Signature, Known]],
        *,
        trusted: bool,
    ) -> None:
        try:
            data = self._folder.read(path)
        except FileNotFoundError:
            return  # it was deleted meanwhile
        except OSError:
            found.failed += 1
            found.unknown.add(path)
            return
        said, collection = read(data), marked(data)
        known = Known(
            sha256(data).digest(),
            None if said is None else said.id,
            None if said is None else said.conflict,
            said is not None or (collection is not None and _has_sections(data)),
            collection,
        )
        seen[path] = (entry.signature if trusted else ()), known


def _has_sections(data: bytes) -> bool:
    """A file of entries may be longer than a document: rows that change make it longer after they were placed."""
    return b"\0" not in data and read_sections(data) is not None


def _is_trusted(entry: Entry, now: float) -> bool:
    """Whether its signature would be another one if it changed once more."""
    return entry.hash is not None or now - entry.modified.timestamp() > TRUST_SECONDS
