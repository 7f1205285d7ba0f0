"""The beginning of a pass: what the folder and the database have, and which file is whose.

Of most files a pass has nothing to do: they are at their path, name their document, and have not changed. What the database
knows of these is not kept in memory, but asked for again where a pass needs it, so that 100,000 of them need little.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from uuid import UUID

from daemon.replica.collections import Collections
from daemon.replica.folder import Folder, Listing
from daemon.replica.known import Known
from daemon.replica.reading import Files, Reading
from daemon.replica.state import LeftOut, State, Taken
from daemon.replica.store import Base, Conflict, Store
from memory.replica_match import match


class Looking:
    """Looks at both sides."""

    def __init__(self, store: Store, folder: Folder, reading: Reading, collections: Collections) -> None:
        self._store = store
        self._folder = folder
        self._reading = reading
        self._collections = collections

    async def look(self, replica: UUID) -> State:
        """What both sides have. Raises FolderUnavailable."""
        listing = await asyncio.to_thread(self._list, replica)
        noted = await self._noted() if listing.has_hashes() else {}
        files = await asyncio.to_thread(self._reading.files, listing, noted)
        # Once more: if the folder was unmounted meanwhile, nothing is gone.
        await asyncio.to_thread(self._folder.check, replica)
        known: list[Base] = []
        async for some in self._store.files():
            known += [base for base in some if not _is_quiet(base, files)]
        expected = [*(base.path for base in known), *await self._collections.load()]
        files.unknown.update(path for path in expected if listing.is_unknown(path))
        state = State(
            listing,
            files,
            {base.document: base for base in known if base.conflict is None},
            {base.conflict: base for base in known if base.conflict is not None},
            Taken(lambda: chain(listing.files, listing.folders, listing.unread, expected)),
        )
        if files.waiting:
            state.report.waits, state.report.pause = True, files.pause
        state.report.not_text = len(files.unread) + len(files.failed) + listing.left_out
        state.report.left_out |= dict.fromkeys(files.unread, LeftOut.NO_TEXT)
        state.report.left_out |= dict.fromkeys(files.failed, LeftOut.UNREADABLE)
        return state

    async def match(self, state: State, conflicts: dict[UUID, Conflict]) -> tuple[list[str], dict[UUID, str]]:
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

    async def recall(self, state: State, documents: Iterable[UUID]) -> None:
        """Asks again for what is known of these documents' files, where it was not kept."""
        wanted = [document for document in documents if document not in state.bases]
        for base in await self._store.files_of(wanted) if len(state.files.quiet) else []:
            if base.path in state.files.quiet:
                state.bases[base.document] = base
                state.paths[base.document] = base.path
                state.files.known.copy(base.path, state.files.quiet)
                del state.files.quiet[base.path]

    async def _noted(self) -> dict[bytes, Known]:
        """What the files that were noted say, by their hashes."""
        known = [base async for some in self._store.files() for base in some]
        counts = Counter(base.file for base in known)
        return {base.file: _said(base) for base in known if counts[base.file] == 1}

    def _list(self, replica: UUID) -> Listing:
        self._folder.check(replica)
        return self._folder.list()


def _said(base: Base) -> Known:
    return Known(base.file, base.document if base.conflict is None else None, base.conflict, True)


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
        files.quiet.copy(path, known)
        del known[path]
    return is_quiet
