"""What finds facts and names in a message: rules, or rules and a language model.

Promise: what the rules find is found by both. Where the model has nothing to say (`Silent`: no budget, an outage, a reply of
no use twice) the rules' facts stand, and the message is not asked about later. A reply is never logged.

The model is asked before anything is written. A daemon that is killed has paid in vain for the messages of its batch whose
effects were not written yet: these are asked about once more, so a message is paid for twice at most for each kill. What it
says is written once all the same, in the transaction that completes the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from handlers.shared.thinking import Silent, Thinker
from memory.facts.find import MAX_FACTS, Fact, find_facts
from memory.facts.names import MAX_NAMES, Name, find_names, stated_names
from memory.facts.stated import Stated, personal, stated_facts


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in a message. `named_by`: 'rule', or the language model, of each name."""

    facts: Sequence[Fact] = ()
    names: Sequence[Name] = ()
    named_by: Sequence[str] = ()


class FactFinder(Protocol):
    """What finds facts and names in a message."""

    async def find(self, text: str, said_at: datetime, *, subject: str) -> Found:
        """The facts that the message states, in order, and whom it names. `subject`: what the sentences call its writer."""
        ...


class RuleFinder:
    """Finds them by the patterns of memory/facts/."""

    async def find(self, text: str, said_at: datetime, *, subject: str) -> Found:
        """In a thread: a batch of long messages takes a while."""
        return await asyncio.to_thread(found_by_rules, text, said_at, subject=subject)


def found_by_rules(text: str, said_at: datetime, *, subject: str) -> Found:
    """What the rules find."""
    return replace(found_names(text), facts=find_facts(text, said_at, subject=subject))


def found_names(text: str) -> Found:
    """What the rules find of names alone."""
    names = find_names(text)
    return Found(names=names, named_by=["rule"] * len(names))


class ModelFinder:
    """Finds them by the rules, and by the language model what these have missed."""

    def __init__(self, thinker: Thinker) -> None:
        self._thinker = thinker
        self._rules = RuleFinder()

    async def find(self, text: str, said_at: datetime, *, subject: str) -> Found:
        """The model is shown what the writer says in their own voice, and asked only if that could say something of them."""
        by_rules = await self._rules.find(text, said_at, subject=subject)
        shown = await asyncio.to_thread(personal, text)
        if not shown:
            return by_rules
        try:
            reply = await self._thinker.facts(shown, day=said_at.date(), writer=subject)
        except Silent:
            return by_rules
        stated = [Stated(f.attribute, f.value, f.sentence, f.last_day) for f in reply.facts]
        facts = stated_facts(stated, text=shown, day=said_at.date(), beside=by_rules.facts)
        # Of a name that both found the model's kind counts: the rules mostly know none.
        names = stated_names(((n.name, n.kind) for n in reply.names), text=shown)
        known = {name.key for name in names}
        rest = [name for name in by_rules.names if name.key not in known]
        return Found(
            [*by_rules.facts, *facts][:MAX_FACTS],
            [*names, *rest][:MAX_NAMES],
            ([self._thinker.name] * len(names) + ["rule"] * len(rest))[:MAX_NAMES],
        )
