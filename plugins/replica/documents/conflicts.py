"""The files of conflicts: a text that lost against another change has a file beside the document's.

Promise: the text is in the database before it is in a file. Deleting the file resolves the conflict. A text that a person
writes into the file is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

from plugins.replica.changed_files import FileText
from plugins.replica.pass_state import PassState, Settling, Writer
from plugins.replica.rules.document_file import FrontMatter, read, write
from plugins.replica.rules.paths import conflict_path, key, path_for
from plugins.replica.store.documents import CHANGE_CONFLICTS, FORGET, Base, Conflict, Store

ADVICE = (
    "An agent changed this document while you did. Your text is in the file without (conflict) in its name; this is the "
    "agent's. Delete this file to keep yours. To take this one instead: memoryd replica conflicts --keep theirs"
)


class Conflicts:
    def __init__(self, store: Store, writer: Writer, settling: Settling) -> None:
        self._store = store
        self._writer = writer
        self._settling = settling

    async def run(self, state: PassState) -> None:
        """Writes the files of new conflicts, deletes those of resolved ones, and takes what people wrote into the others."""
        await self._write(state, [one for one in state.lost.values() if one.id not in state.lost_paths])
        await self._remove(state)
        changed, noted = [], []
        for conflict, path in state.lost_paths.items():
            base, file = state.conflicts.get(conflict), state.files.known.get(path)
            one = state.lost.get(conflict)
            if one is None or one.deleted or file is None:
                continue
            if base and (base.path, base.file) == (path, file.hash):
                continue
            if (said := await self._writer.read(state, path, file, read)) is None:
                continue
            text = said.text(one.text.title)
            if text.digest() != one.text.digest():
                changed.append((conflict, text.title, text.body, text.front_matter))
            noted.append(_noted(path, one, file.hash, text.digest()))
        there = {row[0] for row in await self._store.write(CHANGE_CONFLICTS, changed)}
        resolved = {conflict for conflict, *_ in changed} - there
        # If the conflict was resolved meanwhile, the text that a person wrote into its file becomes a document.
        await self._store.note([one for one in noted if one.conflict not in resolved])

    async def promote(self, state: PassState, gone: dict[UUID, datetime]) -> dict[UUID, datetime]:
        """Gives a document the text of its conflict, if a person deleted only the document's file. Returns the others.

        A conflict also wins if it had no file yet, or another file was saved over it: the person does not know its text.
        """
        left = dict(gone)
        for one in sorted(state.lost.values(), key=lambda one: one.made, reverse=True):
            is_deleted = one.id not in state.lost_paths and not state.is_unseen(state.conflicts.get(one.id))
            if not is_deleted and left.pop(one.document, None) is not None:
                await self._store.take_conflict(one.id)
                state.report.counts["resolved"] += 1
                state.report.again = True
        return left

    async def end_deleted(self, state: PassState) -> None:
        """Ends the conflicts whose files people deleted.

        If another file has taken a conflict's path, the next pass writes the conflict again under another name.
        """
        gone = [
            base
            for conflict, base in state.conflicts.items()
            if conflict not in state.lost_paths
            and (one := state.lost.get(conflict)) is not None
            and not one.deleted
        ]
        if not gone or state.report.asked:
            return
        if not self._settling.is_over(state, {base.path for base in gone}):
            return
        over = [base.conflict for base in gone if base.conflict and not state.is_unseen(base)]
        await self._store.end_conflicts(over)
        await self._store.write(FORGET, [(base.document, base.conflict) for base in gone])
        state.report.counts["resolved"] += len(over)
        state.report.again = True

    async def _write(self, state: PassState, missing: Sequence[Conflict]) -> None:
        noted = []
        await self._store.entries.learn_homes(state.homes, [one.user for one in missing])
        for one in missing:
            if one.deleted or one.id in state.conflicts:
                continue
            home = None if one.user is None else state.homes[one.user]
            own = state.paths.get(one.document) or path_for(one.text.title, one.source, home, taken=())
            path = conflict_path(own, one.made.astimezone(UTC).strftime("%Y-%m-%d %H.%M"), taken=state.taken)
            state.taken.add(key(path))
            content = _content(one)
            if await self._writer.write(state, path, content, replaces=None):
                noted.append(_noted(path, one, sha256(content).digest(), one.text.digest()))
                state.report.counts["written"] += 1
        await self._store.note(noted)

    async def _remove(self, state: PassState) -> None:
        """Deletes the files of resolved conflicts, and of those whose document was deleted or erased.

        A file that a person changed meanwhile stays and becomes a document, unless its document was erased.
        """
        over = [
            (base, state.lost_paths.get(conflict))
            for conflict, base in state.conflicts.items()
            if conflict not in state.lost or state.lost[conflict].deleted
        ]
        if not over:
            return
        there = await self._store.owners({base.document for base, _ in over})
        forgotten = []
        for base, path in over:
            erased = base.document not in there
            file: FileText | None = None if path is None else state.files.known.get(path)
            if path is not None and file is None and erased:
                file = state.files.unread.get(path)  # it is not text any more
            if path is not None and file is not None:
                if file.hash == base.file or erased:
                    if not await self._writer.remove(state, path, replaces=file.hash, for_good=erased):
                        continue
                    state.report.counts["removed"] += 1
                else:
                    state.report.again = True
            elif path is not None or base.path in state.files.unknown:
                continue
            forgotten.append((base.document, base.conflict))
        await self._store.write(FORGET, forgotten)


def _content(one: Conflict) -> bytes:
    said = one.document, one.source, one.document_type, one.created, one.made
    return write(FrontMatter(*said, conflict=one.id, note=f"{ADVICE} {one.id}"), one.text)


def _noted(path: str, one: Conflict, hashed: bytes, digest: bytes) -> Base:
    return Base(path, one.document, one.id, one.user, digest, hashed, None)
