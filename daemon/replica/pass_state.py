"""What one pass over the replica knows and counts, and how it writes files: a failure is counted and stops no other file."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from daemon.replica.files.changed import ChangedFiles, Files
from daemon.replica.files.texts import FileText, FileTexts
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
    HELD = (
        "A program has it open for writing. It is read when that is closed, or has not written for a minute."
    )
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
    unlisted: int = 0
    """Of what is counted, how much changes nothing of what Index.md says."""
    is_whole: bool = True
    """It looked at all files."""
    everything: bool = False
    """The next pass has to look at all files: this one looked at some, and found that others may be concerned."""


class Taken:
    """Keys of paths, computed when the first one is asked for: most passes need none."""

    def __init__(self, paths: Callable[[], Iterable[str]]) -> None:
        self._paths = paths
        self._keys: set[str] | None = None

    def __contains__(self, one: object) -> bool:
        return one in self._all()

    def add(self, one: str) -> None:
        """A path is in use from now on."""
        self._all().add(one)

    def discard(self, one: str) -> None:
        """It is free again."""
        self._all().discard(one)

    def _all(self) -> set[str]:
        if self._keys is None:
            self._keys = {key(path) for path in self._paths()}
        return self._keys


@dataclass(slots=True)
class PassState:
    """What a pass knows."""

    listing: Listing
    files: Files
    bases: dict[UUID, Base]
    """The documents' own files, but for the quiet ones."""
    conflicts: dict[UUID, Base]
    """The files of conflicts."""
    taken: Taken
    """Keys of paths in use."""
    paths: dict[UUID, str] = field(default_factory=dict)
    """Where the file of each of these documents is now."""
    homes: dict[UUID, str] = field(default_factory=dict)
    """The names of the folders of users who get a new file."""
    report: Report = field(default_factory=Report)
    due: list[UUID] | None = None
    """Documents that are compared though their files have not changed; None: the pass asks which these are."""
    is_whole: bool = True
    """The pass looks at all files. One that looks at some deletes nothing, and does nothing of a file that is gone."""
    touched: set[str] = field(default_factory=set)
    """Paths that memoryd itself changed."""

    def number(self) -> int:
        """Of documents' own files that are known."""
        return len(self.bases) + self.files.quiet

    def look_everywhere(self) -> None:
        """This pass looks at some files and does not find one: the next pass looks at all, before anything is done."""
        self.report.everything = self.report.again = True

    def is_missing(self, document: UUID) -> bool:
        """Whether a document without a file had one, and this pass looks at too little to say where it is."""
        base = self.bases.get(document)
        if self.is_whole or base is None:
            return False
        if not base.waits or document in (self.due or ()):
            self.look_everywhere()
        return True

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

    def note_waiting(self) -> None:
        """A pass that looks at some files asks nobody about deletions, and takes no answer."""
        waiting = [base for base in self.bases.values() if base.waits]
        self.report.asked = len(waiting)
        if any(one.confirmed or one.document in self.paths for one in waiting):
            self.look_everywhere()

    def release(self) -> None:
        """Lets go of what nothing that follows in the pass asks for: of 100,000 files that is much."""
        root = Listing()
        root.files.update((path, self.listing.files[path]) for path in self.listing.files if "/" not in path)
        # The listing itself may be the folder's own.
        self.listing, self.files.known, self.taken = root, FileTexts(), Taken(lambda: ())

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
        return await self._attempt(state, lambda: self._folder.write(path, content, replaces=replaces), path)

    async def remove(self, state: PassState, path: str, *, replaces: bytes, for_good: bool = False) -> bool:
        """Whether the file is deleted."""
        return await self._attempt(
            state, lambda: self._folder.remove(path, replaces=replaces, for_good=for_good), path, frees=True
        )

    async def move(self, state: PassState, path: str, to: str, *, replaces: bytes) -> bool:
        """Whether the file has its new path."""
        return await self._attempt(state, lambda: self._folder.move(path, to, replaces=replaces), path, to)

    async def _attempt(
        self, state: PassState, work: Callable[[], None], *paths: str, frees: bool = False
    ) -> bool:
        report = state.report
        state.touched.update(paths)
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
