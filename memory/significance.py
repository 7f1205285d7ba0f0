"""Which memories are anchored: those whose text has one of the words of an incident, a decision or a milestone.

A phrase is several words; a word behind `no`, `not`, `without` or the like does not count.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Category: TypeAlias = Literal["incident", "decision", "milestone"]


def _any_of(words: str) -> re.Pattern[str]:
    phrases = (r"[\s-]+".join(map(re.escape, phrase.split())) for phrase in words.split(","))
    return re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})(?!\w)", re.IGNORECASE)


_WORDS: dict[Category, re.Pattern[str]] = {
    "incident": _any_of(
        "incident, outage, breach, exploit, exploited, vulnerability, compromised, data loss, rollback, rolled back, "
        "downtime, postmortem"
    ),
    "decision": _any_of("decided, decision, chose, agreed to, approved, rejected"),
    "milestone": _any_of("milestone, launched, released, deployed, shipped, went live"),
}
"""By category the words; the first category that is found counts."""

_DENIED = re.compile(
    r"(?:\b(?:no|not|never|without|avoid(?:ed|s)?|prevent(?:ed|s)?)|n['\u2019]t)(?:\s+\w+)?\s+$",
    re.IGNORECASE,
)


def category_of(text: str) -> Category | None:
    """The category of a memory with this text; incidents first. None: it is not anchored."""
    for category, words in _WORDS.items():
        found = words.finditer(text)
        if any(_DENIED.search(text[max(0, one.start() - 60) : one.start()]) is None for one in found):
            return category
    return None
