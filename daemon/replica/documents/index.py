"""README.md and Index.md in the root: written again when what they say changes, or when somebody wrote into them.

Promise: a person's own file of such a name is not overwritten. It gets another name, and becomes a document.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import PurePosixPath

from daemon.replica.folder import Folder, Signature
from daemon.replica.pass_state import PassState, Writer
from daemon.replica.store.documents import Store
from memory.replica.collections import title_of
from memory.replica.index import README_TEXT, Contents, is_kept
from memory.replica.paths import INDEX, README, free, is_memoryds_own, key


class Index:
    """Keeps both files true."""

    def __init__(self, store: Store, folder: Folder, writer: Writer) -> None:
        self._store = store
        self._folder = folder
        self._writer = writer
        self._stale = True
        self._seen: dict[str, Signature | None] = {}
        self._persons: set[str] = set()
        """Files that are to get another name in the next pass."""

    async def run(self, state: PassState) -> None:
        """Looks at them; writes what is not as it should be."""
        paths = {_in_listing(state, name): text for name, text in ((README, README_TEXT), (INDEX, ""))}
        now = {path: _signature(state, path) for path in paths}
        self._stale |= sum(state.report.counts.values()) > state.report.unlisted or now != self._seen
        if not self._stale or state.report.again:
            return
        wrote = False
        for path, text in paths.items():
            content = text.encode() if text else await self._contents()
            found = None if now[path] is None else await self._hash(state, path)
            if found == sha256(content).digest():
                continue
            if found is not None and await self._is_persons(path):
                self._persons.add(path)
                state.report.again = True
                return
            if not await self._writer.write(state, path, content, replaces=found):
                return
            wrote = True
        # What was written just now is looked at once more.
        self._stale, self._seen = False, {} if wrote else now

    async def make_room(self, state: PassState) -> None:
        """Gives a person's own files of these names another one."""
        persons, self._persons = self._persons, set()
        mine = {_in_listing(state, name) for name in (README, INDEX)} - persons
        for path in [path for path in state.listing.files if is_memoryds_own(path) and path not in mine]:
            to = free(PurePosixPath(), PurePosixPath(path).stem, taken=state.taken)
            found = await self._hash(state, path)
            if found is not None and await self._writer.move(state, path, to, replaces=found):
                state.taken.add(key(to))
                del state.listing.files[path]
                state.report.counts["moved"] += 1
                state.report.again = True

    async def _is_persons(self, path: str) -> bool:
        try:
            return not is_kept(await asyncio.to_thread(self._folder.read, path))
        except OSError:
            return False

    async def _contents(self) -> bytes:
        contents = Contents()
        async for some in self._store.contents():
            for path, title in some:
                contents.add(path, title)
        entries = [(path, title_of(of)) for path, of in await self._store.entries.contents()]
        return await asyncio.to_thread(contents.written, entries)

    async def _hash(self, state: PassState, path: str) -> bytes | None:
        if (told := state.listing.files[path].hash) is not None:
            return told
        try:
            return sha256(await asyncio.to_thread(self._folder.read, path)).digest()
        except OSError:
            return None


def _in_listing(state: PassState, name: str) -> str:
    """The name that the file has now: perhaps another one in upper and lower case."""
    if name in state.listing.files:
        return name
    return next((path for path in state.listing.files if "/" not in path and key(path) == key(name)), name)


def _signature(state: PassState, path: str) -> Signature | None:
    entry = state.listing.files.get(path)
    return None if entry is None else entry.signature
