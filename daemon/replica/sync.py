"""One pass over the replica: finds what changed on either side, and makes folder and documents the same.

Promise: a pass may end at any point, by kill -9 too, and the next one goes on from what is there. A file is written before it
is noted: one whose text is already the row's is only noted. What a person wrote is in the database in the same transaction as
its base. No transaction is open while a file is read or written.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import TypeVar
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from daemon.replica.folder import Changed, Folder, Listing
from daemon.replica.reading import SETTLE_SECONDS, Files, Known, Reading
from daemon.replica.store import Addition, Base, Document, Edit, Noted, Store
from memory.replica import Action, Row, decide
from memory.replica_match import match
from memory.replica_names import key, path_for, source_of, title_of, user_of
from memory.replica_text import Found, Text, write

BATCH = 100
"""Documents whose contents are in memory at once."""
FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))
"""Errors after which no other file can be written either."""

T = TypeVar("T")


@dataclass(slots=True)
class Report:
    """What a pass did. Its counts: written, taken, added, moved, deleted, removed, conflicts."""

    counts: Counter[str] = field(default_factory=Counter)
    again: bool = False
    """There is more to do at once."""
    waits: bool = False
    """Something has to settle first."""
    failures: int = 0
    error: OSError | None = None
    """The last failure to write."""


@dataclass(slots=True)
class _Pass:
    """What one pass knows."""

    listing: Listing
    files: Files
    bases: dict[UUID, Base]
    """The documents' own files."""
    paths: dict[UUID, str]
    """Where each document's file is now."""
    taken: set[str]
    """Keys of paths in use."""
    report: Report
    bury: dict[UUID, datetime] = field(default_factory=dict)

    def known(self, document: UUID) -> Known | None:
        """The file of a document."""
        path = self.paths.get(document)
        return None if path is None else self.files.known.get(path)


@dataclass(slots=True)
class _Results:
    """What is to be written into the database after a batch."""

    noted: list[Noted] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)


