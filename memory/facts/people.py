"""Rules for who one is and whom one has: names, age, birthday, family, animals."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.facts.dates import MONTHS, names_a_month
from memory.facts.draft import (
    ADVERBS,
    CAPITALISED,
    I_AM,
    I_HAVE,
    NAME,
    NO_NAMES,
    Draft,
    cut,
    rule,
    value_fact,
    whole,
)
from memory.facts.wording import normalised
from memory.facts.words import LIVING, NATIONALITIES, RELATIVES, STATUS


def _named(match: re.Match[str]) -> Sequence[Draft]:
    name = match["v"].strip()
    first = name.split()[0]
    if first.lower() in NO_NAMES or first.lower() in NATIONALITIES or (name.isupper() and len(name) > 3):
        return ()
    return (Draft("name", "name", name, f"my name is {name}"),)


_NO_NICKNAMES = frozenset({
    "later", "back", "crazy", "when", "tomorrow", "if", "old", "maybe", "a", "an", "at", "on", "by", "the", "stupid",
    "today", "tonight", "and", "to", "in", "about", "weird", "again", "or",
})  # fmt: skip


def _nickname(match: re.Match[str]) -> Sequence[Draft]:
    name = match["v"]
    if name.lower() in _NO_NICKNAMES:
        return ()
    return (Draft("nickname", "nickname", name, f"I like to be called {name}", preference=True),)


def _age(match: re.Match[str]) -> Sequence[Draft]:
    return (
        (Draft("age", "age", match["v"], f"I am {match['v']} years old"),)
        if 8 <= int(match["v"]) <= 110
        else ()
    )


def _born(match: re.Match[str]) -> Sequence[Draft]:
    value, clause = whole(match, "v")
    if not re.search(rf"\d|{CAPITALISED}", value):
        return ()
    return (Draft("born", "born", value, clause, past=True),)


def _birthday(match: re.Match[str]) -> Sequence[Draft]:
    value = cut(match["v"], words=7)
    if not re.search(r"\d|" + "|".join(m[:3] for m in MONTHS), value, re.IGNORECASE):
        return ()
    return (Draft("birthday", "birthday", value, f"my birthday is {value}", yearly=names_a_month(value)),)


_ONE_OF_A_KIND = frozenset({
    "wife", "husband", "partner", "spouse", "fiance", "fiancé", "fiancee", "fiancée", "girlfriend", "boyfriend",
    "mother", "mom", "mum", "father", "dad",
})  # fmt: skip


_ABOUT_THEM = (
    r"(?:lives?|works?|moved|is (?:from|called|an?(?! (?:little|bit|lot|great|good))|\d|allergic|vegan|vegetarian|married"
    r"|pregnant|getting married|expecting|in"
    r" (?:first|second|third|fourth|\w+ grade|\d))|are (?:from|called|both|\d)|'s name is|name is|names are|turns?|turned"
    r"|was born"
    r"|died|passed away|studies|study|just had|had a baby|plays|speaks|teaches|has (?:a|an|two|three)|is studying|is coming"
    r"|is visiting"
    r"|are coming|are visiting|got married|got engaged|is retired|are retired|goes to|started (?:at|university|college)"
    r"|is learning)\b"
)


def _spaced(before: str, text: str) -> str:
    return text if before.startswith("'") else f" {text}"


def _relative(match: re.Match[str]) -> Sequence[Draft]:
    relative, name, text = (
        match["who"].lower(),
        (match["name"] or "").strip(),
        cut(match["rest"] or "", words=14),
    )
    if name and (name.lower() in NO_NAMES or not name[0].isupper()):
        return ()
    said = re.match(_ABOUT_THEM, text, re.IGNORECASE)
    if said is None and not (name and (not text or match["lead"])):
        return ()
    called = re.search(rf"(?:called|named|name is|names are) ({NAME})", text)
    named = called[1] if called else name
    if said is not None and "name" in said[0] and not named:
        return ()
    who = relative if relative in _ONE_OF_A_KIND or not named or called else f"{relative} {normalised(named)}"
    about = "name" if called or said is None else said[0].split()[0].lower()
    if about in ("is", "are"):
        about = "age" if re.match(r"(?:is|are) \d", text) else normalised(text)
    clause = (
        match.string[: match.start("rest")].rstrip() + _spaced(match["rest"], text)
        if match["rest"]
        else match.string[: match.end("name")]
    )
    value = named if called or said is None else f"{named} {text}"
    return (Draft("relative", f"{who}:{about}", value, clause, 0.85, past=bool(re.match(r"moved|died|passed|got|turned"
    "|just", text)),
                  lasting=True),)  # fmt: skip


_COUNTS = r"(?:an?|one|two|three|four|five|six|seven|\d+|twin)"


def _has_living(match: re.Match[str]) -> Sequence[Draft]:
    kind = normalised(match["kind"])
    text = _cut_names(match["rest"])
    return (Draft("has", f"have:{kind}", f"{match['count']} {match['kind']}{text}",
                  f"I have {match['count']} {match['adjectives']}{match['kind']}{text}"),)  # fmt: skip


def _cut_names(text: str) -> str:
    """What follows "two cats": their names, or nothing."""
    names = re.match(rf"[,:]?\s*(?:(?:called|named|-)\s+)?({NAME}(?:(?:,| and|, and|&) {NAME})*)", text)
    if names:
        return f", {names[1]}"
    more = re.match(
        r"\s+(?:called|named|aged|who (?:is|are)|and (?:an?|one|two|three)) [^,.;]{1,60}", text, re.IGNORECASE
    )
    return more[0] if more else ""


_ANY_NAME = NAME.replace("(?-i:", "(?i:")
_LIKE = (
    r"(?:(?:lovely|little|small|big|young|older|younger|old|new|adopted|rescue|grown|black|white|beautiful|teenage|adult|golden"
    r"|german|\w+-(?:year|month)-old) )*"
)

WHO_ONE_IS = (
    rule(rf"my (?:first |full |last |real )?name(?:'s| is) (?P<v>{_ANY_NAME})(?=$|\W|\sand)", _named),
    rule(
        rf"(?:[Ii]'m|[Ii] am|[Tt]his is) (?P<v>{NAME})(?=$|,| and | by the way| from | here\b| -)",
        _named,
        case=True,
    ),
    rule(
        r"(?:please |you can |just |everyone calls me |people )?call me (?P<v>[\w'-]+)"
        r"(?=$|\W*$|,| everybody| everyone| instead| from now)",
        _nickname,
    ),
    rule(
        rf"{I_AM} {ADVERBS}(?P<v>\d{{1,3}})(?: years old| years of age| yrs old| y/?o)?(?=$|,| and\b| but\b| now\b| so\b)",
        _age,
    ),
    rule(r"I (?:just )?turned (?P<v>\d{1,3})\b", _age),
    rule(r"my (?:birthday|bday|b-day)(?:'s| is)(?: on)?(?: the)? (?P<v>.+)$", _birthday),
    rule(r"I was born (?:and raised )?(?P<v>(?:on|in) .+)$", _born),
)

FAMILY = (
    rule(
        rf"{I_AM} {ADVERBS}(?P<v>(?:{'|'.join(STATUS)})\b(?!-| (?:in|with|by|from|to (?:my|the|this|a))\b)(?: to {NAME})?)",
        value_fact("status", "marital status", words=6),
    ),
    rule(
        r"(?:I|we)(?:'ve| have)? (?:just |finally |recently )?got (?P<v>(?:married|engaged|divorced)\b.*)$",
        value_fact("status", "marital status", past=True, words=9),
    ),
    rule(
        r"my (?P<lead>(?:older |younger |little |big |eldest |youngest |twin |elder |late |best )?)"
        rf"(?P<who>{'|'.join(RELATIVES)})(?P<name>,? {CAPITALISED})?,?(?P<rest>(?:'s name is| ).*)?$",
        _relative,
    ),
    rule(
        rf"{I_HAVE} {ADVERBS}(?P<count>{_COUNTS}) (?P<adjectives>{_LIKE})(?P<kind>{'|'.join(LIVING)})\b(?P<rest>.*)$",
        _has_living,
    ),
)
