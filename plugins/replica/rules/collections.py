"""Collections of what is remembered: which there are, where their files are, and how an entry is a section.

    knowledge/core.md                  what the team knows, by tier (of an organisation: knowledge/<org_id>/core.md)
    agents/planner/memories.md         what an agent remembers; agents/_shared/ is every agent's
    agents/planner/insights.md         what dreams concluded from it
    users/<user_id>/memories.md        what agents remember about a user; insights.md beside it. Behind the id may be a name

Promise: an entry that becomes a section and is read again has the same kind, title and text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from hashlib import sha256
from pathlib import PurePosixPath
from uuid import UUID

from plugins.replica.rules.document_file import one_line, plain, uuid_in
from plugins.replica.rules.paths import USERS, free, safe, user_of
from plugins.replica.rules.sections import Section, mark, short, shown

AGENTS, KNOWLEDGE = "agents", "knowledge"
SHARED = "_shared"
TIERS = ("core", "working", "learning")
PART_SECTIONS = 500
PART_BYTES = 1_000_000
"""A file with more sections, or with more text, is full: a further one begins."""


class Source(Enum):
    """The table of a collection's entries."""

    KNOWLEDGE = "knowledge"
    MEMORY = "memory"
    INSIGHT = "insight"


_STEMS = {Source.MEMORY: "memories", Source.INSIGHT: "insights"}
_LABELS = {
    Source.MEMORY: ("fact", "goal", "note", "observation", "outcome", "error"),
    Source.INSIGHT: ("pattern", "recommendation", "summary", "correction"),
}
_PART = re.compile(r"(.+?)(?: (\d{1,6}))?")
_MAY_BE = re.compile(
    r"(?:knowledge|agents|users)/.*(?:memories|insights|core|working|learning)(?: \d{1,6})?\.md"
)
"""Most paths are documents', and are told apart by this."""
_DATED = r"(?: of .{1,200})?(?:, \d{4}-\d\d-\d\d)?"
_LABELLED = {
    source: re.compile(rf"({'|'.join(labels)}){_DATED}", re.IGNORECASE) for source, labels in _LABELS.items()
}
_CONFLICT = re.compile(r"(.*?)[ ]*\(conflict, [0-9 .:-]{10,16}\)")


