"""What one pass over the replica knows and counts, and how it writes files: a failure is counted and stops no other file."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from uuid import UUID

from daemon.replica.changed_files import ChangedFiles, Files, FileText
from daemon.replica.folder import Changed, Folder, Listing
from daemon.replica.store.documents import Base, Store
from memory.replica.document_file import Found
from memory.replica.paths import key
from memory.replica.sections import Sections, read_sections

SETTLE_PAUSE_SECONDS = 0.3
FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))
"""Errors after which no other file can be written either."""


class LeftOut(Enum):
    """Why a file stays as it is, and what to do about it; for a person."""

    NAME = "Its name is no text (UTF-8). Rename it."
    NO_TEXT = "It is empty, no text (UTF-8), or longer than 10 MB."
    UNREADABLE = "It cannot be read. Give the daemon's account the right to."
    REFUSED = "The database does not take its text, or that of a section. It may be too long: split it."
    CHUNKS = (
        "It is made of chunks that a program writes: what is changed in it has no effect. Undo the change."
    )
    COPY = "It is a copy of a file of entries. Delete it, or move its sections into the other file."


@dataclass(slots=True)
class Report:
    """What a pass did."""

    counts: Counter[str] = field(default_factory=Counter)
    """written, taken, added, moved, deleted, removed, erased, conflicts, resolved"""
    again: bool = False
    """There is more to do at once."""
    waits: bool = False
    """Something has to settle first."""
    pause: float = SETTLE_PAUSE_SECONDS
    """Seconds until then, most likely."""
    asked: int = 0
    """Files that are gone, and a person is asked about."""
    asked_entries: int = 0
    """Entries whose sections are gone, and a person is asked about."""
    refused: int = 0
    """Files whose content the database refused."""
    not_text: int = 0
    """Files that are no text, are empty, too long, or cannot be read."""
    copies: int = 0
    """Copies of files of entries."""
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    """Files that stay as they are, and nothing comes of them."""
    failures: int = 0
    error: OSError | None = None
    """The last failure to write."""


@dataclass(slots=True)
class PassState:
    """What a pass knows."""

    listing: Listing
    files: Files
    bases: dict[UUID, Base]
    """The documents' own files."""
    conflicts: dict[UUID, Base]
    """The files of conflicts."""
    expected: Collection[str]
    """The paths of all files that are known."""
    paths: dict[UUID, str] = field(default_factory=dict)
    """Where the file of each of these documents is now."""
    homes: dict[UUID, str] = field(default_factory=dict)
    """The names of the folders of users who get a new file."""
    report: Report = field(default_factory=Report)
    _taken: set[str] | None = None

    @property
    def taken(self) -> set[str]:
        """Keys of paths in use, computed when one is asked for: most passes need none."""
        if self._taken is None:
            listing = self.listing
            paths = chain(listing.files, listing.folders, listing.unread, self.expected)
            self._taken = {key(path) for path in paths}
        return self._taken

    def is_unseen(self, base: Base | None) -> bool:
        """Whether the text of a file that is gone had none yet, or another file took its place: nobody may have seen it.

        So it is when files were moved, and a program then saves what it had open. Who moves the file of a conflict over the
        document's own takes its text.
        """
        if base is None or base.path not in self.listing.files:
            return base is None
        there = self.files.known.get(base.path)
        over = None if there is None or there.conflict is None else self.conflicts.get(there.conflict)
        return over is None or base.conflict is not None or over.document != base.document

    def known(self, document: UUID) -> FileText | None:
        """The file of a document."""
        path = self.paths.get(document)
        return None if path is None else self.files.known.get(path)


class Writer:
    """Writes files, while the lease lasts."""

    def __init__(self, folder: Folder, store: Store, reading: ChangedFiles) -> None:
        self._folder = folder
        self._store = store
        self._reading = reading

    async def content(self, state: PassState, path: str, file: FileText) -> Found | None:
        """What a file says that was read; None if it has changed since: then there is a further pass."""
        said = await asyncio.to_thread(self._reading.content, path, file)
        state.report.again |= said is None
        return said

    async def sections(self, state: PassState, path: str, file: FileText) -> Sections | None:
        """The sections of a file that was read; None if it has changed since: then there is a further pass."""
        data = await asyncio.to_thread(self._reading.data, path, file)
        state.report.again |= data is None
        return None if data is None else read_sections(data)

    async def write(self, state: PassState, path: str, content: bytes, *, replaces: bytes | None) -> bool:
        """Whether the file is written."""
        return await self._attempt(state, lambda: self._folder.write(path, content, replaces=replaces))

    async def remove(self, state: PassState, path: str, *, replaces: bytes, for_good: bool = False) -> bool:
        """Whether the file is deleted."""
        return await self._attempt(
            state, lambda: self._folder.remove(path, replaces=replaces, for_good=for_good), frees=True
        )

    async def move(self, state: PassState, path: str, to: str, *, replaces: bytes) -> bool:
        """Whether the file has its new path."""
        return await self._attempt(state, lambda: self._folder.move(path, to, replaces=replaces))

    async def _attempt(self, state: PassState, work: Callable[[], None], *, frees: bool = False) -> bool:
        report = state.report
        if not frees and report.error is not None and report.error.errno in FULL:
            report.failures += 1
            return False
        self._store.require_lease()
        try:
            await asyncio.to_thread(work)
        except Changed:
            report.again = True
            return False
        except OSError as error:
            report.failures += 1
            report.error = error
            return False
        return True