class Sync:
    """Makes a folder and the documents the same, pass by pass. One at a time works on a folder."""

    def __init__(
        self,
        *,
        store: Store,
        folder: Folder,
        logger: FilteringBoundLogger,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self._store = store
        self._folder = folder
        self._log = logger
        self._settle = settle_seconds
        self._reading = Reading(folder, settle_seconds=settle_seconds)
        self._gone_since: dict[str, float] = {}

    async def prepare(self, replica: UUID) -> None:
        """Makes the folder ready. Only an empty replica is begun in a folder that is not marked as one."""
        if not await self._store.files():
            await asyncio.to_thread(self._folder.identify, replica)
        await asyncio.to_thread(self._folder.check, replica)
        await asyncio.to_thread(self._folder.clean)

    async def run(self, replica: UUID) -> Report:
        """One pass. Raises FolderUnavailable, and what the database raises."""
        report = Report()
        known = await self._store.files()
        listing = await asyncio.to_thread(self._list, replica)
        expected = [base.path for base in known]
        files = await asyncio.to_thread(self._reading.files, listing, expected)
        # Once more: if the folder was unmounted meanwhile, nothing is gone.
        await asyncio.to_thread(self._folder.check, replica)
        report.waits = files.waiting > 0
        bases = {base.document: base for base in known if base.conflict is None}
        state = _Pass(
            listing,
            files,
            bases,
            {},
            {key(path) for path in (*listing.files, *listing.unread, *expected)},
            report,
        )
        new = await self._match(state)
        await self._compare(state)
        await self._bury(state)
        await self._add(state, new)
        return report

    def _list(self, replica: UUID) -> Listing:
        self._folder.check(replica)
        return self._folder.list()

    async def _match(self, state: _Pass) -> list[str]:
        """Finds which file is whose, and follows those that moved. The files that are nobody's yet."""
        paths = {document: base.path for document, base in state.bases.items()}
        named: dict[str, UUID | None] = {path: one.id for path, one in state.files.known.items()}
        # A file that cannot be read now stays whose it was.
        named |= {path: document for document, path in paths.items() if path in state.files.unknown}
        owners = await self._store.owners({*paths, *(i for i in named.values() if i is not None)})
        matches = match(named, paths, owners)
        await self._store.move(matches.moved)
        state.report.counts["moved"] += len(matches.moved)
        state.paths = matches.known
        return matches.new

    async def _compare(self, state: _Pass) -> None:
        """Decides on every document of which one side changed, and does it."""
        changed = [
            document
            for document, base in state.bases.items()
            if (one := state.known(document)) is None or one.hash != base.file
        ]
        changed += [document for document in state.paths if document not in state.bases]
        ids = [
            document
            for document in await self._store.to_compare(changed)
            if state.paths.get(document) not in state.files.unknown
        ]
        for some in batches(ids, BATCH):
            rows = await self._store.documents(some)
            await self._compare_batch(state, some, rows)

    async def _compare_batch(self, state: _Pass, ids: Sequence[UUID], rows: dict[UUID, Document]) -> None:
        results = _Results()
        for document in ids:
            row = rows.get(document)
            said = await self._said(state, document)
            await self._do(state, document, row, said, _action(state, document, row, said), results)
        await self._store.note(results.noted)
        await self._store.forget(results.forgotten)
        taken = await self._store.take(results.edits)
        state.report.counts["taken"] += len(taken)
        state.report.counts["conflicts"] += sum(e.lost for e in results.edits if e.document in taken)
        # Their front matter is written in the next pass, or they are compared with the row as it is by then.
        state.report.again |= bool(results.edits)

    async def _said(self, state: _Pass, document: UUID) -> Found | None:
        """What the file of a document says."""
        file = state.known(document)
        return None if file is None else await self._content(state, state.paths[document], file)

    async def _content(self, state: _Pass, path: str, file: Known) -> Found | None:
        said = await asyncio.to_thread(self._reading.content, path, file)
        state.report.again |= said is None
        return said

    async def _do(
        self,
        state: _Pass,
        document: UUID,
        row: Document | None,
        said: Found | None,
        action: Action,
        results: _Results,
    ) -> None:
        file, base, path = state.known(document), state.bases.get(document), state.paths.get(document, "")
        if file is not None and said is None:
            return  # it has changed since it was read: the next pass sees what it is
        match action:
            case Action.NOTHING | Action.NOTE | Action.WRITE if row is not None and row.row is Row.THERE:
                results.noted += await self._write(state, row, action)
            case Action.TAKE | Action.TAKE_BOTH if row and file and said:
                lost = action is Action.TAKE_BOTH
                results.edits.append(_edit(path, row, said.text(row.title), file, state, lost=lost))
            case Action.BURY if row:
                state.bury[document] = row.version
            case Action.REMOVE if file:
                if await self._remove(state, path, file.hash):
                    results.forgotten.append(path)
            case Action.FORGET if base:
                results.forgotten.append(base.path)
            case _:
                pass

    async def _write(self, state: _Pass, row: Document, action: Action) -> list[Noted]:
        """Writes a document's file unless it is as it should be; what is to be noted."""
        assert row.text is not None
        base, file = state.bases.get(row.id), state.known(row.id)
        digest, content = row.text.digest(), write(row.front, row.text)
        hashed = sha256(content).digest()
        path = state.paths.get(row.id)
        if path is None:
            path = base.path if base is not None and not state.listing.is_unknown(base.path) else None
        if path is None:
            path = path_for(row.title, row.source, row.user, taken=state.taken)
        state.taken.add(key(path))
        if file is not None and file.hash != hashed and action is not Action.WRITE:
            row_changed = base is not None and base.version != row.version
            if not row_changed and file.id == row.id:
                # A person changed a line of the front matter that is memoryd's: what is in the database counts.
                hashed = file.hash
        if file is None or file.hash != hashed:
            replaces = None if file is None else file.hash
            if not await self._attempt(state, path, content, replaces=replaces):
                return []
            state.report.counts["written"] += 1
        return [Noted(path, row.id, None, digest, hashed, row.version)]

    async def _attempt(self, state: _Pass, path: str, content: bytes, *, replaces: bytes | None) -> bool:
        report = state.report
        if report.error is not None and report.error.errno in FULL:
            report.failures += 1
            return False
        self._store.require_lease()
        try:
            await asyncio.to_thread(self._folder.write, path, content, replaces=replaces)
        except Changed:
            report.again = True
            return False
        except OSError as error:
            report.failures += 1
            report.error = error
            return False
        return True

    async def _remove(self, state: _Pass, path: str, replaces: bytes) -> bool:
        self._store.require_lease()
        try:
            await asyncio.to_thread(self._folder.remove, path, replaces=replaces)
        except Changed:
            state.report.again = True
            return False
        except OSError as error:
            state.report.failures += 1
            state.report.error = error
            return False
        state.report.counts["removed"] += 1
        return True

    async def _bury(self, state: _Pass) -> None:
        """Deletes the documents whose files people deleted, when these have been gone for a while."""
        clock = time.monotonic()
        paths = {state.bases[document].path: document for document in state.bury}
        self._gone_since = {path: self._gone_since.get(path, clock) for path in paths}
        # A file that waits may be one of those that are gone, under another name.
        if state.files.waiting or any(clock - since < self._settle for since in self._gone_since.values()):
            state.report.waits = True
            return
        state.report.counts["deleted"] += await self._store.bury(state.bury, confirmed=False)

    async def _add(self, state: _Pass, new: Sequence[str]) -> None:
        """Makes documents of the files that are nobody's yet."""
        for some in batches(new, BATCH):
            additions = []
            for path in some:
                file = state.files.known[path]
                if (said := await self._content(state, path, file)) is not None:
                    additions.append(_addition(path, said.text(title_of(path)), file, state))
            added = await self._store.add(additions)
            state.report.counts["added"] += added
            state.report.again |= added > 0


def _addition(path: str, text: Text, file: Known, state: _Pass) -> Addition:
    return Addition(
        path,
        user_of(path),
        source_of(path),
        text.title,
        text.body,
        text.front_matter,
        state.listing.files[path].modified,
        text.digest(),
        file.hash,
    )


def _action(state: _Pass, document: UUID, row: Document | None, said: Found | None) -> Action:
    base, path = state.bases.get(document), state.paths.get(document, "")
    title = title_of(path) if row is None else row.title
    return decide(
        Row.GONE if row is None else row.row,
        base=None if base is None else base.base,
        theirs=None if said is None else said.text(title).digest(),
        ours=row.text.digest() if row is not None and row.text is not None else None,
    )


def _edit(path: str, row: Document, text: Text, file: Known, state: _Pass, *, lost: bool) -> Edit:
    return Edit(
        path,
        row.id,
        row.version,
        lost,
        text.title,
        text.body,
        text.front_matter,
        state.listing.files[path].modified,
        text.digest(),
        file.hash,
    )


def batches(things: Sequence[T], size: int) -> Iterator[list[T]]:
    """They in lists of at most so many."""
    rest = iter(things)
    while some := list(islice(rest, size)):
        yield some
