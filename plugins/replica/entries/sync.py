"""The replica of memories, insights and knowledge: a pass over the files with a section for each entry.

Promise: as for documents (sync). A person's text and its base are written in one transaction; a file is written before it is
noted; a pass may end at any point, and the next one continues. An entry stays in its file. A new file begins when the last one
is full, so a new entry changes one file. Without changes no entry is read: writers note their changes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from uuid import UUID, uuid4

from plugins.replica.changed_files import FileText
from plugins.replica.entries.file import CollectionFiles
from plugins.replica.pass_state import PassState, Settling, SkipReason, Writer
from plugins.replica.rules.collections import AGENTS, PART_BYTES, PART_SECTIONS, Key, Source, key_of, path_of
from plugins.replica.rules.paths import key, safe, user_of
from plugins.replica.rules.sections import read_sections
from plugins.replica.store.entries import (
    ADOPT,
    CHANGES_AT_ONCE,
    FORGET,
    MAKE,
    Change,
    Collection,
    CollectionsStore,
    PlacedEntry,
)

COMPARE_SECONDS = 3600.0
"""How often all entries are compared with the known ones, in case a change was not noted."""
USER = "user"


class _Rooms:
    """The last file of each collection, and its size in sections and bytes."""

    def __init__(
        self, store: CollectionsStore, state: PassState, collections: dict[UUID, Collection]
    ) -> None:
        self._store = store
        self._state = state
        self._collections = collections
        self._last: dict[Key, Collection] = {}
        self._full: dict[UUID, tuple[int, int]] = {}
        for one in collections.values():
            last = self._last.get(one.key)
            if not one.erased and (last is None or last.part < one.part):
                self._last[one.key] = one

    async def place(self, entries: Sequence[tuple[Change, Key]]) -> list[PlacedEntry]:
        """Places entries that have no file, or belong to another one now; begins new files."""
        keys = {of for _, of in entries}
        wanted = [last.id for of in keys if (last := self._last.get(of)) and last.id not in self._full]
        if wanted:
            filled = await self._store.filled(wanted)
            self._full |= {one: filled.get(one, (0, 0)) for one in wanted}
        await self._store.learn_homes(self._state.homes, [of.user for of in keys])
        known = set(self._collections)
        placed = [self._place(change, of) for change, of in entries]
        new = [one.row() for one in self._collections.values() if one.id not in known]
        await self._store.write(MAKE, new)
        return placed

    def _place(self, change: Change, of: Key) -> PlacedEntry:
        one = self._last.get(of)
        sections, size = self._full[one.id] if one is not None else (0, 0)
        if one is None or sections >= PART_SECTIONS or (sections > 0 and size + change.size > PART_BYTES):
            part = 1 if one is None else one.part + 1
            path = path_of(of, part, taken=self._state.taken, homes=self._state.homes)
            one, sections, size = Collection(uuid4(), of, part, path, None, None), 0, 0
            self._state.taken.add(key(path))
            self._last[of] = self._collections[one.id] = one
        self._full[one.id] = sections + 1, size + change.size
        return PlacedEntry(change.source.value, change.id, one.id, change.size, change.label)


class Collections:
    def __init__(self, store: CollectionsStore, writer: Writer, settling: Settling) -> None:
        self._store = store
        self._writer = writer
        self._compared: float | None = None
        self._unnoted: str | None = None
        """Transactions before this one perhaps changed what was not noted, and have not ended."""
        self._files = CollectionFiles(store, writer)
        self._settling = settling
        self.known: dict[UUID, Collection] = {}
        """The existing collections."""
        self._claimed: dict[str, FileText] = {}
        self._at: dict[UUID, tuple[str, FileText]] = {}
        """The path and content of each collection's file."""

    async def load(self) -> dict[str, UUID]:
        """Reads the collections, each by the path of its file."""
        self.known = {one.id: one for one in await self._store.collections()}
        return {one.path: one.id for one in self.known.values()}

    def claim(self, state: PassState) -> None:
        """Separates the files of entries from those of documents."""
        documents = {base.path for base in (*state.bases.values(), *state.conflicts.values())}
        own = {one.path for one in self.known.values()}
        self._claimed = {
            path: known
            for path, known in state.files.known.items()
            if known.id is None
            and known.conflict is None
            and path not in documents
            and (path in own or known.collection is not None or key_of(path) is not None)
        }
        erased = {one.key.user for one in self.known.values() if one.erased}
        # Files at their own path last: a person may have moved the others, which the database does not know yet.
        for path in sorted(self._claimed, key=own.__contains__):
            del state.files.known[path]
            if (user := user_of(path)) is not None and user not in erased:
                state.homes[user] = PurePosixPath(path).parts[1]

    async def run(self, state: PassState) -> None:
        collections = self.known
        self._at = files = self._located(state)
        if erased := [one for one in collections.values() if one.erased]:
            await self._erase(state, erased)
        await self._begin(state)
        stale = await self._assign(state)
        changed = {
            one.id: found
            for one in collections.values()
            if (found := files.get(one.id)) is not None and found[1].hash != one.file
        }
        # Copies of files of entries stay as they are: nobody knows which one is meant.
        own = {path for path, _ in files.values()}
        copies = [path for path, known in self._claimed.items() if known.collection and path not in own]
        state.report.left_out |= dict.fromkeys(copies, SkipReason.COPY)
        unreadable = await self._adopt(state, changed)
        gone = {
            one.id
            for one in collections.values()
            if one.file is not None and one.id not in files and one.path not in state.files.unknown
        }
        if not self._settling.is_over(state, {collections[one].path for one in gone}):
            unreadable |= gone
        due = stale | changed.keys() | gone
        for one in list(collections.values()):
            path, known = files.get(one.id, (one.path, None))
            if path in state.files.unknown or one.id in unreadable:
                continue
            is_moved = one.path != path
            if one.stale or one.missing or is_moved or one.id in due:
                await self._files.run(state, replace(one, path=path), known, is_moved=is_moved)
        paths = [path for one, (path, _) in files.items() if one in self._files.refused]
        state.report.left_out |= dict.fromkeys(paths, SkipReason.REFUSED)

    async def _assign(self, state: PassState) -> set[UUID]:
        """Processes the notes of changes: puts entries into collections, also new ones. Returns the stale ones."""
        clock = time.monotonic()
        if self._compared is None:
            self._unnoted = await self._store.note_changes()
        have_ended = self._unnoted is not None and await self._store.have_ended(self._unnoted)
        if self._compared is None or have_ended or clock - self._compared > COMPARE_SECONDS:
            await self._store.compare([])
            self._compared = clock
            if have_ended:
                self._unnoted = None
        stale: set[UUID] = set()
        rooms: _Rooms | None = None
        while notes := await self._store.changes():
            if switched := [number for number, source, _ in notes if source == USER]:
                # A user's memory was switched off or on: all entries of the user disappear, or come back.
                await self._store.compare(switched)
                continue
            changes: list[Change] = []
            for source in Source:
                if ids := sorted({row for _, name, row in notes if name == source.value}):
                    changes += await self._store.changed(source, ids)
            homes: dict[UUID | None, Key] = {one.id: one.key for one in self.known.values()}
            moved = [
                (one, one.key)
                for one in changes
                if one.key is not None and homes.get(one.collection) != one.key
            ]
            placed: list[PlacedEntry] = []
            if moved:
                rooms = rooms or _Rooms(self._store, state, self.known)
                placed = await rooms.place(moved)
            left = {one.collection for one, _ in moved} | {one.collection for one in changes if one.differs}
            changed = {one for one in left if one is not None} | {one.collection for one in placed}
            await self._store.place([number for number, *_ in notes], changed, placed)
            stale |= changed
            if len(notes) < CHANGES_AT_ONCE:
                break
        return stale

    def _located(self, state: PassState) -> dict[UUID, tuple[str, FileText]]:
        """The path of each collection's file, also after a person moved it."""
        marks: dict[UUID, list[str]] = {}
        for path, file in sorted(self._claimed.items()):
            if file.collection is not None:
                marks.setdefault(file.collection, []).append(path)
        found: dict[UUID, tuple[str, FileText]] = {}
        for one in self.known.values():
            known = self._claimed.get(one.path)
            if known is not None and known.collection in (None, one.id):
                found[one.id] = one.path, known
                continue
            if one.path in state.files.unknown:
                continue
            for path in marks.get(one.id, ()):
                if user_of(path) in (None, one.key.user):
                    found[one.id] = path, self._claimed[path]
                    break
        return found

    async def _erase(self, state: PassState, erased: Sequence[Collection]) -> None:
        """Deletes the files of erased users and copies of them, also changed ones."""
        gone = []
        for one in erased:
            there = self._claimed | state.files.unread
            own = {path for path, known in there.items() if known.collection == one.id}
            own |= {self._at[one.id][0]} if one.id in self._at else {one.path} & state.files.unread.keys()
            done = one.path in own or one.path not in state.files.unknown
            for path in sorted(own):
                removed = await self._writer.remove(state, path, replaces=there[path].hash, for_good=True)
                state.report.counts["removed"] += removed
                done &= removed
                if removed:
                    self._claimed.pop(path, None)
                    state.listing.files.pop(path, None)
                    state.taken.discard(key(path))
            if done:
                gone.append((one.id,))
            self._at.pop(one.id, None)
            del self.known[one.id]
        await self._store.write(FORGET, gone)

    async def _begin(self, state: PassState) -> None:
        """Makes collections of files that people put at the path of a collection."""
        collections, known_paths = self.known, {path for path, _ in self._at.values()}
        new = []
        for path, known in self._claimed.items():
            of = key_of(path)
            if of is None or path in known_paths or known.collection is not None:
                continue
            said = await self._writer.read(state, path, known, read_sections)
            if said is None or not said.sections:
                continue
            if path.startswith(f"{AGENTS}/") and of.agent is not None:
                agents = {safe(one.key.agent): one.key.agent for one in collections.values() if one.key.agent}
                of = replace(of, agent=agents.get(of.agent, of.agent))
            part = 1 + max((one.part for one in collections.values() if one.key == of), default=0)
            one = Collection(uuid4(), of, part, path, None, None)
            collections[one.id], self._at[one.id] = one, (path, known)
            new.append(one)
        await self._store.write(MAKE, [one.row() for one in new])

    async def _adopt(self, state: PassState, changed: Mapping[UUID, tuple[str, FileText]]) -> set[UUID]:
        """Follows sections that people moved to another file of the same kind and user.

        Returns the collections with changed files that cannot be read now.
        """
        named: dict[UUID, set[UUID]] = {}
        for id_, (path, known) in changed.items():
            said = await self._writer.read(state, path, known, read_sections)
            if said is not None:
                named[id_] = {section.id for section in said.sections if section.id is not None}
        for id_, ids in named.items():
            one = self.known[id_]
            adopted = []
            for entry, there in (await self._store.elsewhere(one.key.source, id_, ids)).items():
                home = self.known.get(there.collection)
                if home is None or not there.is_written or home.key.user != one.key.user:
                    continue
                # An unchanged file has all its sections, also if it was moved.
                has_left = home.id not in self._at and home.path not in state.files.unknown
                if entry not in named[home.id] if home.id in named else has_left:
                    adopted.append((entry,))
            await self._store.write(ADOPT, sorted(adopted), id_)
            state.report.counts["moved"] += len(adopted)
        return changed.keys() - named.keys()
