"""Finds the files that changed since they were last read, and reads them.

Promise: a file is read again when its signature changed. A file changed so recently that another change might leave its times
the same is read each time. Where the store gives hashes, a file with a known hash is not read.

A file is read when it is complete: when it has not changed for a second; for a moment, if the system says that no program has
it open for writing; for a minute, while a program has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from plugins.replica.folder import NO_SIGNATURE, Entry, Folder, Listing, Signature
from plugins.replica.rules.document_file import read
from plugins.replica.rules.paths import is_document
from plugins.replica.rules.sections import marked, read_sections

TRUST_SECONDS = 2.0
"""File systems note times in steps of up to two seconds."""
SETTLE_SECONDS = 1.0
"""A file that changed more recently may still be written."""
QUICK_SECONDS = 0.2
"""The same, for a file that no program has open."""
OPEN_SECONDS = 60.0
"""The same, for a file that is open for writing."""


@dataclass(frozen=True, slots=True)
class FileText:
    hash: bytes
    id: UUID | None = None
    """The document that it names."""
    conflict: UUID | None = None
    """The conflict that it names."""
    is_text: bool = True
    collection: UUID | None = None
    """The collection of entries that it names."""


@dataclass(slots=True)
class Files:
    known: dict[str, FileText] = field(default_factory=dict)
    unread: dict[str, FileText] = field(default_factory=dict)
    """Files that are not text."""
    unknown: set[str] = field(default_factory=set)
    """Files whose content is not known: they wait, cannot be read, or are not text."""
    pause: float | None = None
    """Seconds until the first waiting file may be complete; None: none waits."""
    failed: set[str] = field(default_factory=set)
    """Files that cannot be read."""


class ChangedFiles:
    """Reads what changed. Blocks: call it in a thread."""

    def __init__(self, folder: Folder, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._folder = folder
        self._settle = settle_seconds
        self._seen: dict[str, tuple[Signature, FileText]] = {}
        self._waiting: dict[str, tuple[Signature, float]] = {}
        """Recently changed files, and the time of their last change by the monotonic clock."""

    def files(self, listing: Listing, noted: Mapping[bytes, FileText]) -> Files:
        """Reads the files of this listing. `noted`: contents of noted files, by the SHA-256 of their bytes."""
        now, clock = time.time(), time.monotonic()
        found = Files()
        seen, self._seen = self._seen, {}
        waiting, self._waiting = self._waiting, {}
        for path, entry in listing.files.items():
            one = seen.get(path)
            if one is None or one[0] != entry.signature:
                if not is_document(path):
                    continue
                if entry.hash is not None and entry.hash in noted:
                    one = entry.signature, noted[entry.hash]
                elif (pause := self._pause(path, entry, waiting.get(path), now, clock)) > 0:
                    found.pause = min(pause, found.pause or pause)
                    found.unknown.add(path)
                    continue
                elif (said := self._read(path, found)) is None:
                    continue
                else:
                    # Whether another change of the file would change its signature.
                    is_old = entry.hash is not None or now - entry.seconds > TRUST_SECONDS
                    one = entry.signature if is_old else NO_SIGNATURE, said
            self._seen[path] = one
            if one[1].is_text:
                found.known[path] = one[1]
            else:
                found.unread[path] = one[1]
                found.unknown.add(path)
        return found

    def data(self, path: str, known: FileText) -> bytes | None:
        """A file that was read; None if it has changed since, or cannot be read."""
        try:
            data = self._folder.read(path)
        except OSError:
            return None
        return data if sha256(data).digest() == known.hash else None

    def _pause(
        self, path: str, entry: Entry, before: tuple[Signature, float] | None, now: float, clock: float
    ) -> float:
        """Seconds until a changed file may be complete; 0 or less: it is."""
        age = now - entry.seconds
        if entry.hash is not None or age >= OPEN_SECONDS:
            return 0.0
        since = before[1] if before is not None and before[0] == entry.signature else clock
        self._waiting[path] = entry.signature, since
        # Its time may be wrong, or in the future: then count how long it has stayed the same.
        still = max(age, clock - since)
        is_open = self._folder.is_open_for_writing(path)
        if is_open and still < OPEN_SECONDS:
            return min(OPEN_SECONDS - still, SETTLE_SECONDS)
        return (self._settle if is_open is None else min(QUICK_SECONDS, self._settle)) - still

    def _read(self, path: str, found: Files) -> FileText | None:
        """Its content; None if it cannot be read."""
        try:
            data = self._folder.read(path)
        except FileNotFoundError:
            # It was deleted after the listing: the next pass does not find it there.
            found.unknown.add(path)
            return None
        except OSError:
            found.failed.add(path)
            found.unknown.add(path)
            return None
        said, collection = read(data), marked(data)
        # A file of entries may be longer than a document's: its rows grow after they were placed.
        has_sections = (
            said is None and collection is not None and b"\0" not in data and bool(read_sections(data))
        )
        names = (None, None) if said is None else (said.id, said.conflict)
        return FileText(sha256(data).digest(), *names, said is not None or has_sections, collection)
