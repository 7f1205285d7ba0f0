"""The beginning of a pass: what the folder and the database have, and which file is whose.

Of most files a pass has nothing to do: they are at their path, name their document, and have not changed. What the database
knows of these is not kept in memory, but asked for again where a pass needs it, so that 100,000 of them need little.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

from daemon.replica.entries.sync import Collections
from daemon.replica.files.changed import ChangedFiles, Files
from daemon.replica.files.texts import FileText
from daemon.replica.folder import Folder, Listing, is_text, written
from daemon.replica.pass_state import LeftOut, PassState, Taken
from daemon.replica.store.documents import Base, Conflict, Store
from daemon.replica.watch.carried_over import MOST, CarriedOver
from memory.replica.match import match


@dataclass(frozen=True, slots=True)
class _Sight:
    """What a look at both sides found."""

    listing: Listing
    files: Files
    known: list[Base]
    """Files with which there is something to do."""
    due: list[UUID] | None
    """Documents to compare; None: all files were looked at."""


class Survey:
    """Looks at both sides."""

    def __init__(self, store: Store, folder: Folder, reading: ChangedFiles, collections: Collections) -> None:
        self._store = store
        self._folder = folder
        self._reading = reading
        self._collections = collections
        self._remembered = CarriedOver(reading.seen)
        self._not_quiet: set[str] = set()
        self._changed: Collection[str] = ()
        self._has_rows_left = False

    async def look(
        self, replica: UUID, changed: Collection[str] | None = None, *, rows: bool = True
    ) -> PassState:
        """What both sides have; of the folder only what is at these paths, and what else they concern, unless it is None.

        `rows`: documents may have changed. Raises FolderUnavailable.
        """
        self._changed = [path for path in changed or () if is_text(path)]
        paths = self._remembered.paths(self._changed)
        some = (
            None
            if paths is None or changed is None
            else await self._look_at(replica, paths, rows=rows or self._has_rows_left)
        )
        sight = await self._look_at_all(replica) if some is None else some
        listing, files, known = sight.listing, sight.files, sight.known
        # Once more: if the folder was unmounted meanwhile, nothing is gone.
        await asyncio.to_thread(self._folder.check, replica)
        expected = [*(base.path for base in known), *await self._collections.load()]
        files.unknown.update(path for path in expected if listing.is_unknown(path))
        self._not_quiet = {*files.known, *files.unread, *files.unknown, *expected}
        state = PassState(
            listing,
            files,
            {base.document: base for base in known if base.conflict is None},
            {base.conflict: base for base in known if base.conflict is not None},
            Taken(lambda: chain(self._remembered.all(), listing.files, expected)),
            due=sight.due,
            is_whole=sight.due is None,
        )
        state.report.is_whole = state.is_whole
        if files.waiting:
            state.report.waits, state.report.pause = True, files.pause
        nameless = [written(path) for path in self._remembered.unread if not is_text(path)]
        state.report.not_text = len(files.unread) + len(files.failed) + listing.left_out + len(nameless)
        state.report.left_out |= dict.fromkeys(nameless, LeftOut.NAME)
        state.report.left_out |= dict.fromkeys(files.unread, LeftOut.NO_TEXT)
        state.report.left_out |= dict.fromkeys(files.failed, LeftOut.UNREADABLE)
        state.report.left_out |= dict.fromkeys(files.held, LeftOut.HELD)
        return state

    async def match(
        self, state: PassState, conflicts: dict[UUID, Conflict]
    ) -> tuple[list[str], dict[UUID, str]]:
        """Finds which file is whose, and follows those that moved. The files that are nobody's yet, and conflicts' paths."""
        files = state.files
        at = match(
            {path: one for path in files.known.others() if (one := files.known[path].conflict) is not None}
            | {base.path: base.conflict for base in state.conflicts.values() if base.path in files.unknown},
            {conflict: base.path for conflict, base in state.conflicts.items()},
            {conflict: base.user for conflict, base in state.conflicts.items()}
            | {conflict: one.user for conflict, one in conflicts.items() if not one.deleted},
        ).known
        theirs = set(at.values())
        named = {path: files.known[path].id for path in files.known if path not in theirs}
        # Those of which there is a second file, and those that the pass will ask for.
        await self.recall(
            state, {one for one in named.values() if one} | {c.document for c in conflicts.values()}
        )
        named |= {path: files.known[path].id for path in state.paths.values()}
        paths = {document: base.path for document, base in state.bases.items()}
        # A file that cannot be read now stays whose it was.
        named |= {path: document for document, path in paths.items() if path in files.unknown}
        # A document that was erased is known by its file, wherever that is by now.
        owners = {document: base.user for document, base in state.bases.items()}
        unknown = {document for document in named.values() if document is not None} - owners.keys()
        matches = match(named, paths, owners | await self._store.owners(unknown))
        await self._store.move(matches.moved)
        state.report.counts["moved"] += len(matches.moved)
        state.paths = matches.known
        return matches.new, at

    async def recall(self, state: PassState, documents: Iterable[UUID]) -> None:
        """Asks again for what is known of these documents' files, where it was not kept."""
        wanted = [document for document in documents if document not in state.bases]
        for base in await self._store.files_at((), wanted) if wanted and state.files.quiet else []:
            if self._was_quiet(base, state.files):
                state.bases[base.document] = base
                state.paths[base.document] = base.path
                state.files.known.copy(base.path, self._reading.seen)
                state.files.quiet -= 1

    def _was_quiet(self, base: Base, files: Files) -> bool:
        seen, path = self._reading.seen, base.path
        return (
            path not in files.known
            and path not in files.unknown
            and seen.names(path, base.document)
            and seen.has_hash(path, base.file)
        )

    def leave(self, state: PassState) -> None:
        """The pass has ended as it should: the next one may begin with what it found."""
        self._remembered.leave(state, self._not_quiet, self._changed)
        report = state.report
        is_left = report.again or report.failures > 0
        # A document whose file settles is compared when it has.
        self._has_rows_left = is_left or (report.waits and state.due != [])

    async def _look_at_all(self, replica: UUID) -> _Sight:
        listing = await asyncio.to_thread(self._list, replica)
        noted = await self._noted() if listing.has_hashes() else {}
        files = await asyncio.to_thread(self._reading.files, listing, noted)
        self._remembered.look(listing, None)
        known: list[Base] = []
        async for some in self._store.files():
            known += [base for base in some if not _is_quiet(base, files)]
        return _Sight(listing, files, known, None)

    async def _look_at(self, replica: UUID, paths: set[str], *, rows: bool) -> _Sight | None:
        """What is at these paths, and at those where the same documents have other files; None: that is too much."""
        due: list[UUID] | None = None
        concerned: set[UUID] = set()
        known: list[Base] = []
        looked: set[str] = set()
        listing, files = Listing(), Files()
        wanted = paths | self._remembered.below(paths)
        while wanted or due is None:
            more = await asyncio.to_thread(self._list_some, replica, wanted)
            if more is None or len(looked) + len(wanted) + len(more.files) > MOST:
                return None
            looked |= wanted | more.files.keys()
            listing = listing.with_(more)
            files = await asyncio.to_thread(self._reading.files, listing, of=looked)
            self._remembered.look(more, wanted)
            if due is None:
                due = await self._store.to_compare(()) if rows else []
                concerned = {*due, *await self._store.conflict_documents()}
            concerned |= {one for path in files.known if (one := files.known[path].id) is not None}
            if len(concerned) > MOST:
                return None
            known = await self._store.files_at(looked, concerned)
            homeless = concerned - {base.document for base in known if base.conflict is None}
            wanted = {*(base.path for base in known), *self._reading.seen.naming(homeless)} - looked
        return _Sight(listing, files, [base for base in known if not _is_quiet(base, files)], due)

    async def _noted(self) -> dict[bytes, FileText]:
        """What the files that were noted say, by their hashes."""
        known = [base async for some in self._store.files() for base in some]
        counts = Counter(base.file for base in known)
        return {base.file: _said(base) for base in known if counts[base.file] == 1}

    def _list_some(self, replica: UUID, paths: Collection[str]) -> Listing | None:
        self._folder.check(replica)
        return self._folder.look(paths)

    def _list(self, replica: UUID) -> Listing:
        self._folder.check(replica)
        return self._folder.list()


def _said(base: Base) -> FileText:
    return FileText(base.file, base.document if base.conflict is None else None, base.conflict, True)


def _is_quiet(base: Base, files: Files) -> bool:
    """Whether there is nothing to do with a file but for what agents change. It is counted then, and not kept."""
    known, path = files.known, base.path
    is_quiet = (
        base.conflict is None
        and not base.waits
        and known.names(path, base.document)
        and known.has_hash(path, base.file)
    )
    if is_quiet:
        files.quiet += 1
        del known[path]
    return is_quiet
