"""The patterns by which facts are found in a clause, in the order in which they are tried.

A pattern is compared from the beginning of the clause. `build` looks at what it found and gives drafts of facts; none where the
words are not what the pattern is for. Lists of words are closed where the pattern alone would take too much.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory.facts_dates import MONTHS, WEEKDAYS, names_a_date
from memory.facts_wording import normalised
from memory.facts_words import (
    APPOINTMENTS, ATTRIBUTES, CONDITIONS, DIETS, LANGUAGES, LIVING, NATIONALITIES, OCCUPATION, POSSESSIONS, RELATIVES, STATUS,
)  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and what makes drafts of its match."""

    pattern: re.Pattern[str]
    build: Callable[[re.Match[str]], Sequence[Draft]]


_I_AM = r"(?:I'm|I am|im|we're|we are)"
_I_HAVE = r"(?:I've got|I have got|I've|I have|we've got|we've|we have|I got)"
_ADV = (
    r"(?:(?:really|absolutely|also|actually|just|still|now|currently|only|mostly|finally|recently|already|definitely|totally|both"
    r"|personally|generally|usually|truly|severely|very|quite|mainly|originally|officially|kind of|so|originally|a bit) )*"
)
_STOP = re.compile(
    r"\s*(?:[,;:(]|\s-\s|\s\u2013\s|\s\u2014\s|\bbecause\b|\bso\b(?! far)|\bbut\b|\balthough\b|\bthough\b|\bwhile\b|\bwhich\b"
    r"|\bwho\b|\bwhere\b|\bby the way\b|\bbtw\b|\bplease\b|\band (?:i|i'm|my|we|it|he|she|they|the|have|that|this|am|need|want"
    r"|wanted|was|run|love|can|will|would|has|so|now|been|then)\b|\bcan you\b|\bif\b|!|\. )",
    re.IGNORECASE,
)
_CAP = r"(?-i:[A-Z\u00c0-\u00de])[\w'\u00c0-\u017f-]*"
_NAME = rf"{_CAP}(?: (?:{_CAP}|de|la|van|von|der|den|al|bin|ben|Le)){{0,3}}"


def _cut(text: str, *, words: int = 12) -> str:
    """The text up to where another thought begins."""
    stop = _STOP.search(text)
    text = text[: stop.start()] if stop else text
    return " ".join(text.split()[:words]).strip(" ,.!-")


def _rule(pattern: str, build: Callable[[re.Match[str]], Sequence[Draft]], *, case: bool = False) -> Rule:
    return Rule(re.compile(pattern, 0 if case else re.IGNORECASE), build)


def _whole(match: re.Match[str], group: str, *, words: int = 12) -> tuple[str, str]:
    """The value of a group, cut, and the clause up to its end."""
    value = _cut(match[group], words=words)
    space = " " if match[group].startswith(" ") else ""
    return value, match.string[: match.start(group)] + space + value


# --- who one is ---------------------------------------------------------------------------------------------------------------

_NO_NAMES = frozenset(
    "not sorry ok okay fine back here so very too just also still good great sure happy sad glad tired in on at a an the i mr mrs"
    " ready done new old home late off out up down well".split()
) | set(WEEKDAYS) | set(MONTHS)  # fmt: skip


def _named(match: re.Match[str]) -> Sequence[Draft]:
    name = match["v"].strip()
    first = name.split()[0]
    if first.lower() in _NO_NAMES or first.lower() in NATIONALITIES or name.isupper() and len(name) > 3:
        return ()
    return (Draft("name", "name", name, f"my name is {name}"),)


_NO_NICKNAMES = frozenset(
    "later back crazy when tomorrow if old maybe a an at on by the stupid today tonight and to in about weird again or".split()
)


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


def _dated_fact(rule: str, slot: str, *, past: bool = False) -> Callable[[re.Match[str]], Sequence[Draft]]:
    def build(match: re.Match[str]) -> Sequence[Draft]:
        value, clause = _whole(match, "v")
        return (Draft(rule, slot, value, clause, past=past, lasting=True),) if value else ()

    return build


def _born(match: re.Match[str]) -> Sequence[Draft]:
    value, clause = _whole(match, "v")
    if not re.search(rf"\d|{_CAP}", value):
        return ()
    return (Draft("born", "born", value, clause, past=True),)


def _birthday(match: re.Match[str]) -> Sequence[Draft]:
    value = _cut(match["v"], words=7)
    if not re.search(r"\d|" + "|".join(m[:3] for m in MONTHS), value, re.IGNORECASE):
        return ()
    # The day comes again each year: it is not given a year.
    return (Draft("birthday", "birthday", value, f"my birthday is \x01{value}"),)


_NO_PLACES = re.compile(
    r"^(?:the (?!netherlands|uk|us|usa|states|philippines|bronx|hague|bay|country|suburbs|countryside|city|north|south|east|west|alps)"
    r"|this|that|it|my|your|a (?:world|dream|bubble|moment|hurry)|fear|peace|constant|here|there|where|what|hope|pain|harmony"
    r"|general|mind|love|awe|shock|on|tomorrow|today|and)\b",
    re.IGNORECASE,
)


