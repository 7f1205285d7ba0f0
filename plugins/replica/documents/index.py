"""README.md and Index.md in the root: rewritten when their content changes, or when somebody wrote into them.

Promise: a person's own file with such a name is not overwritten. It gets another name and becomes a document.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import PurePosixPath

from plugins.replica.folder import Folder, Signature
from plugins.replica.pass_state import PassState, Writer
from plugins.replica.rules.collections import title_of
from plugins.replica.rules.index import README_TEXT, index, is_kept
from plugins.replica.rules.paths import INDEX, README, free, is_memoryds_own, key
from plugins.replica.store.documents import Store


class Index:
    """Keeps both files up to date."""

    def __init__(self, store: Store, folder: Folder, writer: Writer) -> None:
        self._store = store
        self._folder = folder
        self._writer = writer
        self._stale = True
        self._seen: dict[str, Signature] = {}

    async def run(self, state: PassState) -> None:
        """Compares both files with their content, and writes those that differ."""
        now = {path: entry.signature for path, entry in state.listing.files.items() if is_memoryds_own(path)}
        self._stale |= any(state.report.counts.values()) or now != self._seen
        if not self._stale or state.report.again:
            return
        wrote = False
        for name in (README, INDEX):
            content = README_TEXT.encode() if name == README else await self._contents()
            # Its name now, which may differ in upper and lower case.
            same = [path for path in now if key(path) == key(name)]
            path, *others = sorted(same, key=lambda one: one != name) or [name]
            found = await self._hash(state, path) if path in now else None
            is_right = found == sha256(content).digest()
            if found is not None and not is_right and await self._is_persons(path):
                path, others, found = name, [*others, path], None
            for other in others:
                if not await self._give_way(state, other):
                    return
            if not is_right:
                if not await self._writer.write(state, path, content, replaces=found):
                    return
                wrote = True
        # A file that was just written is checked once more.
        self._stale, self._seen = False, {} if wrote else now

    async def _give_way(self, state: PassState, path: str) -> bool:
        """Renames a person's own file with such a name; returns whether it did."""
        to = free(PurePosixPath(), PurePosixPath(path).stem, taken=state.taken)
        found = await self._hash(state, path)
        if found is None or not await self._writer.move(state, path, to, replaces=found):
            return False
        state.taken.add(key(to))
        state.report.counts["moved"] += 1
        state.report.again = True
        return True

    async def _is_persons(self, path: str) -> bool:
        try:
            return not is_kept(await asyncio.to_thread(self._folder.read, path))
        except OSError:
            return False

    async def _contents(self) -> bytes:
        documents = await self._store.contents()
        entries = [(path, title_of(of)) for path, of in await self._store.entries.contents()]
        return (await asyncio.to_thread(index, documents, entries)).encode()

    async def _hash(self, state: PassState, path: str) -> bytes | None:
        if (told := state.listing.files[path].hash) is not None:
            return told
        try:
            return sha256(await asyncio.to_thread(self._folder.read, path)).digest()
        except OSError:
            return None
