"""What people say of themselves in a conversation, without a language model: facts, plans with dates, preferences, decisions.

A message is split into clauses (memory/facts/sentences.py). A clause in which its writer, or somebody of theirs, is said to be
or do something lasting is kept, in the writer's own words with the person changed. By which signs it is known, and what it is
about, stands in memory/facts/signs.py for English and in memory/facts/elsewhere.py for German, French, Spanish and Chinese.

A fact is about one attribute (`slot`) of one subject and says a value of it. Of two facts in the same slot the later one
replaces the earlier. Attributes that may have many values at once (what one likes, is allergic to, owns) have the value in
their slot. What says that something is over (`over`) ends what is known of it: memory/facts/merge.py.

Better none than a wrong one: a clause without a sign is no fact, and is found in the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from memory.facts.dates import Dated, names_a_month, resolve_dates
from memory.facts.draft import Draft
from memory.facts.elsewhere import elsewhere
from memory.facts.sentences import statements
from memory.facts.signs import SIGNS
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
    needs: str = ""
    """A name that only a known fact says who it is."""
    over: str = ""
    """The words of what has ended."""
    ends_in: frozenset[str] = frozenset()
    """The families of what may have ended by it. Empty: all but those of who one is."""
    instead: tuple[str, str] | None = None

    @property
    def only_ends(self) -> bool:
        """Whether it says nothing where nothing that is known has ended."""
        return self.slot.startswith("ended:")

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
    for draft in _drafts(text):
        fact = _fact(draft, said_at, subject)
        found.setdefault((fact.slot, fact.value), fact)
    for draft, words in elsewhere(text):
        fact = _fact(draft, said_at, subject)
        if not draft.corrects:
            fact = replace(fact, content=f'{fact.content[:-1]} ("{words}").')
        found.setdefault((fact.slot, fact.value), fact)
    return list(found.values())[:MAX_FACTS]


# "The appointment moved. It's on 10 December now."
_MOVED = re.compile(
    r"(?:the|my) (?P<topic>[\w' -]{2,40}?) (?:has |was |got |is )?(?:been )?"
    r"(?:moved|changed|rescheduled|postponed|pushed back)$",
    re.IGNORECASE,
)


def _drafts(text: str) -> Iterator[Draft]:
    moved = ""
    for clause in statements(text):
        for draft in _read(clause):
            if draft.corrects and moved:
                clause = f"my {moved} is {draft.clause}"  # noqa: PLW2901 - what it is about was said before
                yield Draft(f"plan:{normalised(moved)}", draft.clause, clause, topic=normalised(moved))
            else:
                yield draft
        if named := _MOVED.match(clause):
            moved = named["topic"]


def _read(clause: str) -> Iterator[Draft]:
    for one in SIGNS:
        match = one.pattern.match(clause)
        drafts = one.build(match) if match is not None else ()
        if drafts:
            yield from drafts
            return


def _fact(draft: Draft, said_at: datetime, subject: str) -> Fact:
    today = said_at.date()
    # A birthday comes again each year: it is not given one.
    yearly = draft.slot.endswith("birthday") and names_a_month(draft.clause)
    dated = Dated(draft.clause, None) if yearly else resolve_dates(draft.clause, today, past=draft.past)
    plan = draft.topic is not None or draft.corrects
    value = draft.value if yearly else resolve_dates(draft.value, today, past=draft.past).text
    dated = replace(dated, text=re.sub(r"\b(to|until|from) on (?=[A-Z])", r"\1 ", dated.text))
    return Fact(
        slot=draft.slot,
        value=normalised(value),
        content=dated.text if draft.corrects else about(subject, dated.text),
        rule=draft.slot.split(":", 1)[0] or "correction",
        confidence=draft.confidence,
        memory_type="user_preferences" if draft.preference else None,
        topic=draft.topic,
        ends=dated.day if plan and not draft.past and not draft.lasting else None,
        corrects=draft.corrects,
        needs=draft.needs,
        over=draft.over,
        ends_in=draft.ends,
        instead=draft.instead,
    )
