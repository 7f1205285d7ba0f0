"""One file of entries: exchanges the changes of both sides, then writes the file if it has to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from uuid import UUID

from plugins.replica.changed_files import FileText
from plugins.replica.deletions import RECENT_SECONDS
from plugins.replica.pass_state import PassState, Writer
from plugins.replica.rules.collections import conflict_section, path_of, preamble, section_of
from plugins.replica.rules.decision import ask_first
from plugins.replica.rules.document_file import plain
from plugins.replica.rules.merge import NOTHING_SEEN, Addition, Age, Edit, LostText, NotedEntry, Plan, merge
from plugins.replica.rules.paths import key
from plugins.replica.rules.sections import Section, Sections, write_sections
from plugins.replica.store.entries import BURY, CHANGE_CONFLICTS, Collection, CollectionsStore, FileEntry
from plugins.replica.store.statements import accepted


@dataclass(frozen=True, slots=True)
class CollectionFile:
    """A collection and its file."""

    collection: Collection
    known: FileText | None
    """None: there is no file."""
    is_moved: bool


class CollectionFiles:
    """Makes a file and its entries the same."""

    def __init__(self, store: CollectionsStore, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self.refused: set[UUID] = set()
        """Files with a section that the database refused at the last comparison."""

    async def run(self, state: PassState, file: CollectionFile) -> None:
        """Compares the file with its entries, and writes both."""
        one = file.collection
        # If another file took its place, nobody deleted its sections: treat it as a copy without a version.
        said: Sections | None = Sections("", [], NOTHING_SEEN if one.path in state.listing.files else None)
        self.refused.discard(one.id)
        if file.known is not None:
            said = await self._writer.sections(state, one.path, file.known)
            if said is None:
                return  # it has changed since it was read: the next pass reads it again
        assert said is not None
        noted = await self._store.sections(one.key.source, one.id)
        others = {section.id for section in said.sections if section.id is not None} - noted.keys()
        elsewhere = await self._store.elsewhere(one.key.source, one.id, others)
        conflicts = await self._store.conflicts(one.key.source, noted)
        others -= elsewhere.keys()
        buried = await self._store.buried(one.key.source, others)
        strange = {c for section in said.sections if (c := section.conflict) is not None} - conflicts.keys()
        age = Age(said.version, one.version, buried, await self._store.erased(others | strange))
        plan = merge(one.key, said.sections, noted, conflicts, elsewhere=elsewhere, age=age)
        time = state.listing.files[one.path].modified if file.known is not None else datetime.now(UTC)
        await self._write_edits(state, one, plan, said, time)
        changed = [(id_, words.title, words.body) for id_, words in plan.changed_conflicts]
        await self._store.write(CHANGE_CONFLICTS, changed)
        if not await self._bury(state, file, plan, noted):
            return
        if file.known is not None:
            # If the whole file is gone, no person has decided on the conflict.
            await self._store.end_conflicts(plan.ended_conflicts)
            state.report.counts["resolved"] += len(plan.ended_conflicts)
        if not plan.is_quiet():
            noted = await self._store.sections(one.key.source, one.id)
            conflicts = await self._store.conflicts(one.key.source, noted)
            if not all(_is_open(id_, noted, conflicts) for id_, _ in plan.changed_conflicts):
                # It ended, or its entry was deleted, after it was read: the next pass makes an entry of the person's text.
                state.report.again = True
                return
        await self._write(state, file, plan, said, noted=noted, conflicts=conflicts)

    async def _write_edits(
        self, state: PassState, one: Collection, plan: Plan, said: Sections, time: datetime
    ) -> None:
        """Writes edits and additions. A section that the database refuses stays as it is."""
        counts, refused = state.report.counts, list[Edit | Addition]()
        write = partial(self._store.write_edits, one.key.source, time)
        taken: set[UUID] = set(await accepted(write, plan.edits, refused.append))
        counts["taken"] += len(taken)
        state.report.again |= len(taken) + len(refused) < len(plan.edits)
        for edit in plan.edits:
            if edit.id in taken:
                counts["conflicts"] += edit.lost
            elif (section := _section_of(said, edit.id)) is not None:
                plan.layout[plan.layout.index(edit.id)] = section
        promoted = [conflict for entry, conflict in plan.promoted.items() if entry in taken]
        await self._store.end_conflicts(promoted)
        counts["resolved"] += len(promoted)
        added = await accepted(partial(self._store.add, one.id, time), plan.additions, refused.append)
        for place, entry in added:
            plan.layout[plan.places[place]] = entry
        counts["added"] += len(added)
        if refused:
            state.report.refused += len(refused)
            self.refused.add(one.id)

    async def _bury(
        self, state: PassState, file: CollectionFile, plan: Plan, noted: Mapping[UUID, NotedEntry]
    ) -> bool:
        """Deletes the entries whose sections people deleted, or asks a person; returns whether the file may be written."""
        one, removed = file.collection, plan.removed
        if not removed:
            return True
        confirmed = one.confirmed
        is_whole = file.known is None or (file.known.collection is None and len(removed) == len(noted))
        recent, everywhere, known = await self._store.recently_buried(one.id, RECENT_SECONDS)
        is_much = (
            is_whole
            or ask_first(len(removed) + recent, of=len(noted) + recent)
            or ask_first(len(removed) + everywhere, of=known + everywhere)
        )
        if is_much and not confirmed:
            await self._store.ask_confirmation(one.id, len(removed))
            state.report.asked_entries += len(removed)
            return False
        more = one.key.source.value, one.id, confirmed
        state.report.counts["deleted"] += len(await self._store.write(BURY, list(removed.items()), *more))
        return True

    async def _write(
        self,
        state: PassState,
        file: CollectionFile,
        plan: Plan,
        said: Sections,
        *,
        noted: Mapping[UUID, NotedEntry],
        conflicts: Mapping[UUID, LostText],
    ) -> None:
        one = file.collection
        layout = _layout(plan, noted)
        sections = list(_rendered(one, layout, noted, conflicts))
        one = replace(one, preamble=_preamble(file, said))
        hashed: bytes | None = None if file.known is None else file.known.hash
        if not sections and one.preamble is None:
            if file.known is not None:
                if not await self._writer.remove(state, one.path, replaces=file.known.hash):
                    return
                state.report.counts["removed"] += 1
            hashed = None
        elif _differs(one, said, sections, noted) or file.known is None:
            if file.known is None and one.path in state.listing.files:
                # The path has another content by now.
                await self._store.learn_homes(state.homes, [one.key.user])
                one = replace(one, path=path_of(one.key, one.part, taken=state.taken, homes=state.homes))
                state.taken.add(key(one.path))
            above = one.preamble or preamble(one.key, one.id)
            one = replace(one, version=1 + max(one.version, said.version or 0))
            content = write_sections(above, sections, collection=one.id, version=one.version)
            new = sha256(content).digest()
            if new != hashed:
                if not await self._writer.write(state, one.path, content, replaces=hashed):
                    return
                state.report.counts["written"] += 1
            hashed = new
        state.report.counts["moved"] += file.is_moved
        shown = [
            FileEntry(entry, row.words.label, row.words.digest(), row.version)
            for entry in layout
            if isinstance(entry, UUID) and (row := noted[entry].entry) is not None
        ]
        listed = {
            other.id: other.words.digest()
            for other in conflicts.values()
            if not other.ended and other.entry in layout
        }
        gone = [entry for entry, it in noted.items() if it.entry is None and entry not in layout]
        await self._store.note(one, hashed, shown=shown, conflicts=listed, gone=gone)


def _differs(
    one: Collection, said: Sections, sections: list[Section], noted: Mapping[UUID, NotedEntry]
) -> bool:
    """Whether a file has to be written: it differs, is an old copy, or has sections that old copies lack."""
    newest = max((it.since for it in noted.values()), default=0)
    return sections != said.sections or (said.version or 0) != one.version or newest > one.version


def _section_of(said: Sections, entry: UUID) -> Section | None:
    return next((one for one in said.sections if one.id == entry and one.conflict is None), None)


def _layout(plan: Plan, noted: Mapping[UUID, NotedEntry]) -> list[UUID | Section]:
    """The new file: the sections of the person's file in their order, then the new ones."""
    layout = [one for one in plan.layout if not isinstance(one, UUID) or _is_there(noted, one)]
    there = {one if isinstance(one, UUID) else one.id for one in layout}
    return [*layout, *(entry for entry in noted if entry not in there and _is_there(noted, entry))]


def _is_there(noted: Mapping[UUID, NotedEntry], entry: UUID) -> bool:
    return entry in noted and noted[entry].entry is not None


def _is_open(conflict: UUID, noted: Mapping[UUID, NotedEntry], conflicts: Mapping[UUID, LostText]) -> bool:
    other = conflicts.get(conflict)
    return other is not None and not other.ended and _is_there(noted, other.entry)


def _rendered(
    one: Collection,
    layout: list[UUID | Section],
    noted: Mapping[UUID, NotedEntry],
    conflicts: Mapping[UUID, LostText],
) -> Iterator[Section]:
    for item in layout:
        if isinstance(item, Section):
            yield item
            continue
        row = noted[item].entry
        assert row is not None
        yield section_of(row, one.key)
        for other in conflicts.values():
            if other.entry == item and not other.ended:
                yield conflict_section(other.id, other.words, other.made, one.key)


def _preamble(file: CollectionFile, said: Sections) -> str | None:
    """The text that a person wrote above the first section; None: memoryd's own."""
    one = file.collection
    if file.known is None:
        return one.preamble
    return None if said.preamble in ("", plain(preamble(one.key, one.id))) else said.preamble
