"""The files of conflicts: a text that lost against another change is a file beside the document's.

Promise: the text is in the database before it is in a file. Who deletes the file resolves the conflict; what a person writes
into it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

from daemon.replica.changed_files import FileText
from daemon.replica.deletions import Deletions
from daemon.replica.pass_state import PassState, Writer
from daemon.replica.store.documents import CHANGE_CONFLICTS, FORGET, NOTE, Conflict, Noted, Store
from memory.replica.document_file import Front, write
from memory.replica.paths import conflict_path, key, path_for

ADVICE = (
    "An agent changed this document while you did. Your text is in the file without (conflict) in its name; this is the "
    "agent's. Delete this file to keep yours. To take this one instead: memoryd replica conflicts --keep theirs"
)


class Conflicts:
    """Keeps the files of conflicts."""

    def __init__(self, store: Store, writer: Writer, deletions: Deletions) -> None:
        self._store = store
        self._writer = writer
        self._deletions = deletions

    async def run(self, state: PassState, conflicts: dict[UUID, Conflict], paths: dict[UUID, str]) -> None:
        """`paths`: where the file of each conflict is now."""
        await self._write(state, [one for one in conflicts.values() if one.id not in paths])
        await self._remove(state, conflicts, paths)
        changed, noted = [], []
        for conflict, path in paths.items():
            base, file = state.conflicts.get(conflict), state.files.known.get(path)
            if (
                conflict not in conflicts
                or conflicts[conflict].deleted
                or file is None
                or (base and (base.path, base.file) == (path, file.hash))
            ):
                continue
            one = conflicts[conflict]
            if (said := await self._writer.content(state, path, file)) is None:
                continue
            text = said.text(one.text.title)
            if text.digest() != one.text.digest():
                changed.append((conflict, text.title, text.body, text.front_matter))
            noted.append(_noted(path, one, file.hash, text.digest()))
        there = {row[0] for row in await self._store.write(CHANGE_CONFLICTS, changed)}
        resolved = {conflict for conflict, *_ in changed} - there
        # What a person wrote into the file of a conflict that was resolved at this moment becomes a document.
        await self._store.write(NOTE, [one for one in noted if one.conflict not in resolved])

    async def promote(
        self,
        state: PassState,
        conflicts: dict[UUID, Conflict],
        paths: dict[UUID, str],
        gone: dict[UUID, datetime],
    ) -> dict[UUID, datetime]:
        """Who deletes a document's own file and leaves that of a conflict wants the other text. The documents that are left.

        So it is with a conflict that had no file yet, or over whose file another one was saved: the person knows nothing of
        the other text.
        """
        left = dict(gone)
        for one in sorted(conflicts.values(), key=lambda one: one.made, reverse=True):
            is_deleted = one.id not in paths and not state.is_unseen(state.conflicts.get(one.id))
            if not is_deleted and left.pop(one.document, None) is not None:
                await self._store.take_conflict(one.id)
                state.report.counts["resolved"] += 1
                state.report.again = True
        return left

    async def end_deleted(
        self, state: PassState, conflicts: dict[UUID, Conflict], paths: dict[UUID, str]
    ) -> None:
        """Ends the conflicts whose files people deleted.

        Where another file took the place of one, the next pass writes it again, under another name.
        """
        gone = [
            base
            for conflict, base in state.conflicts.items()
            if conflict in conflicts and conflict not in paths and not conflicts[conflict].deleted
        ]
        if not gone or state.report.asked:
            return
        if not self._deletions.are_settled(state, {base.path for base in gone}):
            return
        over = [one.conflict for one in gone if one.conflict and not state.is_unseen(one)]
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
        await self._store.write(NOTE, noted)

    async def _remove(
        self, state: PassState, conflicts: dict[UUID, Conflict], paths: dict[UUID, str]
    ) -> None:
        """Deletes the files of conflicts that were resolved, or whose document is deleted or erased.

        One that a person wrote into meanwhile stays, and becomes a document of its own; unless the document was erased.
        """
        over = [
            (base, paths.get(conflict))
            for conflict, base in state.conflicts.items()
            if conflict not in conflicts or conflicts[conflict].deleted
        ]
        if not over:
            return
        there = await self._store.owners({base.document for base, _ in over})
        forgotten = []
        for base, path in over:
            erased = base.document not in there
            file: FileText | None = None if path is None else state.files.known.get(path)
            if path is not None and file is None and erased:
                file = state.files.unread.get(path)  # it is no text by now
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
    front = Front(
        one.document,
        one.source,
        one.document_type,
        one.created,
        one.made,
        conflict=one.id,
        note=f"{ADVICE} {one.id}",
    )
    return write(front, one.text)


def _noted(path: str, one: Conflict, hashed: bytes, digest: bytes) -> Noted:
    return Noted(path, one.document, one.id, one.user, digest, hashed, None)
