"""Rules for where one lives and what one does: home, origin, work, study, languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from memory.facts.dates import names_a_date
from memory.facts.draft import ADVERBS, CAPITALISED, NAME, Draft, cut, rule, value_fact
from memory.facts.wording import normalised
from memory.facts.words import LANGUAGES, OCCUPATION

_NO_PLACES = re.compile(
    r"^(?:the (?!netherlands|uk|us|usa|states|philippines|bronx|hague|bay|country|suburbs|countryside|city|north|south|east"
    r"|west|alps)"
    r"|this|that|it|my|your|a (?:world|dream|bubble|moment|hurry)|fear|peace|constant|here|there|where|what|hope|pain|harmony"
    r"|general|mind|love|awe|shock|on|tomorrow|today|and)\b",
    re.IGNORECASE,
)


def _place(text: str) -> str:
    value = cut(text, words=8)
    value = re.sub(
        r"\s+(?:for|since|these|right now|at the moment|now|nowadays|with|these days|this|last|next|in (?:19|20)\d\d|about"
        r"|around"
        r"|two|three|four|five|six|\d+|a (?:few|couple|year|month|week)|yesterday|today|recently|when|as|by|to|until|after"
        r"|before"
        r"|temporarily|again|anymore|any more|too|because|over|years|months|weeks|all|atm|on|after|not)\b.*$",
        "", value, flags=re.IGNORECASE,
    )  # fmt: skip
    return "" if _NO_PLACES.match(value) or not value else value


def _home(match: re.Match[str]) -> Sequence[Draft]:
    place = _place(match["v"])
    if not place:
        return ()
    moved = match["verb"].lower() in ("moved", "relocated")
    if moved and not re.search(CAPITALISED, place) and len(place.split()) > 2:
        return ()
    rest = cut(match["v"])
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
    if match["verb"].lower() == "lived" and not re.match(r"(?:I|we)(?:'ve| have)\b", clause, re.IGNORECASE):
        # Not any more: it says nothing of where one lives now.
        return (Draft("lived", f"lived:{normalised(place)}", place, clause, past=True),)
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
            Draft(rule, key, place, match.string[: match.start("v")] + cut(match["v"], words=9), past=past),
        )

    return build


_NO_WORK = re.compile(
    r"^(?:home|the|this|that|it|my|a project|what|how|night|weekends?|least|once|being|getting|something|everything|now|all"
    r"|myself"
    r"|me|you|him|her|them|us|days?|noon|\d)\b",
    re.IGNORECASE,
)


def _employer(match: re.Match[str]) -> Sequence[Draft]:
    found = re.split(r"\s+as\s+(?=an?\s|the\s)", cut(match["v"]), maxsplit=1)
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
                re.sub(r"^I'm working|^I am working", "I work", lead, flags=re.IGNORECASE) + place,
            )
        )
    if len(found) > 1:
        drafts.append(Draft("job", "job", found[1], f"I work as {found[1]}"))
    return drafts


def _job(match: re.Match[str]) -> Sequence[Draft]:
    text = cut(match["v"])
    found = re.split(r"\s+(?:at|for|with)\s+(?=[A-Z\u00c0-\u00de])", text, maxsplit=1)
    drafts = [Draft("job", "job", found[0], f"I work as {found[0]}")]
    if len(found) > 1:
        drafts.append(Draft("employer", "employer", found[1], f"I work at {found[1]}"))
    return drafts


def _occupation(match: re.Match[str]) -> Sequence[Draft]:
    text = cut(match["v"])
    head = re.split(r"\s+(?:at|for|from|in|with|of|on|by|to|here|who|since|now|and)\b", text)[0]
    if not OCCUPATION.search(head) or len(head.split()) > 5:
        return ()
    drafts = [Draft("job", "job", head, match.string[: match.start("v")] + text)]
    origin = re.search(rf"\bfrom ({NAME})", text)
    if origin:
        drafts.append(Draft("origin", "origin", origin[1], f"I am from {origin[1]}"))
    return drafts


def _past_job(match: re.Match[str]) -> Sequence[Draft]:
    value = cut(match["v"])
    if not OCCUPATION.search(" ".join(value.split(" for ")[0].split()[:4])):
        return ()
    return (Draft("job", f"past job:{normalised(cut(value, words=4))}", value, f"I was {value}", past=True),)


HOME = (
    rule(r"I (?:come|grew up|hail)(?: from| in) (?P<v>.+)$", _place_fact("origin", "origin", past=True)),
    rule(
        rf"(?:I|we)(?:'m|'re| am| are)? {ADVERBS}from (?P<v>.+)$", _place_fact("origin", "origin", past=True)
    ),
    rule(
        rf"(?:I|we)(?:'m|'re|'ve| am| are| have)? {ADVERBS}(?:been )?(?P<verb>live|living|lived|based|reside|residing)"
        r"(?: now| here| currently)? (?:in|near|outside(?: of)?|at) (?P<v>.+)$",
        _home,
    ),
    rule(
        rf"(?:I|we)(?:'ve| have)? {ADVERBS}(?P<verb>moved|relocated)(?: back| over| away| here| house)? to (?P<v>.+)$",
        _home,
    ),
    rule(r"I used to live (?:in|near) (?P<v>.+)$", _place_fact("lived", "lived", many=True, past=True)),
)

_BUSINESS = (
    "shop|business|company|startup|start-up|restaurant|cafe|café|bar|farm|studio|agency|bakery|store|practice|salon|hotel"
    "|charity"
    "|blog|podcast|channel"
)
WORK = (
    rule(rf"I {ADVERBS}work as (?P<v>.+)$", _job),
    rule(rf"(?:I|we)(?:'m| am|'ve been| have been)? {ADVERBS}work(?:ing)? (?:at|for) (?P<v>.+)$", _employer),
    rule(
        r"I(?:'m|'ve| am| have)? (?:just |recently |now )?(?:start(?:ed|ing)|joined|joining|got hired|was hired|begin|began)"
        r"(?: a new job| work| working| my new job)?(?P<v> (?:at|by|with) (?-i:[A-Z0-9]).+)$",
        value_fact("employer", "employer", past=True),
    ),
    rule(
        r"I(?:'ve| have)? (?:just |recently )?(?P<v>(?:quit|left|lost|resigned from) my (?:old )?job.*)$",
        value_fact("employer", "employer", past=True),
    ),
    rule(
        r"I(?:'ve| have)? (?:just |recently |finally )?(?:got|been|was) promoted(?P<v> to .+)$",
        value_fact("job", "job", past=True),
    ),
    rule(
        rf"(?:I'm|I am) {ADVERBS}(?:the |a |an |our )?"
        r"(?P<v>(?:ceo|cto|cfo|head|director|founder|co-founder|owner|manager|captain|chair\w*) (?:of|at) .+)$",
        value_fact("job", "job"),
    ),
    rule(
        rf"I (?:also )?(?P<v>(?:run|own|manage|founded) (?:an?|my own|the) .*(?:{_BUSINESS}).*)$",
        value_fact("job", "business"),
    ),
    rule(
        r"(?:I'm|I am) (?:now |currently )?(?P<v>(?:retired|unemployed|self-employed|freelancing|freelance|between jobs"
        r"|on parental leave|on maternity leave|on sick leave))\b",
        value_fact("job", "job"),
    ),
    rule(r"I (?P<v>teach (?!myself|you|him|her|them|how|people).+)$", value_fact("job", "job", words=9)),
    rule(r"I was (?P<v>an? .+)$", _past_job),
    rule(rf"(?:I'm|I am|im) {ADVERBS}(?:an? )(?P<v>.+)$", _occupation),
)

STUDY = (
    rule(
        rf"I(?:'m| am)? {ADVERBS}"
        r"(?P<v>(?:study|studying) (?!for\b|hard|here|a lot|at home|every|now|it\b|this|that).+)$",
        value_fact("study", "study", words=10),
    ),
    rule(
        r"(?:I'm|I am) (?P<v>an? (?:[\w-]+ )?(?:student|phd student|freshman|sophomore|senior|junior) (?:at|in|of) .+)$",
        value_fact("study", "study"),
    ),
    rule(
        r"I(?:'ve| have)? (?:just |recently )?(?P<v>graduated (?:from|in|with) .+)$",
        value_fact("study", "graduated", past=True),
    ),
    rule(
        rf"I {ADVERBS}(?:can )?speak (?:fluent |some |a (?:little|bit of) |native )?(?P<v>(?:{'|'.join(LANGUAGES)})\b.*)$",
        value_fact("speaks", "speaks", words=10),
    ),
    rule(
        rf"(?:I'm|I am|I've been|we're) {ADVERBS}(?P<v>learning (?!how|from|a lot|about|so much|that|more|this).+)$",
        value_fact("learns", "learning", many=True, words=8),
    ),
)
