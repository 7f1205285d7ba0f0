"""The beginning of a pass: reads the folder and the database, and matches files with documents."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from plugins.files.local import is_text, written
from plugins.replica.changed_files import ChangedFiles, FileText
from plugins.replica.entries.sync import Collections
from plugins.replica.folder import Folder
from plugins.replica.pass_state import PassState, SkipReason
from plugins.replica.rules.decision import match
from plugins.replica.store.documents import MOVE, Base, Store


class Survey:
    def __init__(self, store: Store, folder: Folder, reading: ChangedFiles, collections: Collections) -> None:
        self._store = store
        self._folder = folder
        self._reading = reading
        self._collections = collections

    async def read(self, replica: UUID) -> PassState:
        """The state of both sides. Raises FolderUnavailable."""
        await asyncio.to_thread(self._folder.check, replica)
        listing = await asyncio.to_thread(self._folder.list)
        known = await self._store.files()
        has_hashes = any(entry.hash is not None for entry in listing.files.values())
        noted = _noted(known) if has_hashes else {}
        files = await asyncio.to_thread(self._reading.files, listing, noted)
        # Once more: if the folder was unmounted meanwhile, nothing is gone.
        await asyncio.to_thread(self._folder.check, replica)
        expected = {base.path: base.conflict or base.document for base in known}
        expected |= await self._collections.load()
        if listing.unread:
            files.unknown.update(path for path in expected if listing.is_unknown(path))
        if listing.is_young:
            # What is not listed yet is not gone; unless it is listed under another path.
            named = {
                one for file in files.known.values() for one in (file.id, file.conflict, file.collection)
            }
            files.unknown.update(
                path for path, one in expected.items() if path not in listing.files and one not in named
            )
        state = PassState(
            listing,
            files,
            {base.document: base for base in known if base.conflict is None},
            {base.conflict: base for base in known if base.conflict is not None},
            expected,
        )
        report = state.report
        if files.pause is not None:
            report.waits, report.pause = True, files.pause
        nameless = [written(path) for path in listing.unread if not is_text(path)]
        report.unnamed = listing.left_out
        report.left_out |= dict.fromkeys(nameless, SkipReason.NAME)
        report.left_out |= dict.fromkeys(files.unread, SkipReason.NO_TEXT)
        report.left_out |= dict.fromkeys(files.failed, SkipReason.UNREADABLE)
        return state

    async def match(self, state: PassState) -> list[str]:
        """Matches files with documents and conflicts, also moved ones. Returns the other files."""
        files = state.files
        state.lost = await self._store.conflicts()
        state.lost_paths = match(
            {path: file.conflict for path, file in files.known.items() if file.conflict is not None}
            | {base.path: base.conflict for base in state.conflicts.values() if base.path in files.unknown},
            {conflict: base.path for conflict, base in state.conflicts.items()},
            {conflict: base.user for conflict, base in state.conflicts.items()}
            | {conflict: one.user for conflict, one in state.lost.items() if not one.deleted},
        ).known
        theirs = set(state.lost_paths.values())
        named = {path: file.id for path, file in files.known.items() if path not in theirs}
        paths = {document: base.path for document, base in state.bases.items()}
        # A file that cannot be read now stays whose it was.
        named |= {path: document for document, path in paths.items() if path in files.unknown}
        # A document that was erased is known by its file, wherever that is by now.
        owners = {document: base.user for document, base in state.bases.items()}
        unknown = {document for document in named.values() if document is not None} - owners.keys()
        if unknown:
            owners |= await self._store.owners(unknown)
        matches = match(named, paths, owners)
        await self._store.write(MOVE, list(matches.moved.items()), False)
        state.report.counts["moved"] += len(matches.moved)
        state.paths = matches.known
        return matches.new


def _noted(known: Sequence[Base]) -> dict[bytes, FileText]:
    """The contents of the noted files, by their hashes."""
    counts = Counter(base.file for base in known)
    return {
        base.file: FileText(base.file, base.document if base.conflict is None else None, base.conflict)
        for base in known
        if counts[base.file] == 1
    }
