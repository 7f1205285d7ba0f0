"""Rules for health and food: diet, allergies, conditions, what one does not eat or drink."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.facts.draft import ADVERBS, I_AM, I_HAVE, Draft, cut, rule, value_fact
from memory.facts.wording import normalised
from memory.facts.words import CONDITIONS, DIETS, ILLNESSES

_NO_ALLERGEN = re.compile(
    r"(?:anything|nothing|it|that|this|them|these|those|work|mondays?|you|people)\b", re.IGNORECASE
)
# "I have no nut allergy", and what says nothing of what to: "some allergies", "a son with allergies".
_NO_KIND = re.compile(
    r"(?:anything|nothing|it|that|this|no|not|never|zero|neither|any|some|many|few|several|two|three|absolutely"
    r"|\w+ (?:no|with|of|had|my))\b",
    re.IGNORECASE,
)


def _allergy(match: re.Match[str]) -> Sequence[Draft]:
    value = cut(match["v"], words=8)
    value = re.sub(r"\s+(?:any ?more|since|as well|too)\b.*$", "", value)
    said = match.string[: match.start("v")]
    if not value or (_NO_ALLERGEN if said.lower().endswith("allergic to ") else _NO_KIND).match(value):
        return ()
    negated = bool(re.search(r"\b(?:not|no longer)\b", said, re.IGNORECASE))
    if negated and not re.search(r"any ?more|no longer", match.string, re.IGNORECASE):
        return ()
    verb = "am no longer allergic to" if negated else "am allergic to"
    return (
        Draft(
            "allergy",
            f"allergy:{normalised(value)}",
            ("no " if negated else "") + value,
            f"I {verb} {value}",
            0.95,
        ),
    )


def _after_comma(text: str) -> str:
    more = re.match(r"[^,]+(, type [12])", text)
    return more[1] if more else ""


def _condition(match: re.Match[str]) -> Sequence[Draft]:
    value = cut(match["v"], words=6) + _after_comma(match["v"])
    return (
        Draft(
            "health",
            f"health:{normalised(match['condition'])}",
            value,
            match.string[: match.start("v")] + value,
        ),
    )


_NO_MEDICINE = frozenset(["care", "them", "that", "this", "time", "notes", "photos", "pictures", "walks", "lunch", "part",
"over", "turns"])  # fmt: skip


def _medicine(match: re.Match[str]) -> Sequence[Draft]:
    value, name = cut(match["v"]), match["v"].split()[1].lower()
    if name in _NO_MEDICINE:
        return ()
    return (
        Draft(
            "medicine", f"medicine:{normalised(name)}", value, match.string[: match.start("v")] + value, 0.75
        ),
    )


def _abstains(match: re.Match[str]) -> Sequence[Draft]:
    """ "I don't drink alcohol any more": the slot is the same however it is said."""
    what = re.sub(r"\b(?:any ?more|at all)\b", "", cut(match["v"], words=6))
    slot = normalised(re.sub(r"(?:eat|drink|smok)\w*", lambda verb: verb[0][:3], what))
    clause = match.string[: match.start("v")] + cut(match["v"], words=8)
    return (Draft("food", f"food:{slot}", "not", clause, 0.85, preference=True),)


def _diet(match: re.Match[str]) -> Sequence[Draft]:
    # With the word that it is asked for by.
    return (Draft("diet", "diet", match["v"], f"my diet is {match['v'].lower()}"),)


_DIETS = "|".join(DIETS)
_NO_DISH = r"(?!it|that|this|them|anything|any more|anymore|here|now|another|much|while|enough|until|too)"
HEALTH = (
    rule(rf"I(?:'ve| have) been (?P<v>(?:a )?(?:{_DIETS}) .*)$", value_fact("diet", "diet")),
    rule(
        rf"{I_AM} {ADVERBS}(?:an? )?(?:strict )?(?P<v>(?:{_DIETS}))\b(?! (?:food|restaurant|recipe))",
        _diet,
    ),
    rule(rf"{I_AM} (?:not |no longer )?{ADVERBS}allergic to (?P<v>.+)$", _allergy),
    rule(
        rf"{I_HAVE} (?:an? )?(?:severe |bad |mild |serious |strong )?(?P<v>[\w-]+(?: [\w-]+)?) allerg(?:y|ies)\b",
        _allergy,
    ),
    rule(
        rf"{I_AM} {ADVERBS}(?:an? )?(?P<v>(?:type [12] )?(?P<condition>{'|'.join(CONDITIONS)})\b.*)$",
        _condition,
    ),
    rule(
        r"(?:I have|I've got|I suffer from|I was (?:just |recently )?diagnosed with|I've been diagnosed with|I've had) "
        rf"(?P<v>(?:an? )?(?:chronic |severe |mild |type [12] |bad )?(?:{'|'.join(ILLNESSES)})\b.*)$",
        value_fact("health", "health", many=True, words=8),
    ),
    rule(
        r"I(?:'m| am)? (?P<v>(?:take|taking|on) [a-z-]{4,}(?: [a-z]+)? (?:every|daily|twice|once|for my|each) ?.*)$",
        _medicine,
    ),
    rule(
        rf"I (?:can't|cannot|can not) (?P<v>(?:eat|tolerate|drink|digest) {_NO_DISH}.+)$",
        value_fact("food", "food", many=True, words=8),
    ),
    rule(
        r"I (?:don't|do not|never|no longer|stopped|quit|gave up) "
        rf"(?P<v>(?:eat|drink|smoke|eating|drinking|smoking)(?: {_NO_DISH}.+)?)$",
        _abstains,
    ),
)
