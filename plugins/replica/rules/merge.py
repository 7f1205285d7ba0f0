"""Decides entry by entry what to change so that a collection's file and its entries become the same.

Three hashes of each entry decide, as for documents (plugins/replica/rules/decision.py): what section and row had last, both;
what the section has; and what the row has. A fourth one is in the section, of the text that it began from: a person may save
an old copy of the file.

Promise: no text is lost. What one side changed goes to the other. Of what both changed the person's text stands, and the other
one is kept as a conflict. A section that has no text yet stays as it is. What nobody touched in an old copy changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from memory.text import is_blank
from plugins.replica.rules.collections import Entry, Key, Source, Words, label_for, said_by
from plugins.replica.rules.decision import Action, RowState, decide
from plugins.replica.rules.sections import Section, short

NOTHING_SEEN = -1
"""The version of a file that has been before all texts."""


@dataclass(frozen=True, slots=True)
class NotedEntry:
    """An entry that is known to be, or to have been, in a file."""

    base: bytes | None
    """What section and row had last, both; None: it was not written yet."""
    label: str
    """The label that the section had last."""
    erased: bool
    entry: Entry | None
    """The row; None: it is gone, or not current any more."""
    began: str | None = None
    """What the section that was taken last began from, if memoryd wrote no other text since."""
    since: int = 0
    """The version of the file in which memoryd first wrote this text, or will."""


@dataclass(frozen=True, slots=True)
class OtherEntry:
    collection: UUID
    is_written: bool
    """Whether it is in that file."""
    label: str
    left: bytes | None
    """What its section had here when an agent moved it away; None: no agent did."""


@dataclass(frozen=True, slots=True)
class LostText:
    """A conflict: the text that lost against an entry's."""

    id: UUID
    entry: UUID
    words: Words
    made: datetime
    base: bytes | None
    """What its section had last; None: it was not written yet."""
    ended: bool
    since: int = 0
    """The version of the file in which memoryd first wrote this text, or will."""


@dataclass(frozen=True, slots=True)
class Age:
    """The age of a copy that a person saved."""

    version: int | None = None
    """Of the file that it began from; None: it does not say."""
    now: int = 0
    """Of the file that memoryd wrote last."""
    buried: frozenset[UUID] = frozenset()
    """Entries that a person deleted, among those that it names."""
    erased: frozenset[UUID] = frozenset()
    """Entries and conflicts that were erased or forgotten."""

    @property
    def is_old(self) -> bool:
        """Whether memoryd has written the file since."""
        return self.version is not None and self.version < self.now

    def has_seen(self, one: NotedEntry | LostText) -> bool:
        """Whether this copy had the text: else nobody has deleted it. A change wins over a deletion.

        A text that is in no file yet was taken from the newest one.
        """
        return self.version is None or self.version >= min(one.since, self.now)


@dataclass(frozen=True, slots=True)
class Edit:
    """A row takes a section's text."""

    id: UUID
    version: bytes
    words: Words
    lost: bool
    """The row's text was changed too, and becomes a conflict."""
    began: str | None = None


@dataclass(frozen=True, slots=True)
class Addition:
    place: int
    """Of the section in the file."""
    wanted: UUID | None
    """The id that it names: of an entry that a person deleted, perhaps."""
    words: Words


@dataclass(slots=True)
class Plan:
    edits: list[Edit] = field(default_factory=list)
    additions: list[Addition] = field(default_factory=list)
    removed: dict[UUID, bytes] = field(default_factory=dict)
    """Entries whose section a person deleted, with the version of the row that was compared."""
    changed_conflicts: list[tuple[UUID, Words]] = field(default_factory=list)
    ended_conflicts: list[UUID] = field(default_factory=list)
    promoted: dict[UUID, UUID] = field(default_factory=dict)
    """Entries that take the text of a conflict, each with the conflict: an edit says the rest."""
    layout: list[UUID | Section] = field(default_factory=list)
    """The file: entries by their ids, and sections that stay as they are."""
    places: dict[int, int] = field(default_factory=dict)
    """Where in the layout each addition is, by the place of its section."""


