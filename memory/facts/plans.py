"""Rules for plans with dates, corrections of them, decisions and goals."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.facts.dates import MONTHS, WEEKDAYS, names_a_date
from memory.facts.draft import ADVERBS, CAPITALISED, I_AM, Draft, cut, rule, value_fact
from memory.facts.wording import normalised
from memory.facts.words import APPOINTMENTS


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


def _cut_plan(text: str) -> str:
    stop = re.search(
        r",\s+(?:but|so|and|can|which|please|i|my|we|it|any|do|how|what)\b|\s+(?:so|because|but|and)\s+(?:i|my|we|it|he|she"
        r"|they|the|have"
        r"|need|want)\b|!|;",
        text, re.IGNORECASE,
    )  # fmt: skip
    return " ".join((text[: stop.start()] if stop else text).split()[:24])


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
    place = re.match(rf"(?:the )?(?:{CAPITALISED})(?: {CAPITALISED})*", text)
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
    value = cut(match["v"], words=16)
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
        cut(match["v"], words=14)
        if "," not in match["v"]
        else " ".join(re.sub(r"[.!]$", "", match["v"]).split()[:14])
    )
    if re.match(r"(?:it|that|this|you|your|him|her|them|to|care|a look|notes?)\b", value, re.IGNORECASE):
        return ()
    return (Draft("decision", f"decision:{normalised(value)}", value, f"I chose {value}", 0.65),)


def _correction(match: re.Match[str]) -> Sequence[Draft]:
    text = re.sub(r"\s+(?:now|instead|then)\b", "", cut(match["v"], words=8))
    starts = rf"(?:on|at|in|to|next|this|the \d|\d|from|tomorrow|today|tonight|{'|'.join(WEEKDAYS)}|{'|'.join(MONTHS)})\b"
    if (
        not names_a_date(text)
        or not re.match(starts, text, re.IGNORECASE)
        or len(re.sub(r"\W+", " ", text).split()) > 8
    ):
        return ()
    return (Draft("correction", "", text, text, 0.7, corrects=True),)


_KINDS = "|".join(APPOINTMENTS)
_DAYS = "|".join(WEEKDAYS)
_WITH = r"(?P<beside> (?:with|to|for|at|about|in) (?:the |my |a )?[\w'-]+(?: [A-Z][\w'-]+)?)??"
_MOVED = (
    r"(?:it|they|that)(?:'s| has| have)? (?:been |got |was )?(?:moved|rescheduled|postponed|pushed|changed)"
)

PLANS = (
    rule(
        r"(?:it's|it is|its|i meant|i mean|make (?:it|that)|make that"
        rf"|{_MOVED}(?: it)?(?: back| forward)?(?: to| until)?"
        r"|it was (?:moved|rescheduled|postponed) to|we moved it to)\s+(?P<v>.+)$",
        _correction,
    ),
    rule(
        rf"(?:my|the|our) (?P<kind0>(?:[\w'-]+ ){{0,2}}?)(?P<kind>{_KINDS}){_WITH}(?: appointment| meeting)?"
        r"(?:'s| is| are| was| leaves| starts| begins| got| has been| has)?"
        r"(?P<moved> (?:now |been |also |scheduled |set |due |planned |booked )*"
        r"(?:re)?(?:moved|scheduled|postponed|pushed|changed)?) ?(?:to |for )?"
        rf"(?P<v>(?:now )?(?:on|at|in|next|this|tomorrow|today|tonight|to|from|\d|{_DAYS}|{'|'.join(MONTHS)})\b.*)$",
        _event,
    ),
    rule(
        rf"(?:(?P<when>(?:on |next |this )?(?:tomorrow|today|tonight|{_DAYS})(?: (?:morning|afternoon|evening))?),? )?"
        r"(?P<who>I have|I've got|I've|we have|we've got|there's|I got) "
        rf"(?P<rest0>(?:my |an? |the |another )?(?P<adjective>(?:[\w'-]+ ){{0,2}}?)(?P<kind>{_KINDS})\b.*)$",
        _appointment,
    ),
    rule(r"(?P<verb>(?:we're|I'm|we are|I am) getting married)(?P<v>.*)$", _expecting),
    rule(
        r"(?:we're|I'm|we are|I am) (?P<verb>expecting (?:a baby|our (?:first|second|third)[\w ]*|twins))(?P<v>.*)$",
        _expecting,
    ),
    rule(
        rf"{I_AM} {ADVERBS}(?P<verb>going|flying|travelling|traveling|heading|driving|moving|relocating|visiting)"
        r"(?: back| over| on holiday)?(?: to)? (?P<v>.+)$",
        _travel,
    ),
)

DECISIONS = (
    rule(
        r"(?:I|we)(?:'ve| have)? (?:finally |just )?(?:decided|agreed|made up (?:my|our) minds?)"
        r"(?P<v>:? (?:to|on|against|that|not to|for) .+)$",
        _decision,
    ),
    rule(
        r"(?:let's go (?:with|for)|(?:I'll|we'll) go (?:with|for)|(?:I|we) (?:chose|picked)|I'm going (?:with|for))"
        r" (?P<v>.+)$",
        _choice,
    ),
    rule(
        r"(?:I'm|I am|I've been|we're) (?:currently )?(?P<v>(?:training for|saving (?:up )?for|preparing for"
        r"|planning (?:a|an|my|our)|writing (?:a|my) (?:book|novel|thesis|dissertation)) ?.*)$",
        value_fact("goal", "goal", many=True, words=10),
    ),
)
