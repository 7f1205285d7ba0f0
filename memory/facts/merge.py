"""What becomes of facts that were found, beside those that are known: new, said again, or in place of another.

Facts are compared by what they are about first (the slot), then by what they say (the value). In a slot that has one value the
one said last stands, in whichever order messages are read. Facts of another project (work, home) or speaker are not compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from memory.facts.dates import WEEKDAYS
from memory.facts.find import Fact
from memory.facts.wording import alike, says_no_more


@dataclass(frozen=True, slots=True)
class Source:
    """The message that a fact was found in."""

    message_id: UUID
    session_id: UUID
    message_index: int
    """In its session."""
    user_id: UUID
    agent_id: str
    project: str | None
    speaker: str | None
    """Who speaks, by name, where it may be somebody else than the user."""
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Known:
    """A fact that is a memory and that nothing has replaced."""

    memory_id: UUID
    user_id: UUID
    agent_id: str
    project: str | None
    speaker: str | None
    session_id: UUID | None
    slot: str
    value: str
    content: str
    since: datetime
    message_index: int | None
    """Of a plan: that of the message which said so last at this time, in its session."""


@dataclass(frozen=True, slots=True)
class New:
    """A memory to write."""

    memory_id: UUID
    source: Source
    fact: Fact


@dataclass(slots=True)
class Changes:
    """What is to be written, in this order."""

    new: list[New] = field(default_factory=list)
    again: list[tuple[UUID, Source]] = field(default_factory=list)
    """A known memory, and the message that says so again."""
    superseded: list[tuple[UUID, UUID, datetime]] = field(default_factory=list)
    """The older memory, the newer one, and when the older one ended."""


def family(slot: str) -> str:
    """The part of a slot before the colon."""
    return slot.split(":", 1)[0]


def merge(found: Sequence[tuple[Source, Fact]], known: Iterable[Known], ids: Iterable[UUID]) -> Changes:
    """Compares what was found, in the order in which it was said, with what is known. `ids`: for new memories."""
    changes = Changes()
    fresh = iter(ids)
    current: dict[tuple[UUID, str | None, str | None, str], list[Known]] = defaultdict(list)
    for one in known:
        current[one.user_id, one.project, one.speaker, family(one.slot)].append(one)
    for source, fact in found:
        if fact.corrects:
            corrected = _corrected(
                fact, current[source.user_id, source.project, source.speaker, "plan"], source
            )
            if corrected is None:
                continue
            fact = corrected  # noqa: PLW2901 - from here on it is the plan itself
        others = current[source.user_id, source.project, source.speaker, family(fact.slot)]
        about_it = [k for k in others if _same_slot(k.slot, fact.slot)]
        again = next((k for k in about_it if k.agent_id == source.agent_id and _says(k, fact)), None)
        if again is not None:
            changes.again.append((again.memory_id, source))
            continue
        memory_id = next(fresh)
        new = Known(
            memory_id=memory_id,
            user_id=source.user_id,
            agent_id=source.agent_id,
            project=source.project,
            speaker=source.speaker,
            session_id=source.session_id,
            slot=fact.slot,
            value=fact.value,
            content=fact.content,
            since=source.said_at,
            message_index=source.message_index,
        )
        changes.new.append(New(memory_id, source, fact))
        replaced = [k for k in about_it if not _says(k, fact)]
        later = next((k for k in replaced if k.since > source.said_at), None)
        if later is not None:
            changes.superseded.append((memory_id, later.memory_id, later.since))
            continue
        for one in replaced:
            changes.superseded.append((one.memory_id, memory_id, source.said_at))
            others.remove(one)
        others.append(new)
    return changes


def _says(known: Known, fact: Fact) -> bool:
    return says_no_more(fact.value, known.value) or alike(fact.value, known.value)


def _same_slot(one: str, other: str) -> bool:
    if one == other:
        return True
    if family(one) != family(other) or ":" not in one or ":" not in other:
        return False
    a, b = one.split(":", 1)[1], other.split(":", 1)[1]
    # "The meeting" is the meeting with the bank that was spoken of.
    return alike(a, b) or (family(one) == "plan" and (says_no_more(a, b) or says_no_more(b, a)))


def _order(plan: Known) -> tuple[datetime, int]:
    return plan.since, -1 if plan.message_index is None else plan.message_index


_DAY = re.compile(
    rf"\b(?:on|around|in the week of|on the weekend of) (?:{'|'.join(d.title() for d in WEEKDAYS)}), \d{{1,2}} \w+ \d{{4}}"
    r"(?: in the (?:morning|afternoon|evening|night))?"
)


def _corrected(fact: Fact, plans: Sequence[Known], source: Source) -> Fact | None:
    """The latest plan of the same conversation with the day of the correction; None where there is none."""
    here = [
        k
        for k in plans
        if k.session_id == source.session_id and _order(k) < (source.said_at, source.message_index)
    ]
    if not here:
        return None
    plan = max(here, key=_order)
    when = fact.content if fact.content.startswith(("on ", "in ", "at ", "around ")) else f"on {fact.content}"
    content, times = _DAY.subn(when, plan.content, count=1)
    return replace(
        fact,
        slot=plan.slot,
        topic=plan.slot.split(":", 1)[1],
        content=content if times else f"{plan.content.rstrip('.')}, {when}.",
        corrects=False,
    )
