"""Files that the replica ignores: people see which they are, and an erasure deletes them too."""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from uuid import UUID

from plugins.replica.pass_state import PassState, SkipReason, Writer
from plugins.replica.rules.paths import key, user_of
from plugins.replica.store.documents import Store

MAX_TOLD = 100
"""Files that are listed."""


class IgnoredFiles:
    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._told: dict[str, SkipReason] | None = None

    async def note(self, state: PassState) -> None:
        found = dict(islice(sorted(state.report.left_out.items(), key=lambda one: one[0]), MAX_TOLD))
        if found != self._told:
            users = {base.path: base.user for base in (*state.bases.values(), *state.conflicts.values())}
            await self._store.note_skipped(
                [(path, user_of(path) or users.get(path), why.value) for path, why in found.items()]
            )
            self._told = found

    async def erase_again(self, state: PassState, collections: Container[UUID]) -> None:
        """Deletes files of erased rows: a program had them open, and saved them after the erasure.

        `collections`: the existing ones. Such a file is ignored even if it cannot be deleted now.
        """
        named: dict[str, UUID] = {}
        for path, file in state.files.known.items():
            one = file.conflict or file.id or file.collection
            if one is not None and not (one in state.bases or one in state.conflicts or one in collections):
                named[path] = one
        if not named:
            return
        erased = await self._store.entries.erased(set(named.values()))
        for path in [path for path, one in named.items() if one in erased]:
            file = state.files.known[path]
            del state.files.known[path]
            if await self._writer.remove(state, path, replaces=file.hash, for_good=True):
                state.report.counts["erased"] += 1
                state.listing.files.pop(path, None)
                state.taken.discard(key(path))
