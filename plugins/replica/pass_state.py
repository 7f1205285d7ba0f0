"""The state and the counts of one pass over the replica, and its writer: a failure is counted and stops no other file."""

from __future__ import annotations

import asyncio
import errno
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import TypeVar
from uuid import UUID

from plugins.replica.changed_files import ChangedFiles, Files, FileText
from plugins.replica.folder import Folder, Listing, StaleFile
from plugins.replica.rules.paths import key
from plugins.replica.store.documents import Base, Conflict, Store

T = TypeVar("T")

SETTLE_PAUSE_SECONDS = 0.3
FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))
"""Errors after which no other file can be written either."""


class SkipReason(Enum):
    """Why a file stays as it is, and what a person can do."""

    NAME = "Its name is not UTF-8. Rename it."
    NO_TEXT = "It is empty, not UTF-8 text, or longer than 10 MB."
    UNREADABLE = "It cannot be read. Give the daemon's account the right to."
    REFUSED = "The database refuses its text, or the text of a section. It may be too long: split it."
    CHUNKS = "It is made of chunks that a program writes: a change in it has no effect. Undo the change."
    COPY = "It is a copy of a file of entries. Delete it, or move its sections into the other file."


@dataclass(slots=True)
class Report:
    counts: Counter[str] = field(default_factory=Counter)
    """written, taken, added, moved, deleted, removed, erased, conflicts, resolved"""
    again: bool = False
    """Whether another pass has to follow at once."""
    waits: bool = False
    """Whether a change has to settle first."""
    pause: float = SETTLE_PAUSE_SECONDS
    """Seconds until then, most likely."""
    asked: int = 0
    """Missing files that a person is asked about."""
    asked_entries: int = 0
    """Entries with missing sections that a person is asked about."""
    left_out: dict[str, SkipReason] = field(default_factory=dict)
    """Ignored files."""
    unnamed: int = 0
    """Further ones: documents of Google."""
    failures: int = 0
    error: OSError | None = None
    """The last failure to write."""

    @property
    def refused(self) -> int:
        """Files whose content the database refused."""
        return self._count(SkipReason.REFUSED)

    @property
    def not_text(self) -> int:
        """Files that are not text, empty, too long, or not readable."""
        return self.unnamed + self._count(SkipReason.NAME, SkipReason.NO_TEXT, SkipReason.UNREADABLE)

    @property
    def copies(self) -> int:
        """Copies of files of entries."""
        return self._count(SkipReason.COPY)

    def _count(self, *reasons: SkipReason) -> int:
        return sum(reason in reasons for reason in self.left_out.values())


@dataclass(slots=True)
class PassState:
    """The files and rows that a pass knows."""

    listing: Listing
    files: Files
    bases: dict[UUID, Base]
    """The documents' own files."""
    conflicts: dict[UUID, Base]
    """The files of conflicts."""
    expected: Collection[str]
    """The paths of all files that are known."""
    lost: dict[UUID, Conflict] = field(default_factory=dict)
    """The texts that lost against another change, by conflict."""
    lost_paths: dict[UUID, str] = field(default_factory=dict)
    """The paths of their files."""
    paths: dict[UUID, str] = field(default_factory=dict)
    """The path of each document's file."""
    homes: dict[UUID, str] = field(default_factory=dict)
    """The names of the folders of users who get a new file."""
    report: Report = field(default_factory=Report)
    _taken: set[str] | None = None

    @property
    def taken(self) -> set[str]:
        """Keys of paths in use, computed when needed: most passes need none."""
        if self._taken is None:
            listing = self.listing
            paths = chain(listing.files, listing.folders, listing.unread, self.expected)
            self._taken = {key(path) for path in paths}
        return self._taken

    def is_unseen(self, base: Base | None) -> bool:
        """Whether nobody may have seen a text: its file was never written, or another file took its place.

        This happens when files were moved and a program then saves an open one. Moving a conflict's file over the document's
        own takes its text.
        """
        if base is None or base.path not in self.listing.files:
            return base is None
        there = self.files.known.get(base.path)
        over = None if there is None or there.conflict is None else self.conflicts.get(there.conflict)
        return over is None or base.conflict is not None or over.document != base.document

    def known(self, document: UUID) -> FileText | None:
        path = self.paths.get(document)
        return None if path is None else self.files.known.get(path)


class Settling:
    """When files count as deleted: they are missing for a while, and no file is being written that could be one of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._gone_since: dict[str, float] = {}

    def is_over(self, state: PassState, paths: set[str]) -> bool:
        """Whether these files are missing for long enough."""
        clock = time.monotonic()
        self._gone_since = {path: self._gone_since.get(path, clock) for path in paths}
        if state.files.pause is None and all(
            clock - since >= self._seconds for since in self._gone_since.values()
        ):
            return True
        state.report.waits |= bool(paths)
        return False


class Writer:
    """Writes files, while the lease lasts."""

    def __init__(self, folder: Folder, store: Store, reading: ChangedFiles) -> None:
        self._folder = folder
        self._store = store
        self._reading = reading

    async def read(
        self, state: PassState, path: str, file: FileText, parse: Callable[[bytes], T | None]
    ) -> T | None:
        """Parses a file that was read; None if it has changed since: then another pass follows."""
        data = await asyncio.to_thread(self._reading.data, path, file)
        state.report.again |= data is None
        return None if data is None else parse(data)

    async def write(self, state: PassState, path: str, content: bytes, *, replaces: bytes | None) -> bool:
        return await self._attempt(state, lambda: self._folder.write(path, content, replaces=replaces))

    async def remove(self, state: PassState, path: str, *, replaces: bytes, for_good: bool = False) -> bool:
        return await self._attempt(
            state, lambda: self._folder.remove(path, replaces=replaces, for_good=for_good), frees=True
        )

    async def move(self, state: PassState, path: str, to: str, *, replaces: bytes) -> bool:
        return await self._attempt(state, lambda: self._folder.move(path, to, replaces=replaces))

    async def _attempt(self, state: PassState, work: Callable[[], None], *, frees: bool = False) -> bool:
        report = state.report
        if not frees and report.error is not None and report.error.errno in FULL:
            report.failures += 1
            return False
        self._store.require_lease()
        try:
            await asyncio.to_thread(work)
        except StaleFile:
            report.again = True
            return False
        except OSError as error:
            report.failures += 1
            report.error = error
            return False
        return True