def _place(text: str) -> str:
    value = _cut(text, words=8)
    value = re.sub(
        r"\s+(?:for|since|these|right now|at the moment|now|nowadays|with|these days|this|last|next|in (?:19|20)\d\d|about|around"
        r"|two|three|four|five|six|\d+|a (?:few|couple|year|month|week)|yesterday|today|recently|when|as|by|to|until|after|before"
        r"|temporarily|again|anymore|any more|too|because|over|years|months|weeks|all|atm|on|after|not)\b.*$",
        "", value, flags=re.IGNORECASE,
    )  # fmt: skip
    return "" if _NO_PLACES.match(value) or not value else value


def _home(match: re.Match[str]) -> Sequence[Draft]:
    place = _place(match["v"])
    if not place:
        return ()
    moved = match["verb"].lower() in ("moved", "relocated")
    if moved and not re.search(_CAP, place) and len(place.split()) > 2:
        return ()
    rest = _cut(match["v"])
    if moved:
        when = rest[len(place) :].strip()
        return (
            Draft(
                "home",
                "home",
                place,
                f"I live in {place} (moved there{' ' + when if names_a_date(when) else ''})",
                past=True,
            ),
        )
    clause = match.string[: match.start("v")] + (rest if len(rest.split()) <= 9 else place)
    return (Draft("home", "home", place, clause, past=True),)


def _place_fact(
    rule: str, slot: str, *, many: bool = False, past: bool = False
) -> Callable[[re.Match[str]], Sequence[Draft]]:
    def build(match: re.Match[str]) -> Sequence[Draft]:
        place = _place(match["v"])
        if not place or not re.search(r"[A-Z\u00c0-\u00de]", place):
            return ()
        key = f"{slot}:{normalised(place)}" if many else slot
        return (
            Draft(rule, key, place, match.string[: match.start("v")] + _cut(match["v"], words=9), past=past),
        )

    return build


# --- work and study -----------------------------------------------------------------------------------------------------------

_NO_WORK = re.compile(
    r"^(?:home|the|this|that|it|my|a project|what|how|night|weekends?|least|once|being|getting|something|everything|now|all|myself"
    r"|me|you|him|her|them|us|days?|noon|\d)\b",
    re.IGNORECASE,
)


def _employer(match: re.Match[str]) -> Sequence[Draft]:
    found = re.split(r"\s+as\s+(?=an?\s|the\s)", _cut(match["v"]), maxsplit=1)
    place = re.sub(
        r"\s+(?:for|since|now|these days|last|this|next|on|in \d{4}|full|part|until|right|two|three|\d+)\b.*$",
        "",
        found[0],
    )
    drafts: list[Draft] = []
    if place and not _NO_WORK.match(place):
        lead = match.string[: match.start("v")]
        drafts.append(
            Draft(
                "employer",
                "employer",
                place,
                re.sub(r"^I'm working|^I am working", "I work", lead, flags=re.I) + place,
            )
        )
    if len(found) > 1:
        drafts.append(Draft("job", "job", found[1], f"I work as {found[1]}"))
    return drafts


def _job(match: re.Match[str]) -> Sequence[Draft]:
    text = _cut(match["v"])
    found = re.split(r"\s+(?:at|for|with)\s+(?=[A-Z\u00c0-\u00de])", text, maxsplit=1)
    drafts = [Draft("job", "job", found[0], f"I work as {found[0]}")]
    if len(found) > 1:
        drafts.append(Draft("employer", "employer", found[1], f"I work at {found[1]}"))
    return drafts


def _occupation(match: re.Match[str]) -> Sequence[Draft]:
    text = _cut(match["v"])
    head = re.split(r"\s+(?:at|for|from|in|with|of|on|by|to|here|who|since|now|and)\b", text)[0]
    if not OCCUPATION.search(head) or len(head.split()) > 5:
        return ()
    drafts = [Draft("job", "job", head, match.string[: match.start("v")] + text)]
    origin = re.search(rf"\bfrom ({_NAME})", text)
    if origin:
        drafts.append(Draft("origin", "origin", origin[1], f"I am from {origin[1]}"))
    return drafts


def _value_fact(
    rule: str, slot: str, *, many: bool = False, confidence: float = 0.9, past: bool = False, words: int = 12,
    preference: bool = False, no: str = r"$^",
) -> Callable[[re.Match[str]], Sequence[Draft]]:  # fmt: skip
    """A fact whose value is a group `v`, not one that `no` fits. `many`: the value is in the slot."""
    refused = re.compile(no, re.IGNORECASE)

    def build(match: re.Match[str]) -> Sequence[Draft]:
        value, clause = _whole(match, "v", words=words)
        if not value or refused.match(value):
            return ()
        key = f"{slot}:{normalised(value)}" if many else slot
        return (Draft(rule, key, value, clause, confidence, preference, past=past),)

    return build


# --- people -------------------------------------------------------------------------------------------------------------------

