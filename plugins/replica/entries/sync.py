"""The replica of memories, insights and knowledge: a pass over the files with a section for each entry.

Promise: as for documents (sync). A person's text and its base are written in one transaction; a file is written before it is
noted; a pass may end at any point, and the next one continues.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from uuid import UUID, uuid4

from plugins.replica.changed_files import FileText
from plugins.replica.deletions import Deletions
from plugins.replica.entries.assignment import Assignment
from plugins.replica.entries.file import CollectionFile, CollectionFiles
from plugins.replica.pass_state import PassState, SkipReason, Writer
from plugins.replica.rules.collections import AGENTS, key_of
from plugins.replica.rules.paths import key, safe, user_of
from plugins.replica.store.entries import ADOPT, FORGET, MAKE, Collection, CollectionsStore


class Collections:
    """Makes files of entries, and the entries, the same."""

    def __init__(self, store: CollectionsStore, writer: Writer, deletions: Deletions) -> None:
        self._store = store
        self._writer = writer
        self._places = Assignment(store)
        self._files = CollectionFiles(store, writer)
        self._deletions = deletions
        self.known: dict[UUID, Collection] = {}
        """The existing collections."""
        self._claimed: dict[str, FileText] = {}

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
        """One pass."""
        collections = self.known
        files = self._located(state, collections)
        await self._erase(state, collections, files)
        await self._begin(state, collections, files)
        stale = await self._places.run(state, collections)
        changed = {
            one.id: found
            for one in collections.values()
            if (found := files.get(one.id)) is not None and found[1].hash != one.file
        }
        self._leave_copies(state, files)
        unreadable = await self._adopt(state, collections, changed, files.keys())
        gone = {
            one.id
            for one in collections.values()
            if one.file is not None and one.id not in files and one.path not in state.files.unknown
        }
        if not self._deletions.are_settled(state, {collections[one].path for one in gone}):
            unreadable |= gone
        due = stale | changed.keys() | gone
        for one in list(collections.values()):
            path, known = files.get(one.id, (one.path, None))
            if path in state.files.unknown or one.id in unreadable:
                continue
            is_moved = one.path != path
            if one.stale or one.missing or is_moved or one.id in due:
                await self._files.run(state, CollectionFile(replace(one, path=path), known, is_moved))
        paths = [path for one, (path, _) in files.items() if one in self._files.refused]
        state.report.left_out |= dict.fromkeys(paths, SkipReason.REFUSED)

    def _located(
        self, state: PassState, collections: Mapping[UUID, Collection]
    ) -> dict[UUID, tuple[str, FileText]]:
        """The path of each collection's file, also after a person moved it."""
        marks: dict[UUID, list[str]] = {}
        for path, file in sorted(self._claimed.items()):
            if file.collection is not None:
                marks.setdefault(file.collection, []).append(path)
        found: dict[UUID, tuple[str, FileText]] = {}
        for one in collections.values():
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

    async def _erase(
        self, state: PassState, collections: dict[UUID, Collection], files: dict[UUID, tuple[str, FileText]]
    ) -> None:
        """Deletes the files of erased users and copies of them, also changed ones."""
        erased = [one for one in collections.values() if one.erased]
        gone = []
        for one in erased:
            there = self._claimed | state.files.unread
            own = {path for path, known in there.items() if known.collection == one.id}
            own |= {files[one.id][0]} if one.id in files else {one.path} & state.files.unread.keys()
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
            files.pop(one.id, None)
            del collections[one.id]
        await self._store.write(FORGET, gone)

    async def _begin(
        self, state: PassState, collections: dict[UUID, Collection], files: dict[UUID, tuple[str, FileText]]
    ) -> None:
        """Makes collections of files that people put at the path of a collection."""
        known_paths = {path for path, _ in files.values()}
        agents = {safe(one.key.agent): one.key.agent for one in collections.values() if one.key.agent}
        new = []
        for path, known in self._claimed.items():
            of = key_of(path)
            if of is None or path in known_paths or known.collection is not None:
                continue
            said = await self._writer.sections(state, path, known)
            if said is None or not said.sections:
                continue
            if path.startswith(f"{AGENTS}/") and of.agent is not None:
                of = replace(of, agent=agents.get(of.agent, of.agent))
            part = 1 + max((one.part for one in collections.values() if one.key == of), default=0)
            one = Collection(uuid4(), of, part, path, None, None)
            collections[one.id], files[one.id] = one, (path, known)
            new.append(one)
        await self._store.write(MAKE, [one.row() for one in new])

    def _leave_copies(self, state: PassState, files: Mapping[UUID, tuple[str, FileText]]) -> None:
        """Leaves copies of files of entries as they are: nobody knows which one is meant."""
        own = {path for path, _ in files.values()}
        copies = [path for path, known in self._claimed.items() if known.collection and path not in own]
        state.report.left_out |= dict.fromkeys(copies, SkipReason.COPY)
        state.report.copies = len(copies)

    async def _adopt(
        self,
        state: PassState,
        collections: Mapping[UUID, Collection],
        changed: Mapping[UUID, tuple[str, FileText]],
        located: Container[UUID],
    ) -> set[UUID]:
        """Follows sections that people moved to another file of the same kind and user.

        Returns the collections with changed files that cannot be read now.
        """
        named: dict[UUID, set[UUID]] = {}
        for id_, (path, known) in changed.items():
            said = await self._writer.sections(state, path, known)
            if said is not None:
                named[id_] = {section.id for section in said.sections if section.id is not None}
        for id_, ids in named.items():
            one = collections[id_]
            adopted = []
            for entry, there in (await self._store.elsewhere(one.key.source, id_, ids)).items():
                home = collections.get(there.collection)
                if home is None or not there.is_written:
                    continue
                if home.key.user == one.key.user and self._has_left(state, home, entry, located, named):
                    adopted.append((entry,))
            await self._store.write(ADOPT, sorted(adopted), id_)
            state.report.counts["moved"] += len(adopted)
        return changed.keys() - named.keys()

    def _has_left(
        self,
        state: PassState,
        home: Collection,
        entry: UUID,
        located: Container[UUID],
        named: Mapping[UUID, set[UUID]],
    ) -> bool:
        """Whether an entry's own file does not have its section any more."""
        if home.id in named:
            return entry not in named[home.id]
        # An unchanged file has all its sections, also if it was moved.
        return home.id not in located and home.path not in state.files.unknown
