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
from memory.facts.wording import alike, normalised, says_no_more


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

    @property
    def known(self) -> Known:
        """As it is known from then on."""
        source, fact = self.source, self.fact
        return Known(
            memory_id=self.memory_id, user_id=source.user_id, agent_id=source.agent_id, project=source.project,
            speaker=source.speaker, session_id=source.session_id, slot=fact.slot, value=fact.value, content=fact.content,
            since=source.said_at, message_index=source.message_index,
        )  # fmt: skip


@dataclass(slots=True)
class Changes:
    """What is to be written, in this order."""

    new: list[New] = field(default_factory=list)
    again: list[tuple[UUID, Source]] = field(default_factory=list)
    """A known memory, and the message that says so again."""
    superseded: list[tuple[UUID, UUID, datetime]] = field(default_factory=list)
    """The older memory, the newer one, and when the older one ended."""
    ended: list[UUID] = field(default_factory=list)
    """New memories that say only that others have ended: history from the start."""


def family(slot: str) -> str:
    """The part of a slot before the colon."""
    return slot.split(":", 1)[0]


FAMILIES = frozenset({
    "age", "allergy", "attribute", "birthday", "born", "decision", "diet", "drives", "employer", "ended", "event", "favourite",
    "food", "goal", "graduated", "have", "health", "hobby", "home", "job", "learning", "lived", "marital status",
    "medicine", "name", "nickname", "origin", "own", "past job", "person", "plan", "prefer", "request", "routine", "speaks",
    "study", "taste", "use",
})  # fmt: skip


_WHO_ONE_IS = frozenset({"name", "nickname", "age", "birthday", "born", "origin", "person", "ended"})


def compared(facts: Iterable[Fact]) -> frozenset[str]:
    """The families of known facts that these are compared with."""
    found: set[str] = set()
    for fact in facts:
        found.add("plan" if fact.corrects else family(fact.slot))
        if fact.needs:
            found |= {"person", "have"}
        if fact.over:
            found |= fact.ends_in or FAMILIES
    return frozenset(found)


def merge(found: Sequence[tuple[Source, Fact]], known: Iterable[Known], ids: Iterable[UUID]) -> Changes:
    """Compares what was found, in the order in which it was said, with what is known. `ids`: for new memories."""
    changes = Changes()
    fresh = iter(ids)
    current: dict[tuple[UUID, str | None, str | None], list[Known]] = defaultdict(list)
    for one in known:
        current[one.user_id, one.project, one.speaker].append(one)
    for source, fact in found:
        others = current[source.user_id, source.project, source.speaker]
        said = _completed(fact, others, source)
        if said is not None:
            _add(changes, New(next(fresh), source, said), others)
    return changes


def _completed(fact: Fact, others: Sequence[Known], source: Source) -> Fact | None:
    """What the fact says beside what is known; None where it says nothing."""
    if fact.corrects:
        return _corrected(fact, [k for k in others if family(k.slot) == "plan"], source)
    if fact.needs and not any(re.search(rf"\b{re.escape(fact.needs)}\b", k.content[:1000]) for k in others):
        return None
    over = _over(fact, others, source)
    if fact.only_ends and not over:
        return None
    if fact.instead is not None and len(over) == 1:
        old, new = fact.instead
        content = re.sub(rf"\b{re.escape(old)}\b", lambda _: new, over[0].content, flags=re.IGNORECASE)
        if content != over[0].content:
            return replace(fact, slot=over[0].slot, content=content, over="")
    return fact


def _over(fact: Fact, others: Sequence[Known], source: Source) -> list[Known]:
    """What the fact says the end of: all of whose words it has in its sentence."""
    words = set(normalised(fact.over).split())
    families = fact.ends_in or FAMILIES - _WHO_ONE_IS
    return [
        k for k in others
        # Of several who are named at once one may have gone.
        if words and family(k.slot) in families and k.since <= source.said_at
        and not (family(k.slot) == "have" and " and " in k.content)
        and words <= {word for part in k.content[:1000].split() for word in normalised(part).split()}
    ]  # fmt: skip


def _add(changes: Changes, new: New, others: list[Known]) -> None:
    source, fact = new.source, new.fact
    about_it = [k for k in others if _same_slot(k.slot, fact.slot)]
    again = next((k for k in about_it if k.agent_id == source.agent_id and _says(k, fact)), None)
    if again is not None:
        changes.again.append((again.memory_id, source))
        return
    changes.new.append(new)
    replaced = [k for k in about_it if not _says(k, fact)]
    later = next((k for k in replaced if k.since > source.said_at), None)
    if later is not None:
        changes.superseded.append((new.memory_id, later.memory_id, later.since))
        return
    replaced += [k for k in _over(fact, others, source) if k not in about_it]
    for one in replaced:
        changes.superseded.append((one.memory_id, new.memory_id, source.said_at))
        others.remove(one)
    if fact.only_ends:
        changes.ended.append(new.memory_id)
    else:
        others.append(new.known)


def _says(known: Known, fact: Fact) -> bool:
    if fact.topic is not None and set(_DAY.findall(fact.content)) != set(_DAY.findall(known.content)):
        return False
    return says_no_more(fact.value, known.value) or alike(fact.value, known.value)


def _same_slot(one: str, other: str) -> bool:
    if one == other:
        return True
    if family(one) != family(other) or ":" not in one or ":" not in other:
        return False
    a, b = one.split(":", 1)[1], other.split(":", 1)[1]
    # "The meeting" is the meeting with the bank that was spoken of, "the stats exam" the exam in statistics.
    return alike(a, b) or (family(one) == "plan" and (_within(a, b) or _within(b, a)))


def _within(one: str, other: str) -> bool:
    words = other.split()
    return bool(one) and all(
        any(w.startswith(o) or o.startswith(w) for w in words if len(w) > 2) for o in one.split()
    )


def _order(plan: Known) -> tuple[datetime, int]:
    return plan.since, -1 if plan.message_index is None else plan.message_index


_DAY = re.compile(
    rf"\b(?:on|to|until|around|in the week of|on the weekend of) "
    rf"(?:{'|'.join(d.title() for d in WEEKDAYS)}), \d{{1,2}} \w+ \d{{4}}"
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
    before = re.sub(r' \("[^"]*"\)', "", plan.content)
    content, times = _DAY.subn(when, before, count=1)
    return replace(
        fact,
        slot=plan.slot,
        topic=plan.slot.split(":", 1)[1],
        content=content if times else f"{before.rstrip('.')}, {when}.",
        corrects=False,
    )
