"""What a language model says that a message states, as facts in the slots that the rules use: each may replace the other's.

A language model may invent, and a message may tell it to. So a fact counts only if the message says most of the words of its
value, and its sentence does; what it is about is one of the closed list `ATTRIBUTES`. English slots; messages of any language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from memory.facts.dates import day_name, resolve_dates
from memory.facts.find import MAX_FACTS, Fact
from memory.facts.merge import family
from memory.facts.sentences import spoken
from memory.facts.wording import alike, normalised, says_no_more, says_something
from memory.facts.words import LANGUAGES, LIVING, POSSESSIONS

CONFIDENCE = 0.7
"""Of what a language model found. Set by hand, like that of the rules."""

# Pronouns, and the verbs that stand without one. Not "me": "tell me a joke" says nothing of who asks.
_FIRST_PERSON = re.compile(
    r"\b(?:i|i'\w+|im|my|mine|we|we'\w+|our|ours|ich|mein\w*|wir|unser\w*|je|j'\w+|mon|ma|mes|nous|notre|nos"
    r"|yo|mi|mis|soy|estoy|tengo|vivo|trabajo|nosotr[oa]s|nuestr[oa]s?|io|sono|ho|abito|lavoro|mio|mia|miei|nostr[oaie]"
    r"|eu|meu|minha|sou|estou|tenho|moro|nosso|nossa|ik|mijn|wij|ons|onze)\b",
    re.IGNORECASE,
)
_FEW_WORDS = 2
_PART = re.compile(r"[,:;]\s+|\s-\s")


def personal(text: str) -> str:
    """What its writer says in the message in their own voice; empty if that cannot say anything of them.

    Left out: code, quotations and what was pasted. Empty where no sentence of more than two words is in the first person. A
    question counts only where it or a part of it before the last begins so ("Hi, I'm allergic to nuts, any ideas?").
    """
    sentences = [sentence.strip() for sentence in spoken(text) if "\x00" not in sentence and sentence.strip()]
    return "\n".join(sentences) if any(_tells(sentence) for sentence in sentences) else ""


def _tells(sentence: str) -> bool:
    if sentence.endswith("?"):
        parts = _PART.split(sentence)
        return any(
            _FIRST_PERSON.match(part) and len(part.split()) > _FEW_WORDS for part in parts[:-1] or parts
        )
    if "\u6211" in sentence:  # Chinese has no blanks between words
        return not sentence.endswith("\uff1f")
    return len(sentence.split()) > _FEW_WORDS and _FIRST_PERSON.search(sentence) is not None


@dataclass(frozen=True, slots=True)
class _Attribute:
    """How an attribute becomes a slot. `key`: what follows the colon, of an attribute that has several values at once."""

    slot: str
    key: Callable[[str], str] | None = None
    denied: str = ""
    value: str | None = None
    preference: bool = False


def _living(value: str) -> str:
    kind = re.search(rf"\b(?:{'|'.join(LIVING)})\b", value, re.IGNORECASE)
    return normalised(kind[0] if kind else value)


def _thing(value: str) -> str:
    head = POSSESSIONS.search(value)
    return normalised(head[0] if head else value)


def _request(value: str) -> str:
    return (
        "language" if re.search(rf"\b(?:{'|'.join(LANGUAGES)})$", value, re.IGNORECASE) else normalised(value)
    )


def _eaten(value: str) -> str:
    return normalised(f"eat {value}")


def _drunk(value: str) -> str:
    # As memory/facts/health.py cuts the verb.
    return normalised(f"dri {value}")


ATTRIBUTES: Mapping[str, _Attribute] = {
    **{
        name: _Attribute(name)
        for name in (
            "name", "age", "birthday", "marital status", "home", "origin", "employer", "job", "study", "speaks", "diet",
            "drives",
        )
    },
    **{name: _Attribute(f"attribute:{name}") for name in ("phone number", "email")},
    **{who: _Attribute(f"person:{who}: name") for who in ("wife", "husband", "partner", "mother", "father")},
    **{
        name: _Attribute(name, normalised)
        for name in ("lived", "past job", "learning", "allergy", "health", "medicine", "goal", "decision", "plan")
    },
    "nickname": _Attribute("nickname", preference=True),
    "no longer allergic": _Attribute("allergy", normalised, denied="no "),
    "has": _Attribute("have", _living),
    "owns": _Attribute("own", _thing),
    "no longer owns": _Attribute("own", _thing, denied="no longer "),
    "uses": _Attribute("use", normalised, preference=True),
    "does not eat": _Attribute("food", _eaten, value="not", preference=True),
    "does not drink": _Attribute("food", _drunk, value="not", preference=True),
    "likes": _Attribute("taste", normalised, preference=True),
    "dislikes": _Attribute("taste", normalised, denied="not ", preference=True),
    "hobby": _Attribute("hobby", normalised),
    "request": _Attribute("request", _request, preference=True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stated:
    """One thing that a language model says that a message states. `last_day`: of a plan."""

    attribute: str
    value: str
    sentence: str
    last_day: date | None


def stated_facts(stated: Sequence[Stated], *, text: str, day: date, beside: Sequence[Fact]) -> list[Fact]:
    """The facts, without those that the text, written on this day, does not say, and those that `beside` says already."""
    found: dict[tuple[str, str], Fact] = {}
    for one in stated:
        fact = _fact(one, text, day)
        if fact is not None and not any(_same(fact, other, one.value) for other in beside):
            found.setdefault((fact.slot, fact.value), fact)
    return list(found.values())[:MAX_FACTS]


def _fact(one: Stated, text: str, day: date) -> Fact | None:
    attribute = ATTRIBUTES.get(one.attribute)
    if attribute is None or not _says(text, one.value) or not _says(one.sentence, one.value):
        return None
    plan = one.attribute == "plan"
    if plan and (one.last_day is None or one.last_day < day):
        return None
    key = None if attribute.key is None else attribute.key(one.value)
    if key == "":
        return None
    value = resolve_dates(one.value, day).text
    if plan and one.last_day is not None:
        value = f"{value} on {day_name(one.last_day)}"
    return Fact(
        slot=attribute.slot if key is None else f"{attribute.slot}:{key}",
        value=attribute.value or normalised(attribute.denied + value),
        content=one.sentence if one.sentence.endswith((".", "!")) else f"{one.sentence}.",
        rule="model",
        confidence=CONFIDENCE,
        memory_type="user_preferences" if attribute.preference else None,
        topic=key if plan else None,
        ends=one.last_day if plan else None,
    )


def _says(text: str, value: str) -> bool:
    """Whether the text has more than half of the words of the value, all numbers among them."""
    words, said = normalised(value).split(), set(normalised_words(text))
    missing = [word for word in words if word not in said]
    if not says_something(value) or any(char.isdigit() for word in missing for char in word):
        return False
    # A script without spaces between words has no words to compare.
    return 2 * len(missing) < len(words) or value.casefold() in text.casefold()


def normalised_words(text: str) -> list[str]:
    """All words of a text, however long, as `normalised` gives them."""
    return [word for part in text.split() for word in normalised(part).split()]


def _same(fact: Fact, other: Fact, value: str) -> bool:
    """Whether the rules found this already. They may have said it as another preference: "does not drink", "dislikes"."""
    if fact.slot == other.slot:
        return True
    related = family(fact.slot) == family(other.slot) or (fact.memory_type and other.memory_type)
    return bool(related) and (
        says_no_more(fact.value, other.value) or alike(fact.value, other.value) or _says(other.content, value)
    )
