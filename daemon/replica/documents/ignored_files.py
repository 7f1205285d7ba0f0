"""Files that stay as they are, and nothing comes of them: people are told which, and an erasure deletes them all the same."""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from uuid import UUID

from daemon.replica.pass_state import LeftOut, PassState, Writer
from daemon.replica.store.documents import Store
from memory.replica.paths import key, user_of

MAX_TOLD = 100
"""Files that are named to people."""


class IgnoredFiles:
    """Keeps the list of them true."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._told: dict[str, LeftOut] | None = None

    async def tell(self, state: PassState) -> None:
        """Notes which they are, if these are others than before."""
        found = dict(islice(sorted(state.report.left_out.items(), key=lambda one: one[0]), MAX_TOLD))
        if found != self._told:
            users = {base.path: base.user for base in (*state.bases.values(), *state.conflicts.values())}
            await self._store.leave_out(
                [(path, user_of(path) or users.get(path), why.value) for path, why in found.items()]
            )
            self._told = found

    async def erase_again(self, state: PassState, collections: Container[UUID]) -> None:
        """Deletes files that name what was deleted for good: a program had them open, and saved them once they were gone.

        `collections`: those that there are. Nothing comes of such a file, also where it cannot be deleted now.
        """
        named: dict[str, UUID] = {}
        for path, file in state.files.known.items():
            one = file.conflict or file.id or file.collection
            if one is not None and not (one in state.bases or one in state.conflicts or one in collections):
                named[path] = one
        erased = await self._store.entries.erased(set(named.values()))
        for path in [path for path, one in named.items() if one in erased]:
            file = state.files.known[path]
            del state.files.known[path]
            if await self._writer.remove(state, path, replaces=file.hash, for_good=True):
                state.report.counts["erased"] += 1
                state.listing.files.pop(path, None)
                state.taken.discard(key(path))
