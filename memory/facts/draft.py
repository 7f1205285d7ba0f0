"""What a sign is: how a clause shows that its writer says something lasting of themselves, and what it is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory.facts.wording import normalised

CAPITALISED = r"(?-i:[A-Z\u00c0-\u00de])[\w'\u00c0-\u017f-]*"
NAME = rf"{CAPITALISED}(?: (?:{CAPITALISED}|de|la|van|von|der|den|al|bin|ben|Le)){{0,3}}"
_STOP = re.compile(
    r"\s*(?:,(?! type \d)|[;:(]|\s-\s|\s\u2013\s|\s\u2014\s|\b(?:because|but|although|though|while|which|myself|thats"
    r"|that's|'?cause|cuz"
    r"|honestly|it's great|i (?:find|think|know|guess)|who|where|by the way|btw|please|can you|if)\b|\bso\b(?! far)|\band"
    r" (?:i|i'm|my|we|it|he|she|they|the|have|that|this|am|need|want|wanted|was|run|love|can|will|would|has|so|now|been"
    r"|then)\b|!|\. )",
    re.IGNORECASE,
)
_LONG_STOP = re.compile(
    r",\s+(?:used to|but|so|and|can|which|please|i|my|we|it|any|do|how|what|not|need|and)\b|\s+(?:so|because|but|and"
    r"|btw)\s+(?:i|my|we|it|he|she|they|the|have|need|want|whatever|might)\b|\s+(?:btw|because)\b|!|;",
    re.IGNORECASE,
)


_TO_YOU = re.compile(r"\b(?:you|your|yours)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact before its dates are resolved. `clause` begins with I, my, or a name."""

    slot: str
    value: str
    clause: str
    confidence: float = 0.8
    preference: bool = False
    topic: str | None = None
    past: bool = False
    lasting: bool = False
    corrects: bool = False
    needs: str = ""
    """Whom it is about, who must be known from elsewhere."""
    over: str = ""
    """The words of what has ended."""
    ends: frozenset[str] = frozenset()
    """The families of what may have ended by it. Empty: nearly all."""
    instead: tuple[str, str] | None = None
    """What is replaced, and by what."""


Build = Callable[[re.Match[str]], Sequence[Draft]]


@dataclass(frozen=True, slots=True)
class Sign:
    """A pattern, and what makes drafts of its match."""

    pattern: re.Pattern[str]
    build: Build


def cut(text: str, *, words: int = 12) -> str:
    """The text up to where another thought begins."""
    stop = _STOP.search(text)
    said = " ".join((text[: stop.start()] if stop else text).split()[:words]).strip(" ,.!-")
    return re.sub(r"(?:\s+(?:what|which|for|of|to|in|by|and|the|an?|with|from|or|as|that))+$", "", said)


def cut_long(text: str, *, words: int = 24) -> str:
    """The text with what is said beside it, up to where the speaker goes on to something else."""
    stop = _LONG_STOP.search(text)
    return " ".join((text[: stop.start()] if stop else text).split()[:words]).strip(" ,.!-")


def upto(match: re.Match[str]) -> str:
    """The clause before its value."""
    return match.string[: match.start("v")]


def sign(
    slot: str, pattern: str, build: Build | None = None, *, many: bool = False, past: bool = False, preference: bool = False,
    must: str = "", say: str = "",
) -> Sign:  # fmt: skip
    """By default the fact is the clause up to the end of its value, the group `v`.

    `many`: the value, or its `kind`, is in the slot, which has several at once. `must`: what the value has. `say`: the
    clause, where it does not have the speaker's words.
    """
    wanted = re.compile(must)

    def fact(match: re.Match[str]) -> Sequence[Draft]:
        said = cut(match["v"])
        if not said or not wanted.search(said) or _TO_YOU.search(said):
            return ()
        clause = say.format(v=said) if say else upto(match) + said
        return (
            Draft(
                f"{slot}:{normalised(said)}" if many else slot, said, clause, preference=preference, past=past
            ),
        )

    return Sign(re.compile(pattern, re.IGNORECASE), build or fact)