def merge(
    of: Key,
    sections: Sequence[Section],
    noted: Mapping[UUID, NotedEntry],
    conflicts: Mapping[UUID, LostText],
    *,
    elsewhere: Mapping[UUID, OtherEntry],
    age: Age | None = None,
) -> Plan:
    """`elsewhere`: those entries of other files that sections name here."""
    return _Merge(of, noted, conflicts, elsewhere, age or Age()).run(sections)


@dataclass(slots=True)
class _Merge:
    _of: Key
    _noted: Mapping[UUID, NotedEntry]
    _conflicts: Mapping[UUID, LostText]
    _elsewhere: Mapping[UUID, OtherEntry]
    _age: Age
    _plan: Plan = field(default_factory=Plan)
    _seen: set[UUID] = field(default_factory=set)
    _finished: set[UUID | None] = field(default_factory=set)
    _other_texts: dict[UUID, Words] = field(default_factory=dict)
    _known_again: dict[bytes, list[UUID]] = field(default_factory=dict)

    def run(self, sections: Sequence[Section]) -> Plan:
        own = [one for one in sections if one.id is not None and one.conflict is None]
        named = {one.id for one in own}
        self._finished = {one.id for one in own if self._is_finished(said_by(one, self._of))}
        missing = [entry for entry in self._noted if entry not in named]
        for one in missing:
            # By what its section had: a section may have lost its id.
            if (base := self._noted[one].base) is not None:
                self._known_again.setdefault(base, []).append(one)
        for place, section in enumerate(sections):
            said = said_by(section, self._of)
            if section.conflict is not None:
                self._conflict(place, section, said)
            elif not self._is_finished(said):
                self._unfinished(section)
            elif (entry := self._entry(section, said)) is not None:
                self._compare(place, section, said, entry)
            elif not self._was_moved_away(section, said) and not self._is_gone(section, said):
                copied = section.id in self._seen or section.id in self._noted
                self._make(place, section, said, wanted=None if copied else section.id)
        self._without_section(missing)
        return self._plan

    def _entry(self, section: Section, said: Words) -> UUID | None:
        if section.id is not None:
            return section.id if section.id in self._noted and section.id not in self._seen else None
        return self._same(said)

    def _same(self, said: Words, *, is_there: bool = False) -> UUID | None:
        """An entry that no section names, and whose section had this text; `is_there`: that has a row. Each is found once."""
        labels = {self._noted[one].label for ids in self._known_again.values() for one in ids}
        for label in sorted(labels) if not said.label else [said.label]:
            ids = self._known_again.get(said.words(label).digest(), [])
            for at, entry in enumerate(ids):
                if not is_there or self._noted[entry].entry is not None:
                    return ids.pop(at)
        return None

    def _was_moved_away(self, section: Section, said: Words) -> bool:
        """Whether an agent moved its entry to another file, and no person wrote into it meanwhile."""
        one = None if section.id is None else self._elsewhere.get(section.id)
        return one is not None and one.left is not None and said.words(one.label).digest() == one.left

    def _is_gone(self, section: Section, said: Words) -> bool:
        """Whether it was erased; or a person saved it in an old copy and did not touch it: it is gone, or in another file."""
        if section.id in self._age.erased:
            return True
        if not self._age.is_old or section.id is None or section.id in self._age.buried:
            return False
        one = self._elsewhere.get(section.id)
        label = one.label if one is not None else label_for(self._of)
        return section.id not in self._noted and _is_untouched(section, said.words(label))

    def _compare(self, place: int, section: Section, said: Words, entry: UUID) -> None:
        self._seen.add(entry)
        one = self._noted[entry]
        if one.entry is None:
            self._without_row(place, section, said, entry, one)
            return
        words, row = said.words(one.label), one.entry
        theirs, began = words.digest(), section.began or None
        if one.base is not None and _is_untouched(section, words):
            theirs = one.base
        action = decide(RowState.THERE, base=one.base, theirs=theirs, ours=row.words.digest())
        if action in (Action.TAKE, Action.TAKE_BOTH):
            is_old = began is not None and one.base is not None and began not in (short(one.base), one.began)
            lost = action is Action.TAKE_BOTH or is_old
            self._plan.edits.append(Edit(entry, row.version, words, lost=lost, began=began))
        self._plan.layout.append(entry)

    def _without_row(self, place: int, section: Section, said: Words, entry: UUID, one: NotedEntry) -> None:
        """Deletes the section of an erased entry, also a changed one; keeps any other text of a person."""
        words = said.words(one.label)
        if not (one.erased or words.digest() == one.base or _is_untouched(section, words)):
            self._make(place, section, said)

    def _make(self, place: int, section: Section, said: Words, *, wanted: UUID | None = None) -> None:
        """A new entry, or the one that an earlier pass made of this section and could not write into the file yet."""
        if (made := self._same(said, is_there=True)) is not None:
            self._compare(place, section, said, made)
            return
        self._plan.places[place] = len(self._plan.layout)
        self._plan.layout.append(section)
        self._plan.additions.append(Addition(place, wanted, said.words(label_for(self._of))))

    def _is_finished(self, said: Words) -> bool:
        return not is_blank(said.body) and (bool(said.title) or self._of.source is not Source.KNOWLEDGE)

    def _unfinished(self, section: Section) -> None:
        if section.id in self._finished or section.id in self._seen:
            # Another section of this id has the text: this one is a new entry, once it has some.
            section = replace(section, id=None)
        if section.id is not None:
            self._seen.add(section.id)
            if (one := self._noted.get(section.id)) is not None and one.entry is None:
                return
        self._plan.layout.append(section)

    def _conflict(self, place: int, section: Section, said: Words) -> None:
        assert section.conflict is not None
        one = self._conflicts.get(section.conflict)
        if one is None or one.id in self._other_texts:
            is_gone = self._age.is_old and _is_untouched(section, said.words(""))
            if not is_blank(said.body) and not is_gone and section.conflict not in self._age.erased:
                self._make(place, section, said)
            return
        words = said.words(one.words.label)
        self._other_texts[one.id] = words
        if one.ended or self._noted[one.entry].entry is None:
            self._without_conflict(place, section, words, one)
        elif (
            words.digest() != one.words.digest()
            and not is_blank(said.body)
            and not _is_untouched(section, said.words(""))
        ):
            self._plan.changed_conflicts.append((one.id, words))

    def _without_conflict(self, place: int, section: Section, words: Words, one: LostText) -> None:
        """A conflict that has ended, or without its entry: a person's text in its section becomes an entry."""
        had = one.words.digest() if one.base is None else one.base
        if words.digest() != had and not is_blank(words.body) and not self._noted[one.entry].erased:
            self._make(place, section, words)

    def _without_section(self, missing: Sequence[UUID]) -> None:
        """Entries that have no section now, and conflicts that have none."""
        for entry in missing:
            if entry in self._seen:
                continue
            one = self._noted[entry]
            is_known = one.entry is not None and one.base == one.entry.words.digest()
            if one.entry is not None and is_known and self._age.has_seen(one):
                self._remove(entry, one.entry)
        for other in self._conflicts.values():
            deleted = other.id not in self._other_texts and other.base is not None and not other.ended
            if deleted and self._age.has_seen(other) and other.entry not in self._plan.removed:
                self._plan.ended_conflicts.append(other.id)

    def _remove(self, entry: UUID, row: Entry) -> None:
        """Deleting an entry's own section and leaving that of its conflict chooses the other text.

        One that was not written yet, since the daemon was killed before, nobody has seen: it stays too.
        """
        for other in self._conflicts.values():
            if other.entry != entry or other.ended:
                continue
            if other.id in self._other_texts or other.base is None:
                words = self._other_texts.get(other.id, other.words)
                self._plan.edits.append(Edit(entry, row.version, words, lost=False))
                self._plan.promoted[entry] = other.id
                self._plan.layout.append(entry)
                return
        self._plan.removed[entry] = row.version


def _is_untouched(section: Section, words: Words) -> bool:
    """Whether a section has the text that it began from."""
    return section.began == short(words.digest())
