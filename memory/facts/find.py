"""What a person says of themselves in a conversation, found by rules: facts, plans with dates, preferences, decisions.

A fact is about one attribute (`slot`) of one subject and says a value of it. Of two facts in the same slot the later one
replaces the earlier. Attributes that may have many values at once (what one likes, is allergic to, owns) have the value in
their slot.

Precision before recall: a message is read clause by clause (memory/facts/sentences.py), each clause is compared with patterns
from its beginning (memory/facts/rules.py), and what no pattern fits is no fact. English, and the most common statements in four
other languages (memory/facts/elsewhere.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from memory.facts.dates import Dated, resolve_dates
from memory.facts.draft import Draft
from memory.facts.elsewhere import elsewhere
from memory.facts.rules import RULES
from memory.facts.sentences import statements
from memory.facts.wording import about, normalised

MAX_FACTS = 10
"""Of one message. A message with more is a form or a list."""
KEPT_AFTER = timedelta(days=7)
"""How long a plan is kept after its last day."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a person said of themselves.

    `content` is a whole sentence. `topic` is what a plan is about, so that a later "it's on Monday" finds it; a correction
    has no slot of its own and replaces the latest plan of its conversation. `ends`: the last day of a plan.
    """

    slot: str
    value: str
    content: str
    rule: str
    confidence: float
    memory_type: str | None = None
    topic: str | None = None
    ends: date | None = None
    corrects: bool = False

    def forgotten_at(self, said_at: datetime) -> datetime | None:
        """When it is of no use any more: a plan some days after its date. None: never."""
        if self.ends is None:
            return None
        last = datetime(self.ends.year, self.ends.month, self.ends.day, tzinfo=said_at.tzinfo)
        try:
            return last + timedelta(days=1) + KEPT_AFTER
        except OverflowError:  # after the year 9999
            return None


def find_facts(text: str, said_at: datetime, *, subject: str = "The user") -> list[Fact]:
    """The facts of a message, in order, none twice."""
    found: dict[tuple[str, str], Fact] = {}
    for clause in statements(text):
        for draft in _drafts(clause):
            fact = _fact(draft, said_at, subject)
            found.setdefault((fact.slot, fact.value), fact)
    for draft, words in elsewhere(text):
        fact = _fact(draft, said_at, subject)
        found.setdefault((fact.slot, fact.value), replace(fact, content=f'{fact.content[:-1]} ("{words}").'))
    return list(found.values())[:MAX_FACTS]


def _drafts(clause: str) -> Sequence[Draft]:
    for rule in RULES:
        match = rule.pattern.match(clause)
        if match is None:
            continue
        drafts = rule.build(match)
        if drafts:
            return drafts
    return ()


def _fact(draft: Draft, said_at: datetime, subject: str) -> Fact:
    dated = (
        Dated(draft.clause, None)
        if draft.yearly
        else resolve_dates(draft.clause, said_at.date(), past=draft.past)
    )
    content = about(subject, dated.text)
    plan = draft.topic is not None or draft.corrects
    value = draft.value if draft.yearly else resolve_dates(draft.value, said_at.date(), past=draft.past).text
    return Fact(
        slot=draft.slot,
        value=normalised(value),
        content=content if not draft.corrects else dated.text,
        rule=draft.rule,
        confidence=draft.confidence,
        memory_type="user_preferences" if draft.preference else None,
        topic=draft.topic,
        ends=dated.day if plan and not draft.past and not draft.lasting else None,
        corrects=draft.corrects,
    )
