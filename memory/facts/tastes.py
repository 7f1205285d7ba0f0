"""Rules for what one has, uses and likes: possessions, attributes, favourites, tastes, requests to the assistant."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.facts.dates import low
from memory.facts.draft import ADVERBS, CAPITALISED, I_AM, Draft, cut, rule, value_fact, whole
from memory.facts.wording import normalised
from memory.facts.words import ATTRIBUTES, LANGUAGES, NO_VALUE, POSSESSIONS


def _possession(match: re.Match[str]) -> Sequence[Draft]:
    value, clause = whole(match, "v")
    head = POSSESSIONS.search(value)
    verb = match["verb"].lower()
    if head is None and (verb == "got" or not re.search(r"(?<!^)\b[A-Z]\w+", value)):
        return ()
    key = normalised(head[0]) if head else normalised(value)
    past = verb not in ("own", "drive", "ride", "have")
    if verb == "drive":
        return (Draft("owns", "drives", re.sub(r"\s+now$", "", value), clause, 0.85),)
    gone = verb in ("sold", "lost", "crashed")
    return (Draft("owns", f"own:{key}", ("no longer " if gone else "") + value, clause, 0.85, past=past),)


def _attribute(match: re.Match[str]) -> Sequence[Draft]:
    name = low(match["name"])
    value = cut(match["v"], words=10)
    if match["changed"]:
        value = cut(match["changed"], words=10)
    value = re.sub(r"^now\s+|\s+now$", "", value)
    check = ATTRIBUTES[next(k for k in ATTRIBUTES if re.fullmatch(k, name))]
    if not value or NO_VALUE.match(value) or not re.search(check, value):
        return ()
    return (Draft("attribute", normalised(name), value, f"my {match['name']} is {value}"),)


def _favourite(match: re.Match[str]) -> Sequence[Draft]:
    value = cut(match["v"], words=8)
    now = re.search(r"now (?:it's|it is)\s+(.+)", match["v"])
    if now:
        value = cut(now[1], words=8)
    elif value.lower().startswith("used to be"):
        return ()
    thing = re.sub(r"^favou?rite", "favourite", match["name"].lower())
    if not value or re.match(r"(?:when|how|that|to|not|the one|it)\b", value, re.IGNORECASE):
        return ()
    return (Draft("favourite", normalised(thing), value, f"my {thing} is {value}", preference=True),)


_NO_TASTE = (
    r"(?:i|they|we|it|this|that|these|those|you|your|him|her|his|them|their|how|what|when|where|why|who|which|the (?:way"
    r"|idea|fact"
    r"|part|one|first"
    r"|second|new|look|sound|thought|last|third|other|same)|to (?:hear|see|know|ask|say|be|think|have|thank|get|make|do"
    r"|help|tell)|seeing"
    r"|hearing|having to|one|both|everything|nothing|anything|all|being|our|my (?!morning)|in|on|as|for|so|everyone|a lot"
    r"|the|doing"
    r"|every|some|each|was|were|is|are|to (?:just|sound)|using|stuff)\b"
)


def _shortened(text: str) -> str:
    """At most fourteen words; of more, up to where a part that can be left out begins."""
    words = text.split()
    if len(words) <= 14:
        return text
    end = next(
        (
            i
            for i in range(14, 3, -1)
            if words[i].lower() in ("and", "with", "that", "when", "to", "in", "for", "as", "at")
        ),
        14,
    )
    return " ".join(words[:end])


def _taste(match: re.Match[str]) -> Sequence[Draft]:
    # "People who lie": without the rest it says something else.
    value = _shortened(cut(match["v"].replace(" who ", " \x02"), words=40).replace("\x02", "who "))
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
    value = cut(match["v"], words=16)
    if len(value.split()) < 2:
        return ()
    language = re.search(r"\bin (" + "|".join(LANGUAGES) + r")\b", value, re.IGNORECASE)
    slot = "request:language" if language else f"request:{normalised(value)}"
    return (
        Draft("request", slot, value, f"I ask of assistants: {match['lead']}{value}", 0.8, preference=True),
    )


def _uses(match: re.Match[str]) -> Sequence[Draft]:
    value, clause = whole(match, "v", words=8)
    if not re.match(rf"(?:an? |the )?{CAPITALISED}", value):
        return ()
    return (Draft("uses", f"use:{normalised(value)}", value, clause, 0.75, preference=True),)


def _leaning(match: re.Match[str]) -> Sequence[Draft]:
    """ "I'm a fan of", "I'm not into"; of "I'm not a ..." only what is a kind of person."""
    if match["verb"].lower().endswith("not a") and not re.match(
        r"(?:cat|dog|people|coffee|tea) person", match["v"]
    ):
        return ()
    return _taste(match)


_hobby = value_fact("hobby", "hobby", many=True, words=7, confidence=0.7)
_DONE = r"do (?!yoga|pilates|karate|judo|crossfit|ballet|pottery|boxing)"

THINGS = (
    rule(
        rf"(?:I|we)(?:'ve| have)? {ADVERBS}(?P<verb>own|drive|ride|bought|got|adopted|purchased|inherited|sold|crashed)"
        r"(?: myself| us)? (?P<v>(?:an?|my first|our first|my|our|the|two|three|\d) .+)$",
        _possession,
    ),
    rule(
        r"my (?P<name>favou?rite [\w-]+(?: [\w-]+)?) "
        r"(?:is|are|was always|will always be|has always been|(?=used to be)) ?(?P<v>.+)$",
        _favourite,
    ),
    rule(
        rf"my (?:new |current |own )?(?P<name>{'|'.join(ATTRIBUTES)})"
        r"(?:'s| is| are|:| (?:has )?changed,? (?:it's|it is|to) (?P<changed>.+)|(?=$)) ?(?P<v>.*)$",
        _attribute,
    ),
)

TASTES = (
    rule(
        rf"I(?:'m| am) {ADVERBS}(?P<verb>a (?:big |huge |massive )?fan of|(?:really |very )?into|passionate about|afraid of"
        r"|scared of|terrified of|crazy about|not a (?:big )?fan of|not into|not a) (?P<v>.+)$",
        _leaning,
    ),
    rule(
        rf"(?:I|we) (?:do |did )?{ADVERBS}(?P<verb>love|like|enjoy|prefer|hate|dislike|can't stand|cannot stand|adore|despise"
        r"|detest|don't (?:really )?like|don't (?:really )?enjoy|do not like) (?P<v>.+)$",
        _taste,
    ),
    rule(
        r"(?P<lead>please (?:always|never|don't ever) "
        r"|always (?=answer|reply|respond|write|use|call|give|speak|address|start)|from now on,? (?:please )?"
        r"|going forward,? (?:please )?|in (?:the )?future,? (?:please )?"
        r"|never (?=use|call|answer|write|give|suggest|recommend)"
        r"|please (?=(?:answer|reply|respond|speak|talk|write)(?: to me)? in \w+$))(?P<v>.+)$",
        _request,
    ),
    rule(r"I (?:mostly |mainly |usually |always )?use (?P<v>.+)$", _uses),
    rule(
        rf"I (?:also |usually |often )?(?!{_DONE})(?P<v>(?:play|practise|practice|collect|do) "
        r"(?!it|with|around|that|this|them|my|not|n't|the same|a lot|so|along)"
        r"[\w' -]{3,40}?(?: (?:every|on|in|at|once|twice|for) .*)?)$",
        _hobby,
    ),
    rule(
        rf"{I_AM} not (?P<v>an? (?:morning|night|cat|dog) person)",
        value_fact("taste", "taste", many=True, preference=True),
    ),
)
