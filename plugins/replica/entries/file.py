"""One file of entries: exchanges the changes of both sides, then writes the file if it has to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from uuid import UUID

from plugins.files.refusals import accepted
from plugins.replica.changed_files import FileText
from plugins.replica.pass_state import PassState, Writer
from plugins.replica.rules.collections import conflict_section, path_of, preamble, section_of
from plugins.replica.rules.decision import RECENT_SECONDS, ask_first
from plugins.replica.rules.document_file import plain
from plugins.replica.rules.merge import (
    NOTHING_SEEN,
    Age,
    LostText,
    NotedEntry,
    OtherEntry,
    Plan,
    merge,
)
from plugins.replica.rules.paths import key
from plugins.replica.rules.sections import Section, Sections, read_sections, write_sections
from plugins.replica.store.entries import (
    BURY,
    CHANGE_CONFLICTS,
    Collection,
    CollectionsStore,
)


class CollectionFiles:
    def __init__(self, store: CollectionsStore, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self.refused: set[UUID] = set()
        """Files with a section that the database refused at the last comparison."""

    async def run(self, state: PassState, one: Collection, known: FileText | None, *, is_moved: bool) -> None:
        """`known`: its file; None: there is none."""
        # If another file took its place, nobody deleted its sections: treat it as a copy without a version.
        said: Sections | None = Sections("", [], NOTHING_SEEN if one.path in state.listing.files else None)
        self.refused.discard(one.id)
        if known is not None:
            said = await self._writer.read(state, one.path, known, read_sections)
            if said is None:
                return  # it has changed since it was read: the next pass reads it again
        assert said is not None
        noted, conflicts = await self._store.sections(one.key.source, one.id)
        others = {section.id for section in said.sections if section.id is not None} - noted.keys()
        strange = {c for section in said.sections if (c := section.conflict) is not None} - conflicts.keys()
        elsewhere: dict[UUID, OtherEntry] = {}
        age = Age(said.version, one.version)
        if others or strange:
            elsewhere = await self._store.elsewhere(one.key.source, one.id, others)
            others -= elsewhere.keys()
            buried = await self._store.buried(one.key.source, others)
            age = replace(age, buried=buried, erased=await self._store.erased(others | strange))
        plan = merge(one.key, said.sections, noted, conflicts, elsewhere=elsewhere, age=age)
        time = state.listing.files[one.path].modified if known is not None else datetime.now(UTC)
        await self._write_edits(state, one, plan, said, time)
        changed = [(id_, words.title, words.body) for id_, words in plan.changed_conflicts]
        await self._store.write(CHANGE_CONFLICTS, changed)
        if plan.removed and not await self._bury(state, one, known, plan, noted):
            return
        if known is not None and plan.ended_conflicts:
            # If the whole file is gone, no person has decided on the conflict.
            await self._store.end_conflicts(plan.ended_conflicts)
            state.report.counts["resolved"] += len(plan.ended_conflicts)
        done = plan.edits or plan.additions or plan.removed or plan.changed_conflicts or plan.ended_conflicts
        if done:
            noted, conflicts = await self._store.sections(one.key.source, one.id)
            if not all(_is_open(id_, noted, conflicts) for id_, _ in plan.changed_conflicts):
                # It ended, or its entry was deleted, after it was read: the next pass makes an entry of the person's text.
                state.report.again = True
                return
        if await self._write(state, one, known, plan, said, noted=noted, conflicts=conflicts):
            state.report.counts["moved"] += is_moved

    async def _write_edits(
        self, state: PassState, one: Collection, plan: Plan, said: Sections, time: datetime
    ) -> None:
        """Writes edits and additions. A section that the database refuses stays as it is."""
        counts = state.report.counts
        written, refused = await accepted(partial(self._store.write_edits, one.key.source, time), plan.edits)
        taken: set[UUID] = set(written)
        counts["taken"] += len(taken)
        state.report.again |= len(taken) + len(refused) < len(plan.edits)
        for edit in plan.edits:
            if edit.id in taken:
                counts["conflicts"] += edit.lost
                continue
            for section in said.sections:
                if section.id == edit.id and section.conflict is None:
                    plan.layout[plan.layout.index(edit.id)] = section
                    break
        if promoted := [conflict for entry, conflict in plan.promoted.items() if entry in taken]:
            await self._store.end_conflicts(promoted)
            counts["resolved"] += len(promoted)
        added, others = await accepted(partial(self._store.add, one.id, time), plan.additions)
        for place, entry in added:
            plan.layout[plan.places[place]] = entry
        counts["added"] += len(added)
        if refused or others:
            self.refused.add(one.id)

    async def _bury(
        self,
        state: PassState,
        one: Collection,
        known: FileText | None,
        plan: Plan,
        noted: Mapping[UUID, NotedEntry],
    ) -> bool:
        """Deletes the entries whose sections people deleted, or asks a person; returns whether the file may be written."""
        removed = plan.removed
        is_whole = known is None or (known.collection is None and len(removed) == len(noted))
        recent, everywhere, all_known = await self._store.recently_buried(one.id, RECENT_SECONDS)
        is_much = (
            is_whole
            or ask_first(len(removed) + recent, of=len(noted) + recent)
            or ask_first(len(removed) + everywhere, of=all_known + everywhere)
        )
        if is_much and not one.confirmed:
            await self._store.ask_confirmation(one.id, len(removed))
            state.report.asked_entries += len(removed)
            return False
        more = one.key.source.value, one.id, one.confirmed
        state.report.counts["deleted"] += len(await self._store.write(BURY, list(removed.items()), *more))
        return True

    async def _write(
        self,
        state: PassState,
        one: Collection,
        known: FileText | None,
        plan: Plan,
        said: Sections,
        *,
        noted: Mapping[UUID, NotedEntry],
        conflicts: Mapping[UUID, LostText],
    ) -> bool:
        layout = _layout(plan, noted)
        sections = list(_rendered(one, layout, noted, conflicts))
        if known is not None:
            # Without a person's text above the first section memoryd writes its own.
            is_own = said.preamble in ("", plain(preamble(one.key, one.id)))
            one = replace(one, preamble=None if is_own else said.preamble)
        hashed: bytes | None = None if known is None else known.hash
        if not sections and one.preamble is None:
            if known is not None:
                if not await self._writer.remove(state, one.path, replaces=known.hash):
                    return False
                state.report.counts["removed"] += 1
            hashed = None
        elif (
            known is None
            or sections != said.sections
            # An old copy, or one that lacks what others have: the version in the file says so.
            or (said.version or 0) != one.version
            or any(it.since > one.version for it in noted.values())
        ):
            if known is None and one.path in state.listing.files:
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
                    return False
                state.report.counts["written"] += 1
            hashed = new
        shown = [
            (entry, row.words.label, row.words.digest(), row.version)
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
        return True


def _layout(plan: Plan, noted: Mapping[UUID, NotedEntry]) -> list[UUID | Section]:
    """The new file: the sections of the person's file in their order, then the new ones."""
    there = {entry for entry, it in noted.items() if it.entry is not None}
    layout = [one for one in plan.layout if not isinstance(one, UUID) or one in there]
    placed = {one if isinstance(one, UUID) else one.id for one in layout}
    return [*layout, *(entry for entry in noted if entry in there and entry not in placed)]


def _is_open(conflict: UUID, noted: Mapping[UUID, NotedEntry], conflicts: Mapping[UUID, LostText]) -> bool:
    other = conflicts.get(conflict)
    entry = None if other is None or other.ended else noted.get(other.entry)
    return entry is not None and entry.entry is not None


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
