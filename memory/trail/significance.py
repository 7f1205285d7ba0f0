"""Which memories are anchored: those whose text has one of the words of an incident, a decision or a milestone.

The words come from settings. A phrase is several words; a word behind `no`, `not`, `without` or the like does not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Category: TypeAlias = Literal["incident", "decision", "milestone"]

_DENIED = re.compile(
    r"(?:\b(?:no|not|never|without|avoid(?:ed|s)?|prevent(?:ed|s)?)|n['\u2019]t)(?:\s+\w+)?\s+$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Significance:
    """The words of each category."""

    incidents: Sequence[str]
    decisions: Sequence[str]
    milestones: Sequence[str]

    def category_of(self, text: str) -> Category | None:
        """The category of a memory with this text; incidents first. None: it is not anchored."""
        if _says(self.incidents, text):
            return "incident"
        if _says(self.decisions, text):
            return "decision"
        return "milestone" if _says(self.milestones, text) else None


def _says(words: Sequence[str], text: str) -> bool:
    phrases = [r"[\s-]+".join(re.escape(part) for part in word.split()) for word in words]
    if not any(phrases):
        return False
    found = re.finditer(rf"(?<!\w)(?:{'|'.join(filter(None, phrases))})(?!\w)", text, re.IGNORECASE)
    return any(_DENIED.search(text[max(0, one.start() - 60) : one.start()]) is None for one in found)
