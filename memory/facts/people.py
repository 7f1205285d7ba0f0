"""What is said of relatives, friends and animals, and of those of them who are known by name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.facts.dates import names_a_date
from memory.facts.draft import NAME, Draft, cut, cut_long
from memory.facts.wording import normalised
from memory.facts.words import KIN, NATIONALITIES, NO_NAMES, is_occupation

_ABOUT_THEM = re.compile(
    r"\s*(?:(?:lives?|lived|works?|moved|hates?|loves?|likes?|dislikes?|prefers?|eats?|can't (?:eat|stand|have)|doesn't"
    r" (?:eat|like|drink)|broke|died|passed|got (?:into|married|engaged|a job|divorced)|goes to|go to|plays?|speaks?"
    r"|teach(?:es)?|stud(?:y|ies|ied)|turns?|turned|just (?:got|turned|moved|started)|(?:just )?had (?:a baby|twins)|started"
    r"|retired|graduated|was born|used to)\b|(?:is|are|'s) (?:called|named|from|\d|allergic|vegan|vegetarian|pescatarian"
    r"|c?o?eliac|diabetic|pregnant|married|divorced|single|retired|both|in (?:first|second|third|fourth|\w+ grade|\d)"
    r"|(?:getting|expecting|studying|learning|training|working|moving|living|turning)\b|(?:really )?(?:into|obsessed with"
    r"|afraid of|scared of|mad about)|due\b|(?:coming|visiting|flying|leaving|retiring|graduating)\b(?=.*\b(?:on|next|in|for"
    r"|tomorrow)\b))|(?:has|have|'s|'ve) (?:just )?(?:been (?:made|diagnosed|promoted)|gone off|got a|moved|an?|two|three"
    r"|diabetes|asthma|died|(?:\w+ ){0,2}allerg)|(?:'s)? ?(?:name is|names are|name's|birthday is)\b)",
    re.IGNORECASE,
)
_CALLED = re.compile(
    rf"(?:called|named|name is|names are|name's|^\s*(?:is|are|'s)) (?-i:({NAME}(?:(?:,| and|,? &) {NAME})*))\b"
)
_HAS = re.compile(r"^(my [\w -]+?|[A-Z]\w+)'s (?=(?:been|gone|got|just|moved|died)\b)")
_IS = re.compile(rf"^(my (?:{KIN})|[A-Z]\w+)'s (?=called|named|getting|\w+ing\b)", re.IGNORECASE)
_NOBODY = frozenset({
    "her", "his", "their", "she", "he", "they", "it", "this", "that", "there", "who", "one", "some", "someone", "everyone",
    "nobody", "everything", "something", "what", "which", "these", "those", "all", "people", "life",
})  # fmt: skip
_TOPIC = re.compile(
    r"(?:is|are|'s|has|have|just|been|\d+|a|an|the) |name|birthday|'s ?(?=name|birthday|called|named)",
    re.IGNORECASE,
)


def somebody(match: re.Match[str]) -> Sequence[Draft]:
    """ "My daughter Emma is 4"; of a name alone, who must be known."""
    groups, rest = match.groupdict(), match["rest"] or ""
    relative, lead = (groups.get("who") or "").lower(), groups.get("lead") or ""
    name = re.sub(r"^,? |'s$", "", groups.get("name") or "")
    if name.lower() in NO_NAMES | _NOBODY or (relative and name and not name[0].isupper()):
        return ()
    text = rest if re.search(r", it's .* now$", rest) else cut_long(rest, words=18)
    called = _CALLED.search(text)
    if called and called[1].split()[0].lower() in NO_NAMES | NATIONALITIES:
        called = None
    said = _ABOUT_THEM.match(text)
    if said and (
        ("name" in said[0] and not called)
        or (not name and re.match(r"turned|just turned", text))
        or (
            re.search(r"coming|visiting|flying|leaving|retiring|graduating", said[0])
            and not names_a_date(text)
        )
    ):
        return ()
    works = re.match(r"\s*(?:is|'s) an? (.+)", text)
    alone = relative and name and (not text or lead)
    if not (said or called or alone or (works and is_occupation(cut(works[1])))):
        return ()
    about = "name" if called or not text else normalised(text)
    if said and not called:
        # "Lives in Oslo", "moved to Bonn": one may replace the other.
        verb = re.sub("^moved?$", "live", normalised(_TOPIC.sub("", said[0]).strip()).split(" ")[0])
        if "birthday" in said[0]:
            about = "birthday"
        elif re.match(r"turn|\d", verb):
            about = "age"
        elif verb in ("live", "work", "study", "go"):
            about = verb
    clause = f"my {lead}{relative} is {name}"
    if text:
        clause = match.string[: match.start("rest")] + (" " if rest.startswith(" ") else "") + text.strip()
    clause = _HAS.sub(r"\1 has ", _IS.sub(r"\1 is ", cut(clause) if called else clause))
    slot = f"person:{normalised(name) if name else relative}: {about}"
    value = called[1] if called else f"{name} {text}".strip()
    past = re.match(r"\s*(?:moved|died|passed|got|turned|just)\b", text) is not None
    gone = name if re.match(r"\s*(?:died|passed away)", text) else ""
    needs = "" if relative else name
    return (
        Draft(slot, value, clause, lasting=True, past=past, needs=needs, over=gone, ends=frozenset({"have"})),
    )


COUNTS = r"(?:an?|one|two|three|four|five|six|seven|\d+|twin|several)"


def has(match: re.Match[str]) -> Sequence[Draft]:
    text = cut_long(match.string, words=20)
    if re.search(r"\bin (?:this|the) (?:fight|race|hunt)\b", text):
        return ()
    verb = match["verb"].lower()
    kind = normalised(match["kind"])
    clause = "I have" + text[match.start("count") :] if verb == "have" else text
    return (
        Draft(
            f"have:{kind}",
            f"{match['count']} {match['kind']}{text[match.end('kind') :]}",
            clause,
            past=verb != "have",
        ),
    )