_ONE_OF_A_KIND = frozenset(
    "wife husband partner spouse fiance fiancé fiancee fiancée girlfriend boyfriend mother mom mum father dad".split()
)
_ABOUT_THEM = (
    r"(?:lives?|works?|moved|is (?:from|called|an?(?! (?:little|bit|lot|great|good))|\d|allergic|vegan|vegetarian|married|pregnant|getting married|expecting|in"
    r" (?:first|second|third|fourth|\w+ grade|\d))|are (?:from|called|both|\d)|'s name is|name is|names are|turns?|turned|was born"
    r"|died|passed away|studies|study|just had|had a baby|plays|speaks|teaches|has (?:a|an|two|three)|is studying|is coming|is visiting"
    r"|are coming|are visiting|got married|got engaged|is retired|are retired|goes to|started (?:at|university|college)|is learning)\b"
)


def _spaced(before: str, text: str) -> str:
    return text if before.startswith("'") else f" {text}"


def _relative(match: re.Match[str]) -> Sequence[Draft]:
    relative, name, text = (
        match["who"].lower(),
        (match["name"] or "").strip(),
        _cut(match["rest"] or "", words=14),
    )
    if name and (name.lower() in _NO_NAMES or not name[0].isupper()):
        return ()
    said = re.match(_ABOUT_THEM, text, re.IGNORECASE)
    if said is None and not (name and (not text or match["lead"])):
        return ()
    called = re.search(rf"(?:called|named|name is|names are) ({_NAME})", text)
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
    return (Draft("relative", f"{who}:{about}", value, clause, 0.85, past=bool(re.match(r"moved|died|passed|got|turned|just", text)),
                  lasting=True),)  # fmt: skip


_COUNTS = r"(?:an?|one|two|three|four|five|six|seven|\d+|twin)"


def _has_living(match: re.Match[str]) -> Sequence[Draft]:
    kind = normalised(match["kind"])
    text = _cut_names(match["rest"])
    return (Draft("has", f"have:{kind}", f"{match['count']} {match['kind']}{text}",
                  f"I have {match['count']} {match['adjectives']}{match['kind']}{text}"),)  # fmt: skip


def _cut_names(text: str) -> str:
    """What follows "two cats": their names, or nothing."""
    names = re.match(rf"[,:]?\s*(?:(?:called|named|-)\s+)?({_NAME}(?:(?:,| and|, and|&) {_NAME})*)", text)
    if names:
        return f", {names[1]}"
    more = re.match(
        r"\s+(?:called|named|aged|who (?:is|are)|and (?:an?|one|two|three)) [^,.;]{1,60}", text, re.IGNORECASE
    )
    return more[0] if more else ""


# --- what one has -------------------------------------------------------------------------------------------------------------


def _possession(match: re.Match[str]) -> Sequence[Draft]:
    value, clause = _whole(match, "v")
    head = POSSESSIONS.search(value)
    if head is None and not re.search(r"(?<!^)\b[A-Z]\w+", value):
        return ()
    key = normalised(head[0]) if head else normalised(value)
    verb = match["verb"].lower()
    past = verb not in ("own", "drive", "ride", "have")
    if verb == "drive":
        return (Draft("owns", "drives", re.sub(r"\s+now$", "", value), clause, 0.85),)
    gone = verb in ("sold", "lost", "crashed")
    return (Draft("owns", f"own:{key}", ("no longer " if gone else "") + value, clause, 0.85, past=past),)


def _attribute(match: re.Match[str]) -> Sequence[Draft]:
    name = match["name"].lower()
    value = _cut(match["v"], words=10)
    if match["changed"]:
        value = _cut(match["changed"], words=10)
    value = re.sub(r"^now\s+|\s+now$", "", value)
    check = ATTRIBUTES[next(k for k in ATTRIBUTES if re.fullmatch(k, name))]
    if not value or not re.search(check, value):
        return ()
    return (Draft("attribute", normalised(name), value, f"my {match['name']} is {value}"),)


def _favourite(match: re.Match[str]) -> Sequence[Draft]:
    value = _cut(match["v"], words=8)
    now = re.search(r"now (?:it's|it is)\s+(.+)", match["v"])
    if now:
        value = _cut(now[1], words=8)
    elif value.lower().startswith("used to be"):
        return ()
    thing = re.sub(r"^favou?rite", "favourite", match["name"].lower())
    if not value or re.match(r"(?:when|how|that|to|not|the one|it)\b", value, re.IGNORECASE):
        return ()
    return (Draft("favourite", normalised(thing), value, f"my {thing} is {value}", preference=True),)


# --- health and food ----------------------------------------------------------------------------------------------------------


def _allergy(match: re.Match[str]) -> Sequence[Draft]:
    value = _cut(match["v"], words=8)
    value = re.sub(r"\s+(?:any ?more|since|as well|too)\b.*$", "", value)
    if not value or re.match(
        r"(?:anything|nothing|it|that|this|work|mondays?|you|people)\b", value, re.IGNORECASE
    ):
        return ()
    negated = bool(re.search(r"\bnot (?:\w+ )?allergic", match.string, re.IGNORECASE))
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


# --- tastes -------------------------------------------------------------------------------------------------------------------

