"""What a rule is, and what rules share: drafts of facts, and where a clause ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory.facts.dates import MONTHS, WEEKDAYS
from memory.facts.wording import normalised


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact before its dates are resolved. `clause` begins with I, we, my or our."""

    rule: str
    slot: str
    value: str
    clause: str
    confidence: float = 0.9
    preference: bool = False
    topic: str | None = None
    past: bool = False
    lasting: bool = False
    corrects: bool = False
    yearly: bool = False
    """Its day comes again each year: it is not given a year."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and what makes drafts of its match."""

    pattern: re.Pattern[str]
    build: Callable[[re.Match[str]], Sequence[Draft]]


I_AM = r"(?:I'm|I am|im|we're|we are)"


I_HAVE = r"(?:I've got|I have got|I've|I have|we've got|we've|we have|I got)"


# None twice: of a word that two alternatives fit, each repetition doubles the time that a clause takes that does not fit.
ADVERBS = (
    r"(?:(?:really|absolutely|also|actually|just|still|now|currently|only|mostly|finally|recently|already|definitely"
    r"|totally|both"
    r"|personally|generally|usually|truly|severely|very|quite|mainly|originally|officially|kind of|so|a bit) )*"
)


_STOP = re.compile(
    r"\s*(?:[,;:(]|\s-\s|\s\u2013\s|\s\u2014\s|\bbecause\b|\bso\b(?! far)|\bbut\b|\balthough\b|\bthough\b|\bwhile\b"
    r"|\bwhich\b|\bmyself\b"
    r"|\b(?:thats|that's|'?cause|cuz|honestly|it's great|i (?:find|think|know|guess))\b|\bwho\b|\bwhere\b|\bby the way\b"
    r"|\bbtw\b|\bplease\b|\band (?:i|i'm|my|we|it|he|she|they|the|have|that|this|am|need|want"
    r"|wanted|was|run|love|can|will|would|has|so|now|been|then)\b|\bcan you\b|\bif\b|!|\. )",
    re.IGNORECASE,
)


CAPITALISED = r"(?-i:[A-Z\u00c0-\u00de])[\w'\u00c0-\u017f-]*"


NAME = rf"{CAPITALISED}(?: (?:{CAPITALISED}|de|la|van|von|der|den|al|bin|ben|Le)){{0,3}}"


NO_NAMES = frozenset({
    "not", "sorry", "ok", "okay", "fine", "back", "here", "so", "very", "too", "just", "also", "still", "good", "great",
    "sure", "happy", "sad", "glad", "tired", "in", "on", "at", "a", "an", "the", "i", "mr", "mrs", "ready", "done",
    "new", "old", "home", "late", "off", "out", "up", "down", "well",
}) | set(WEEKDAYS) | set(MONTHS)  # fmt: skip  # fmt: skip


def cut(text: str, *, words: int = 12) -> str:
    """The text up to where another thought begins."""
    stop = _STOP.search(text)
    text = text[: stop.start()] if stop else text
    return " ".join(text.split()[:words]).strip(" ,.!-")


def rule(pattern: str, build: Callable[[re.Match[str]], Sequence[Draft]], *, case: bool = False) -> Rule:
    return Rule(re.compile(pattern, 0 if case else re.IGNORECASE), build)


def whole(match: re.Match[str], group: str, *, words: int = 12) -> tuple[str, str]:
    """The value of a group, cut, and the clause up to its end."""
    value = cut(match[group], words=words)
    space = " " if match[group].startswith(" ") else ""
    return value, match.string[: match.start(group)] + space + value


def value_fact(
    rule: str, slot: str, *, many: bool = False, confidence: float = 0.9, past: bool = False, words: int = 12,
    preference: bool = False, no: str = r"$^",
) -> Callable[[re.Match[str]], Sequence[Draft]]:  # fmt: skip
    """A fact whose value is a group `v`, not one that `no` fits. `many`: the value is in the slot."""
    refused = re.compile(no, re.IGNORECASE)

    def build(match: re.Match[str]) -> Sequence[Draft]:
        value, clause = whole(match, "v", words=words)
        if not value or refused.match(value):
            return ()
        key = f"{slot}:{normalised(value)}" if many else slot
        return (Draft(rule, key, value, clause, confidence, preference, past=past),)

    return build
