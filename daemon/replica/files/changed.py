"""Which files have changed since they were last read, and what they say.

Promise: a file is read again when its signature changed. A file whose times are so young that a further change might leave them
as they are is read each time. A file that is still being written waits. Where the store tells hashes, one that is known is not
read at all.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType

from daemon.replica.files.stability import SETTLE_SECONDS, Stability
from daemon.replica.files.texts import FileText, FileTexts
from daemon.replica.folder import NO_SIGNATURE, Entry, Folder, Listing
from memory.replica.document_file import Found, read
from memory.replica.paths import is_document
from memory.replica.sections import marked, read_sections

TRUST_SECONDS = 2.0
"""File systems note times in steps of up to two seconds."""


@dataclass(slots=True)
class Files:
    """The files of a replica as they are now."""

    known: FileTexts = field(default_factory=FileTexts)
    quiet: int = 0
    """The number of files that need nothing: they are taken out of `known`."""
    unread: dict[str, FileText] = field(default_factory=dict)
    """Files that are no text."""
    unknown: set[str] = field(default_factory=set)
    """There is a file, but what it says is not known: it waits, cannot be read, or is no text."""
    waiting: int = 0
    """How many wait until they have settled."""
    pause: float = 0.0
    """Seconds until the next of these may have settled."""
    failed: set[str] = field(default_factory=set)
    """Files that cannot be read."""
    held: set[str] = field(default_factory=set)
    """Files that wait because a program has had them open for long."""


class ChangedFiles:
    """Reads what changed. Blocks: call it in a thread."""

    def __init__(self, folder: Folder, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._folder = folder
        self._settling = Stability(folder, settle_seconds=settle_seconds)
        self._seen = FileTexts()

    @property
    def seen(self) -> FileTexts:
        """All files that were read and are still there, as far as passes have looked."""
        return self._seen

    def files(
        self,
        listing: Listing,
        noted: Mapping[bytes, FileText] = MappingProxyType({}),
        *,
        of: Collection[str] | None = None,
    ) -> Files:
        """What the files of this listing say. `noted`: what files say that were noted, by the SHA-256 of their bytes.

        `of`: the listing has these paths only.
        """
        now, clock = time.time(), time.monotonic()
        found = Files()
        self._settling.begin()
        for path, entry in listing.files.items():
            if not self._seen.is_same(path, entry.signature):
                if not is_document(path):
                    continue
                if entry.hash is not None and entry.hash in noted:
                    self._seen.put(path, noted[entry.hash], entry.signature)
                elif not self._settling.is_settled(path, entry, now=now, clock=clock):
                    found.waiting += 1
                    found.unknown.add(path)
                    if self._settling.is_held(path, clock=clock):
                        found.held.add(path)
                    continue
                elif not self._read(path, entry, found, trusted=_is_trusted(entry, now)):
                    continue
            if self._seen.is_text(path):
                found.known.copy(path, self._seen)
            else:
                found.unread[path] = self._seen[path]
                found.unknown.add(path)
        self._seen.forget_all_but(listing.files, of=of)
        found.pause = self._settling.pause
        return found

    def content(self, path: str, known: FileText) -> Found | None:
        """What a file says that was read; None if it has changed since, or cannot be read."""
        data = self.data(path, known)
        return None if data is None else read(data)

    def data(self, path: str, known: FileText) -> bytes | None:
        """A file that was read; None if it has changed since, or cannot be read."""
        try:
            data = self._folder.read(path)
        except OSError:
            return None
        return data if sha256(data).digest() == known.hash else None

    def _read(self, path: str, entry: Entry, found: Files, *, trusted: bool) -> bool:
        """Whether it could be read."""
        try:
            data = self._folder.read(path)
        except FileNotFoundError:
            return False  # it was deleted meanwhile
        except OSError:
            found.failed.add(path)
            found.unknown.add(path)
            return False
        said, collection = read(data), marked(data)
        known = FileText(
            sha256(data).digest(),
            None if said is None else said.id,
            None if said is None else said.conflict,
            said is not None or (collection is not None and _has_sections(data)),
            collection,
        )
        self._seen.put(path, known, entry.signature if trusted else NO_SIGNATURE)
        return True


def _has_sections(data: bytes) -> bool:
    """A file of entries may be longer than a document: rows that change make it longer after they were placed."""
    return b"\0" not in data and read_sections(data) is not None


def _is_trusted(entry: Entry, now: float) -> bool:
    """Whether its signature would be another one if it changed once more."""
    return entry.hash is not None or now - entry.seconds > TRUST_SECONDS