_NO_TASTE = (
    r"(?:it|this|that|these|those|you|your|him|her|his|them|their|how|what|when|where|why|who|which|the (?:way|idea|fact|part|one|first"
    r"|second|new|look|sound|thought|last|third|other|same)|to (?:hear|see|know|ask|say|be|think|have|thank|get|make|do|help|tell)|seeing"
    r"|hearing|having to|one|both|everything|nothing|anything|all|being|our|my (?!morning)|in|on|as|for|so|everyone|a lot|the|doing"
    r"|every|some|each|was|were|is|are|to (?:just|sound)|using|stuff)\b"
)


def _shortened(text: str) -> str:
    """At most fourteen words; of more, up to where a part that can be left out begins."""
    words = text.split()
    if len(words) <= 14:
        return text
    place = next(
        (
            i
            for i in range(14, 3, -1)
            if words[i].lower() in ("and", "with", "that", "when", "to", "in", "for", "as", "at")
        ),
        14,
    )
    return " ".join(words[:place])


def _taste(match: re.Match[str]) -> Sequence[Draft]:
    value = _shortened(
        re.split(r" who | - ", _cut(match["v"].replace(" who ", " \x02"), words=40).replace("\x02", "who "))[
            0
        ]
    )
    value = re.sub(
        r"\s+(?:any ?more|at all|too|as well|a lot|very much|so much|the most|most|best|better)$", "", value
    )
    if not value or re.match(_NO_TASTE, value, re.IGNORECASE):
        return ()
    if re.search(r"\b(?:it|them|him|her|this|that|you|one|those|these)$", value, re.IGNORECASE):
        return ()
    verb = match["verb"].lower()
    against = bool(
        re.search(
            r"hate|dislike|n't|not|detest|despise|afraid|scared",
            match.string[: match.start("v")],
            re.IGNORECASE,
        )
    )
    over = (
        re.split(r"\s+(?:over|to|rather than|instead of)\s+", value, maxsplit=1)
        if verb == "prefer"
        else [value]
    )
    # Both sides, in one order: a later preference for the other one replaces it.
    slot = (
        f"prefer:{' '.join(sorted(set(normalised(' '.join(over)).split())))}"
        if len(over) > 1
        else f"taste:{normalised(value)}"
    )
    return (
        Draft(
            "taste",
            slot,
            ("not " if against else "") + (over[0] if len(over) > 1 else value),
            match.string[: match.start("v")] + value,
            0.7,
            preference=True,
        ),
    )


def _request(match: re.Match[str]) -> Sequence[Draft]:
    value = _cut(match["v"], words=16)
    if len(value.split()) < 2:
        return ()
    language = re.search(r"\bin (" + "|".join(LANGUAGES) + r")\b", value, re.IGNORECASE)
    slot = "request:language" if language else f"request:{normalised(value)}"
    return (
        Draft("request", slot, value, f"I ask of assistants: {match['lead']}{value}", 0.8, preference=True),
    )


def _uses(match: re.Match[str]) -> Sequence[Draft]:
    value, clause = _whole(match, "v", words=8)
    if not re.match(rf"(?:an? |the )?{_CAP}", value):
        return ()
    return (Draft("uses", f"use:{normalised(value)}", value, clause, 0.75, preference=True),)


# --- plans and decisions ------------------------------------------------------------------------------------------------------


def _plan_topic(kind: str, rest: str) -> str:
    """What a plan is about: its kind and the names and nouns beside it."""
    beside = re.match(
        r"\s*(?:(?:with|to|for|at|about|in)\s+(?:the |my |a |an )?([\w'-]+(?: [A-Z][\w'-]+)?))", rest
    )
    word = beside[1] if beside else ""
    if (
        word.lower() in ("the", "on", "at", "in", "next", "this")
        or word.isdigit()
        or names_a_date(word)
        or names_a_date(f"in {word}")
    ):
        word = ""
    return normalised(f"{kind} {word}")


def _appointment(match: re.Match[str]) -> Sequence[Draft]:
    text = match.string if match["when"] is None else f"{match['who']} {match['rest0']} {match['when']}"
    text = _cut_plan(text)
    if not (names_a_date(text) or re.search(r"\b(?:at|on|in) (?:\d|[A-Z])", text)):
        return ()
    kind, rest = match["kind"], text.split(match["kind"], 1)[-1]
    if not names_a_date(text) and not re.search(r"\bat \d", text):
        return ()
    topic = _plan_topic((match["adjective"] or "") + kind, rest)
    return (Draft("plan", f"plan:{topic}", text, re.sub(r"^(?:the|an?)\s", "my ", text), 0.85, topic=topic),)


def _cut_plan(text: str) -> str:
    stop = re.search(
        r",\s+(?:but|so|and|can|which|please|i|my|we|it|any|do|how|what)\b|\s+(?:so|because|but|and)\s+(?:i|my|we|it|he|she|they|the|have"
        r"|need|want)\b|!|;",
        text, re.IGNORECASE,
    )  # fmt: skip
    return " ".join((text[: stop.start()] if stop else text).split()[:24])


