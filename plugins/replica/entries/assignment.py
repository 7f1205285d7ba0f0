"""Assigns entries to files: new entries, and those that agents moved, get a place; files with changed entries become stale.

Promise: an entry stays in its file. A new file begins when the last one is full, so a new entry changes one file. Without
changes no entry is read: writers note their changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from uuid import UUID, uuid4

from plugins.replica.pass_state import PassState
from plugins.replica.rules.collections import PART_BYTES, PART_SECTIONS, Key, Source, path_of
from plugins.replica.rules.paths import key
from plugins.replica.store.entries import (
    CHANGES_AT_ONCE,
    MAKE,
    Change,
    Collection,
    CollectionsStore,
    PlacedEntry,
)

COMPARE_SECONDS = 3600.0
"""How often all entries are compared with the known ones, in case a change was not noted."""
USER = "user"


class Assignment:
    """Puts entries into collections."""

    def __init__(self, store: CollectionsStore) -> None:
        self._store = store
        self._compared: float | None = None

    async def run(self, state: PassState, collections: dict[UUID, Collection]) -> set[UUID]:
        """Processes the notes. Adds to `collections`, and returns the stale ones."""
        clock = time.monotonic()
        if self._compared is None or clock - self._compared > COMPARE_SECONDS:
            await self._store.compare([])
            self._compared = clock
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
            rooms = rooms or _Rooms(collections, state)
            await self._fill(rooms, changes)
            await self._store.learn_homes(
                state.homes, [one.key.user for one in changes if one.key is not None]
            )
            placed, changed = [], set()
            for change in changes:
                place = rooms.place(change)
                if place is not None:
                    placed.append(place)
                    changed.add(place.collection)
                if change.collection is not None and (place is not None or change.differs):
                    changed.add(change.collection)
            await self._store.write(MAKE, [one.row() for one in rooms.take_new()])
            await self._store.place([number for number, *_ in notes], changed, placed)
            stale |= changed
            if len(notes) < CHANGES_AT_ONCE:
                break
        return stale

    async def _fill(self, rooms: _Rooms, changes: Iterable[Change]) -> None:
        """Reads the size of the last files of these entries."""
        wanted = rooms.unknown({change.key for change in changes if change.key is not None})
        if wanted:
            rooms.learn(wanted, await self._store.filled(wanted))


class _Rooms:
    """The last file of each collection, and its size."""

    def __init__(self, collections: dict[UUID, Collection], state: PassState) -> None:
        self._collections = collections
        self._taken, self._homes = state.taken, state.homes
        self._last: dict[Key, Collection] = {}
        self._full: dict[UUID, tuple[int, int]] = {}
        self._new: list[Collection] = []
        for one in collections.values():
            last = self._last.get(one.key)
            if not one.erased and (last is None or last.part < one.part):
                self._last[one.key] = one

    def unknown(self, keys: Iterable[Key]) -> list[UUID]:
        """Those of these files whose size is not known."""
        return [one.id for of in keys if (one := self._last.get(of)) is not None and one.id not in self._full]

    def learn(self, ids: Iterable[UUID], filled: dict[UUID, tuple[int, int]]) -> None:
        """Sets their sizes in sections and bytes."""
        self._full |= {one: filled.get(one, (0, 0)) for one in ids}

    def place(self, change: Change) -> PlacedEntry | None:
        """The place of an entry that has none, or belongs to another file now."""
        if change.key is None:
            return None
        known = self._collections.get(change.collection) if change.collection is not None else None
        if known is not None and known.key == change.key:
            return None
        one = self._last.get(change.key)
        sections, size = self._full[one.id] if one is not None else (0, 0)
        is_full = sections >= PART_SECTIONS or (sections > 0 and size + change.size > PART_BYTES)
        if one is None or is_full:
            one, sections, size = self._begin(change.key, 1 if one is None else one.part + 1), 0, 0
        self._full[one.id] = sections + 1, size + change.size
        return PlacedEntry(change.source.value, change.id, one.id, change.size, change.label)

    def take_new(self) -> list[Collection]:
        """The new files."""
        new, self._new = self._new, []
        return new

    def _begin(self, of: Key, part: int) -> Collection:
        path = path_of(of, part, taken=self._taken, homes=self._homes)
        one = Collection(uuid4(), of, part, path, None, None)
        self._taken.add(key(one.path))
        self._last[of] = self._collections[one.id] = one
        self._new.append(one)
        return one