@dataclass(frozen=True, slots=True)
class Key:
    """Which collection an entry is in."""

    source: Source
    user: UUID | None = None
    agent: str | None = None
    org: UUID | None = None
    tier: str | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """What of an entry people and agents write."""

    label: str
    """Its category, or the kind of a memory; empty in a section that names none."""
    title: str
    """Of knowledge; else empty."""
    body: str

    def words(self, label: str) -> Words:
        """With this label where it names none."""
        return self if self.label else replace(self, label=label)

    def digest(self) -> bytes:
        """SHA-256, the same for texts that count as the same."""
        parts = [one_line(self.label), one_line(self.title), plain(self.body)]
        return sha256(json.dumps(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class Entry:
    id: UUID
    words: Words
    created: datetime
    version: bytes
    """Of its text and of what else is shown of it."""
    agent: str | None = None
    status: str | None = None


def path_of(of: Key, part: int, *, taken: Container[str], homes: Mapping[UUID, str]) -> str:
    """Where a collection's file is put. `homes`: the names of users' folders. `taken`: the keys of paths that are in use."""
    if of.source is Source.KNOWLEDGE:
        folder = PurePosixPath(KNOWLEDGE, *([str(of.org)] if of.org else []))
        stem = of.tier or TIERS[0]
    else:
        owner = (USERS, homes[of.user]) if of.user is not None else (AGENTS, safe(of.agent or SHARED))
        folder, stem = PurePosixPath(*owner), _STEMS[of.source]
    return free(folder, stem, taken=taken, first=part)


def key_of(path: str) -> Key | None:
    """The collection that a path stands for, if it is one's."""
    if not _MAY_BE.fullmatch(path):
        return None
    parts = PurePosixPath(path).parts
    stem = _PART.fullmatch(PurePosixPath(path).stem)
    if stem is None:
        return None
    if parts[0] == KNOWLEDGE and stem[1] in TIERS:
        org = uuid_in(parts[1]) if len(parts) == 3 else None
        if len(parts) == 2 or org is not None:
            return Key(Source.KNOWLEDGE, org=org, tier=stem[1])
    source = next((one for one, word in _STEMS.items() if word == stem[1]), None)
    if len(parts) != 3 or source is None:
        return None
    if parts[0] == AGENTS:
        return Key(source, agent=parts[1])
    user = user_of(path)
    return None if user is None else Key(source, user=user)


def title_of(of: Key) -> str:
    """A collection, for people."""
    if of.source is Source.KNOWLEDGE:
        return f"Knowledge: {of.tier}" + (f" ({of.org})" if of.org else "")
    word = _STEMS[of.source].capitalize()
    if of.user is not None:
        return f"{word} about this user"
    return f"{word} of all agents" if of.agent == SHARED else f"{word} of {one_line(of.agent or '')}"


def preamble(of: Key, collection: UUID) -> str:
    """What memoryd writes above the first section."""
    return f"{mark(collection)}\n\n# {title_of(of)}\n\n{_HOW[of.source]}"


_HOW = {
    Source.KNOWLEDGE: "Each section is an entry: its title, then its text.",
    Source.MEMORY: "Each section is a memory: its kind, then its text.",
    Source.INSIGHT: "Each section is an insight: its kind, then its text.",
}


def section_of(entry: Entry, of: Key) -> Section:
    words, began = entry.words, short(entry.words.digest())
    if of.source is Source.KNOWLEDGE:
        notes = (("category", words.label), ("by", entry.agent), ("status", entry.status))
        own = tuple((name, value) for name, text in notes if (value := shown(text)) is not None)
        return Section(one_line(words.title), plain(words.body), entry.id, notes=own, began=began)
    heading = words.label
    if of.user is not None and entry.agent is not None and entry.agent != SHARED:
        heading += f" of {one_line(entry.agent)[:200]}"
    return Section(f"{heading}, {entry.created:%Y-%m-%d}", plain(words.body), entry.id, began=began)


def conflict_section(conflict: UUID, words: Words, made: datetime, of: Key) -> Section:
    """The text that lost against an entry's, as a section."""
    is_titled = of.source is Source.KNOWLEDGE
    heading = one_line(words.title) if is_titled else words.label
    # Its section names no category.
    said = Words("" if is_titled else words.label, words.title, words.body)
    advice = (
        "An agent changed this entry while you did. Your text is the section above; this is the agent's. Delete this section "
        f"to keep yours. To take this one instead: memoryd replica conflicts --keep theirs {conflict}"
    )
    return Section(
        f"{heading} (conflict, {made:%Y-%m-%d %H.%M})",
        plain(words.body),
        conflict=conflict,
        began=short(said.digest()),
        advice=advice,
    )


def said_by(section: Section, of: Key) -> Words:
    """What a section says. Its body is blank where a person has not written it yet."""
    heading = section.heading
    if section.conflict is not None and (match := _CONFLICT.fullmatch(heading)):
        heading = match[1]
    if of.source is Source.KNOWLEDGE:
        return Words(section.note("category") or "", heading, section.body)
    if match := _LABELLED[of.source].fullmatch(heading):
        return Words(match[1].lower(), "", section.body)
    return Words("", "", plain(f"{heading}\n\n{section.body}") if heading else section.body)


def label_for(of: Key) -> str:
    """The label of a new entry that names none."""
    if of.source is Source.KNOWLEDGE:
        return {"core": "principle", "working": "project"}.get(of.tier or "", "insight")
    return "fact" if of.source is Source.MEMORY else "recommendation"