def _event(match: re.Match[str]) -> Sequence[Draft]:
    """ "my meeting is on Monday now": what is scheduled, and when."""
    when = _cut_plan(match["v"])
    if not (names_a_date(when) or re.match(r"(?:at|on|from)?\s*\d", when)):
        return ()
    topic = _plan_topic(match["kind0"] + match["kind"], match["beside"] or "")
    when = re.sub(r"\s+(?:now|instead)\b", "", when)
    if re.match(r"(?:\d|noon|[a-z]+day)", when, re.IGNORECASE) and match["moved"]:
        when = f"to {when}" if match["moved"].endswith("moved") else when
    lead = match.string[: match.start("v")]
    lead = re.sub(r"^(?:the|our)\s", "my ", lead, flags=re.IGNORECASE)
    return (Draft("plan", f"plan:{topic}", when, lead + when, 0.85, topic=topic),)


def _travel(match: re.Match[str]) -> Sequence[Draft]:
    text = _cut_plan(match["v"])
    place = re.match(rf"(?:the )?(?:{_CAP})(?: {_CAP})*", text)
    verb = match["verb"].lower()
    if place is None or not (names_a_date(text) or verb in ("moving", "relocating")):
        return ()
    topic = normalised(f"{'move' if verb in ('moving', 'relocating') else 'trip'} {place[0]}")
    return (Draft("plan", f"plan:{topic}", text, match.string[: match.start("v")] + text, 0.8, topic=topic),)


def _expecting(match: re.Match[str]) -> Sequence[Draft]:
    text = _cut_plan(match["v"])
    topic = "wedding" if "married" in match["verb"].lower() else normalised(match["verb"])
    if not names_a_date(text) and topic == "wedding":
        return ()
    return (
        Draft(
            "plan",
            f"plan:{topic}",
            text,
            match.string[: match.start("v")] + " " + text.strip(),
            0.85,
            topic=topic,
            lasting=True,
        ),
    )


def _decision(match: re.Match[str]) -> Sequence[Draft]:
    value = _cut(match["v"], words=16)
    if len(value) < 3 or re.match(r"(?:what|where|which|it|that|yet|between)\b$", value, re.IGNORECASE):
        return ()
    return (
        Draft(
            "decision",
            f"decision:{normalised(value)}",
            value,
            match.string[: match.start("v")] + " " + value.lstrip(": "),
            0.75,
            past=True,
        ),
    )


def _choice(match: re.Match[str]) -> Sequence[Draft]:
    value = (
        _cut(match["v"], words=14)
        if "," not in match["v"]
        else " ".join(re.sub(r"[.!]$", "", match["v"]).split()[:14])
    )
    if re.match(r"(?:it|that|this|you|your|him|her|them|to|care|a look|notes?)\b", value, re.IGNORECASE):
        return ()
    return (Draft("decision", f"decision:{normalised(value)}", value, f"I chose {value}", 0.65),)


def _correction(match: re.Match[str]) -> Sequence[Draft]:
    text = re.sub(r"\s+(?:now|instead|then)\b", "", _cut(match["v"], words=8))
    starts = rf"(?:on|at|in|to|next|this|the \d|\d|from|tomorrow|today|tonight|{'|'.join(WEEKDAYS)}|{'|'.join(MONTHS)})\b"
    if (
        not names_a_date(text)
        or not re.match(starts, text, re.IGNORECASE)
        or len(re.sub(r"\W+", " ", text).split()) > 8
    ):
        return ()
    return (Draft("correction", "", text, text, 0.7, corrects=True),)


def _pieces(*drafts: Draft) -> Sequence[Draft]:
    return drafts


_KINDS = "|".join(APPOINTMENTS)
_KIN = "|".join(RELATIVES)
_CONDITION = "|".join(CONDITIONS)

RULES: tuple[Rule, ...] = (
    _rule(r"(?:it's|it is|its|i meant|i mean|make (?:it|that)|make that|(?:it|they|that)(?:'s| has| have)? (?:been |got |was )?"
          r"(?:moved|rescheduled|postponed|pushed|changed)(?: it)?(?: back| forward)?(?: to| until)?|it was (?:moved|rescheduled|postponed)"
          r" to|we moved it to)\s+(?P<v>.+)$", _correction),
    _rule(r"(?:my|the|our) (?P<kind0>(?:[\w'-]+ ){0,2}?)(?P<kind>" + _KINDS + r")(?P<beside> (?:with|to|for|at|about|in) (?:the |my |a )?"
          r"[\w'-]+(?: [A-Z][\w'-]+)?)??(?: appointment| meeting)?(?:'s| is| are| was| leaves| starts| begins| got| has been| has)?"
          r"(?P<moved> (?:now |been |also |scheduled |set |due |planned |booked )*(?:re)?(?:moved|scheduled|postponed|pushed|changed)?)"
          r" ?(?:to |for )?(?P<v>(?:(?:now )?(?:on|at|in|next|this|tomorrow|today|tonight|to|from|\d|" + "|".join(WEEKDAYS) + "|"
          + "|".join(MONTHS) + r")\b).*)$", _event),
    _rule(r"(?:(?P<when>(?:on |next |this )?(?:tomorrow|today|tonight|" + "|".join(WEEKDAYS) + r")(?: (?:morning|afternoon|evening))?),? )?"
          r"(?P<who>I have|I've got|I've|we have|we've got|there's|I got) (?P<rest0>(?:my |an? |the |another )?(?P<adjective>(?:[\w'-]+ ){0,2}?)"
          r"(?P<kind>" + _KINDS + r")\b.*)$", _appointment),
    _rule(r"(?P<verb>we're getting married|I'm getting married|we are getting married|I am getting married)(?P<v>.*)$", _expecting),
    _rule(r"(?:we're|I'm|we are|I am) (?P<verb>expecting (?:a baby|our (?:first|second|third)[\w ]*|twins))(?P<v>.*)$", _expecting),
    _rule(r"my (?:first |full |last |real )?name(?:'s| is) (?P<v>" + _NAME.replace("(?-i:", "(?i:") + r")(?=$|\W|\sand)", _named),
    _rule(rf"(?:[Ii]'m|[Ii] am|[Tt]his is) (?P<v>{_NAME})(?=$|,| and | by the way| from | here\b| -|, )", _named, case=True),
    _rule(r"(?:please |you can |just |everyone calls me |people )?call me (?P<v>[\w'-]+)(?=$|\W*$|,| everybody| everyone| instead| from now)",
          _nickname),
    _rule(rf"{_I_AM} {_ADV}(?P<v>\d{{1,3}})(?: years old| years of age| yrs old| y/?o)?(?=$|,| and\b| but\b| now\b| so\b)", _age),
    _rule(r"I (?:just )?turned (?P<v>\d{1,3})\b", _age),
    _rule(r"my (?:birthday|bday|b-day)(?:'s| is)(?: on)?(?: the)? (?P<v>.+)$", _birthday),
    _rule(r"I was born (?:and raised )?(?P<v>(?:on|in) .+)$", _born),
    _rule(r"I (?:come|grew up|hail)(?: from| in) (?P<v>.+)$", _place_fact("origin", "origin", past=True)),
    _rule(rf"(?:I|we)(?:'m|'re| am| are)? {_ADV}from (?P<v>.+)$", _place_fact("origin", "origin", past=True)),
    _rule(rf"(?:I|we)(?:'m|'re|'ve| am| are| have)? {_ADV}(?:been )?(?P<verb>live|living|lived|based|reside|residing)(?: now| here| currently)?"
          r" (?:in|near|outside(?: of)?|at) (?P<v>.+)$", _home),
    _rule(rf"(?:I|we)(?:'ve| have)? {_ADV}(?P<verb>moved|relocated)(?: back| over| away| here| house)? to (?P<v>.+)$", _home),
    _rule(r"I used to live (?:in|near) (?P<v>.+)$", _place_fact("lived", "lived", many=True, past=True)),
    _rule(rf"{_I_AM} {_ADV}(?P<verb>going|flying|travelling|traveling|heading|driving|moving|relocating|visiting)(?: back| over| on holiday)?"
          r"(?: to)? (?P<v>.+)$", _travel),
    _rule(rf"I {_ADV}work as (?P<v>.+)$", _job),
    _rule(rf"(?:I|we)(?:'m| am|'ve been| have been)? {_ADV}work(?:ing)? (?:at|for) (?P<v>.+)$", _employer),
    _rule(r"I(?:'m|'ve| am| have)? (?:just |recently |now )?(?:start(?:ed|ing)|joined|joining|got hired|was hired|begin|began)(?: a new job|"
          r" work| working| my new job)?(?P<v> (?:at|by|with) (?-i:[A-Z0-9]).+)$", _value_fact("employer", "employer", past=True)),
    _rule(r"I(?:'ve| have)? (?:just |recently )?(?P<v>(?:quit|left|lost|resigned from) my (?:old )?job.*)$", _value_fact("employer",
          "employer", past=True)),
    _rule(r"I(?:'ve| have)? (?:just |recently |finally )?(?:got|been|was) promoted(?P<v> to .+)$", _value_fact("job", "job", past=True)),
    _rule(rf"(?:I'm|I am) {_ADV}(?:the |a |an |our )?(?P<v>(?:ceo|cto|cfo|head|director|founder|co-founder|owner|manager|captain|chair\w*)"
          r" (?:of|at) .+)$", _value_fact("job", "job")),
    _rule(r"I (?:also )?(?P<v>(?:run|own|manage|founded) (?:an?|my own|the) .*(?:shop|business|company|startup|start-up|restaurant|cafe|café|bar"
          r"|farm|studio|agency|bakery|store|practice|salon|hotel|charity|blog|podcast|channel).*)$", _value_fact("job", "business")),
    _rule(r"(?:I'm|I am) (?:now |currently )?(?P<v>(?:retired|unemployed|self-employed|freelancing|freelance|between jobs|on parental leave"
          r"|on maternity leave|on sick leave))\b", _value_fact("job", "job")),
    _rule(r"I (?P<v>teach (?!myself|you|him|her|them|how|people).+)$", _value_fact("job", "job", words=9)),
    _rule(r"I was (?P<v>an? .+)$", lambda m: (Draft("job", f"past job:{normalised(_cut(m['v'], words=4))}", _cut(m["v"]),
          f"I was {_cut(m['v'])}", past=True),) if OCCUPATION.search(" ".join(_cut(m["v"]).split(" for ")[0].split()[:4])) else ()),
    _rule(rf"(?:I'm|I am|im) {_ADV}(?:an? )(?P<v>.+)$", _occupation),
    _rule(rf"I(?:'m| am)? {_ADV}(?P<v>(?:study|studying) (?!for\b|hard|here|a lot|at home|every|now|it\b|this|that).+)$",
          _value_fact("study", "study", words=10)),
    _rule(r"(?:I'm|I am) (?P<v>an? (?:[\w-]+ )?(?:student|phd student|freshman|sophomore|senior|junior) (?:at|in|of) .+)$",
          _value_fact("study", "study")),
    _rule(r"I(?:'ve| have)? (?:just |recently )?(?P<v>graduated (?:from|in|with) .+)$", _value_fact("study", "graduated", past=True)),
    _rule(rf"I {_ADV}(?:can )?speak (?:fluent |some |a (?:little|bit of) |native )?(?P<v>(?:" + "|".join(LANGUAGES) + r")\b.*)$",
          _value_fact("speaks", "speaks", words=10)),
    _rule(rf"(?:I'm|I am|I've been|we're) {_ADV}(?P<v>learning (?!how|from|a lot|about|so much|that|more).+)$",
          _value_fact("learns", "learning", many=True, words=8)),
    _rule(r"I(?:'ve| have) been (?P<v>(?:a )?(?:" + "|".join(DIETS) + r") .*)$", _value_fact("diet", "diet")),
    _rule(rf"{_I_AM} {_ADV}(?:an? )?(?:strict )?(?P<v>(?:" + "|".join(DIETS) + r"))\b(?! (?:food|restaurant|recipe))", _value_fact("diet", "diet")),
    _rule(rf"{_I_AM} (?:not |no longer )?{_ADV}allergic to (?P<v>.+)$", _allergy),
    _rule(rf"{_I_HAVE} (?:an? )?(?:severe |bad |mild |serious |strong )?(?P<v>[\w-]+(?: [\w-]+)?) allerg(?:y|ies)\b", _allergy),
    _rule(rf"{_I_AM} {_ADV}(?:an? )?(?P<v>(?:type [12] )?(?:" + _CONDITION + r")\b.*)$", lambda m: (Draft("health",
          f"health:{normalised(re.match(_CONDITION + '|type', m['v'], re.I)[0])}", _cut(m["v"], words=6) + _after_comma(m["v"]),  # type: ignore[index]
          m.string[: m.start("v")] + _cut(m["v"], words=6) + _after_comma(m["v"])),)),
    _rule(r"(?:I have|I've got|I suffer from|I was (?:just |recently )?diagnosed with|I've been diagnosed with|I've had) (?P<v>(?:an? )?"
          r"(?:chronic |severe |mild |type [12] |bad )?(?:diabetes|asthma|adhd|add|celiac(?: disease)?|coeliac(?: disease)?|migraines?|epilepsy"
          r"|high blood pressure|low blood pressure|arthritis|anxiety|depression|insomnia|eczema|psoriasis|ibs|ptsd|autism|dyslexia"
          r"|crohn's(?: disease)?|cancer|sciatica|hypothyroidism|endometriosis|tinnitus|hay fever|sleep apnea|scoliosis|a heart condition"
          r"|anemia|gout)\b.*)$", _value_fact("health", "health", many=True, words=8)),
    _rule(r"I(?:'m| am)? (?P<v>(?:take|taking|on) [a-z-]{4,}(?: [a-z]+)? (?:every|daily|twice|once|for my|each) ?.*)$", lambda m: (
          Draft("medicine", f"medicine:{normalised(m['v'].split()[1])}", _cut(m["v"]), m.string[: m.start("v")] + _cut(m["v"]), 0.75),)
          if m["v"].split()[1].lower() not in ("care", "them", "that", "this", "time", "notes", "photos", "pictures", "walks", "lunch")
          else ()),
    _rule(r"I (?:can't|cannot|can not) (?P<v>(?:eat|tolerate|drink|digest) (?!it|that|this|them|anything|any more|anymore|here|now|another"
          r"|much|while|enough|until).+)$", _value_fact("food", "food", many=True, words=8)),
    _rule(r"I (?:don't|do not|never|no longer|stopped|quit|gave up) (?P<v>(?:eat|drink|smoke|eating|drinking|smoking)(?: (?!it|that|this|them"
          r"|anything|here|enough|much|until|too).+)?)$", lambda m: (Draft("food", "food:" + normalised(re.sub(r"(?:eat|drink|smok)\w*",
          lambda v: v[0][:3], re.sub(r"\b(?:any ?more|at all)\b", "", _cut(m["v"], words=6)))), "not", m.string[: m.start("v")]
          + _cut(m["v"], words=8), 0.85, preference=True),)),
    _rule(rf"{_I_AM} {_ADV}(?P<v>(?:{'|'.join(STATUS)})\b(?: to {_NAME})?)", _value_fact("status", "marital status", words=6)),
    _rule(r"(?:I|we)(?:'ve| have)? (?:just |finally |recently )?got (?P<v>(?:married|engaged|divorced)\b.*)$",
          _value_fact("status", "marital status", past=True, words=9)),
    _rule(rf"my (?P<lead>(?:older |younger |little |big |eldest |youngest |twin |elder |late |best )?)(?P<who>{_KIN})(?P<name>,? (?-i:{_CAP}))?,?"
          r"(?P<rest>(?:'s name is| ).*)?$", lambda m: _relative_clean(m)),
    _rule(rf"(?:{_I_HAVE}) {_ADV}(?P<count>{_COUNTS}) (?P<adjectives>(?:(?:lovely|little|small|big|young|older|younger|old|new|adopted|rescue|grown"
          rf"|\w+-(?:year|month)-old|black|white|beautiful|teenage|adult|golden|german) )*)(?P<kind>{'|'.join(LIVING)})\b(?P<rest>.*)$", _has_living),
    _rule(rf"(?:I|we)(?:'ve| have)? {_ADV}(?P<verb>own|drive|ride|bought|got|adopted|purchased|inherited|sold|crashed)(?: myself| us)? (?P<v>(?:(?:an?|"
          r"my first|our first|my|our|the|two|three|\d) ).+)$", _possession),
    _rule(r"my (?P<name>favou?rite [\w-]+(?: [\w-]+)?) (?:is|are|was always|will always be|has always been|(?=used to be)) ?(?P<v>.+)$",
          _favourite),
    _rule(rf"my (?:new |current |own )?(?P<name>{'|'.join(ATTRIBUTES)})(?:'s| is| are|:| (?:has )?changed,? (?:it's|it is|to) (?P<changed>.+)"
          r"|(?=$)) ?(?P<v>.*)$", _attribute),
    _rule(rf"I(?:'m| am) {_ADV}(?P<verb>a (?:big |huge |massive )?fan of|(?:really |very )?into|passionate about|afraid of|scared of|terrified of"
          r"|crazy about|not a (?:big )?fan of|not into|not a) (?P<v>.+)$", lambda m: _taste(m) if not m["verb"].lower().endswith("not a")
          or re.match(r"(?:morning|night|cat|dog|people|coffee|tea) person", m["v"]) else ()),
    _rule(rf"(?:I|we) (?:do |did )?{_ADV}(?P<verb>love|like|enjoy|prefer|hate|dislike|can't stand|cannot stand|adore|despise|detest|don't (?:really )?like"
          r"|don't (?:really )?enjoy|do not like) (?P<v>.+)$", _taste),
    _rule(r"(?P<lead>please (?:always|never|don't ever) |always (?=answer|reply|respond|write|use|call|give|speak|address|start)|from now on,? (?:please )?"
          r"|going forward,? (?:please )?|in (?:the )?future,? (?:please )?|never (?=use|call|answer|write|give|suggest|recommend)"
          r"|please (?=(?:answer|reply|respond|speak|talk|write)(?: to me)? in \w+$))(?P<v>.+)$", _request),
    _rule(r"I (?:mostly |mainly |usually |always )?use (?P<v>.+)$", _uses),
    _rule(r"I (?:also |usually |often )?(?P<v>(?:play|practise|practice|collect|do) (?!it|with|around|that|this|them|my|not|n't|the same|a lot|so|along)"
          r"[\w' -]{3,40}?(?: (?:every|on|in|at|once|twice|for) .*)?)$", lambda m: _value_fact("hobby", "hobby", many=True, words=7,
          confidence=0.7)(m) if not m["v"].lower().startswith("do ") or re.match(r"do (?:yoga|pilates|karate|judo|crossfit|ballet|pottery|boxing)",
          m["v"], re.I) else ()),
    _rule(r"(?:I|we)(?:'ve| have)? (?:finally |just )?(?:decided|agreed|made up (?:my|our) minds?)(?P<v>:? (?:to|on|against|that|not to|for) .+)$",
          _decision),
    _rule(r"(?:let's go (?:with|for)|(?:I'll|we'll) (?:go (?:with|for)|take)|(?:I|we) (?:chose|picked)|I'm going (?:with|for)) (?P<v>.+)$", _choice),
    _rule(r"(?:I'm|I am|I've been|we're) (?:currently )?(?P<v>(?:training for|saving (?:up )?for|preparing for|planning (?:a|an|my|our)|writing (?:a|my)"
          r" (?:book|novel|thesis|dissertation)) ?.*)$", _value_fact("goal", "goal", many=True, words=10)),
    _rule(rf"{_I_AM} not (?P<v>an? (?:morning|night|cat|dog) person)", _value_fact("taste", "taste", many=True, preference=True)),
)  # fmt: skip


def _after_comma(text: str) -> str:
    more = re.match(r"[^,]+(, type [12])", text)
    return more[1] if more else ""


def _relative_clean(match: re.Match[str]) -> Sequence[Draft]:
    return _relative(match)
