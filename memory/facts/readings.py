"""What a clause with a sign is about, and what it says of it: one reading for each kind of sign in memory/facts/signs.py."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.facts.dates import MONTHS, WEEKDAYS, names_a_date
from memory.facts.draft import CAPITALISED, NAME, Build, Draft, cut, cut_long, upto
from memory.facts.wording import normalised, says_something
from memory.facts.words import FICTION, KIN, LANGUAGES, NATIONALITIES, NO_NAMES, POSSESSIONS, is_occupation

DAYS = "|".join((*WEEKDAYS, *MONTHS))
WHEN = rf"(?:on|at|in|next|this|tomorrow|today|tonight|to|until|from|the \d+\w*|\d+\w*|{DAYS})\b"
MOVED = (
    r"(?:(?:now|been|also|scheduled|set|due|planned|booked|moved|rescheduled|postponed|pushed|brought|changed|back|forward"
    r"|up) )*"
)
_LATER = r"\s+(?:now|instead|then|after all)\b|, not .*$"
_PRONOUN = (
    r"(?:it|that|this|these|those|them|him|her|you|me|us|something|anything|nothing|everything|what|how|to)\b"
)


def name(match: re.Match[str]) -> Sequence[Draft]:
    name = match["v"].strip()
    first = name.split()[0].lower()
    words = {word.lower() for word in name.split()}
    shouted = name.isupper() and len(name) > 3
    if (
        shouted
        or words & (NO_NAMES | {"around", "mud", "nobody", "legion", "trouble"})
        or first in NATIONALITIES | FICTION
        or name.lower() in FICTION
    ):
        return ()
    return (Draft("name", name, f"my name is {name}", 0.9),)


_PLACE_ENDS = re.compile(
    r"\s+(?:for|since|these|right now|at the moment|now|nowadays|with|this|last|next|in (?:19|20)\d\d|about|around|two|three"
    r"|four|five|six|\d+|a (?:few|couple|year|month|week)|yesterday|today|recently|when|as|by|to|until|after|before"
    r"|temporarily|again|any ?more|too|because|over|years|months|weeks|all|atm|on|not)\b.*$",
    re.IGNORECASE,
)
_NO_PLACE = re.compile(
    r"(?:the (?!netherlands|uk|us|usa|states|philippines|bronx|hague|bay|country|suburbs|countryside|city|north|south|east"
    r"|west|alps)|this|that|it|my|your|a (?:society|world|dream|bubble|moment|hurry|castle|server|box)|fear|peace|constant"
    r"|here|there|where|what|hope|pain|harmony|general|mind|love|awe|shock|on|tomorrow|today|and|mordor|hogwarts|narnia"
    r"|transylvania)\b",
    re.IGNORECASE,
)


def _place(text: str) -> str:
    place = _PLACE_ENDS.sub("", re.sub(r"^my own (?:place|flat|house|apartment) in ", "", cut(text, words=8)))
    return "" if _NO_PLACE.match(place) or not re.search(r"\w", place) else place


def home(match: re.Match[str]) -> Sequence[Draft]:
    place, rest, verb = _place(match["v"]), cut(match["v"]), match["verb"].lower()
    if not place:
        return ()
    if verb in ("moved", "relocated"):
        if not re.search(CAPITALISED, place) and len(place.split()) > 2:
            return ()
        when = rest.split(place, 1)[1].strip()
        when = f" {when}" if names_a_date(when) else ""
        return (Draft("home", place, f"I live in {place} (moved there{when})", 0.9, past=True),)
    clause = upto(match) + (rest if len(rest.split()) <= 9 else place)
    if verb == "lived" and not match.string.lower().startswith("i have"):
        # Not any more: it says nothing of where one lives now.
        return (Draft(f"lived:{normalised(place)}", place, clause, past=True),)
    return (Draft("home", place, clause, 0.9, past=True),)


_WORK_ENDS = (
    r"\s+(?:for|since|now|these days|last|this|next|on|in \d{4}|full|part|until|right|two|three|\d+)\b.*$"
)
_NO_WORK = re.compile(
    r"(?:home|this|that|it|my|a project|what|how|night|weekends?|least|once|being|getting|something|everything|now|all|myself"
    r"|me|you|him|her|them|us|days?|noon|\d|the (?:moment|same|problem|report|weekend|office|night|gym|idea|\w+ (?:report"
    r"|project)))\b",
    re.IGNORECASE,
)


def employer(match: re.Match[str]) -> Sequence[Draft]:
    text = match["v"]
    # What begins a job has a day, and often the role behind a comma.
    role = re.search(r",? as (?:an? |the )?(?P<role>[\w -]{3,40})", text)
    begins = match["verb"] is not None
    said = cut(re.split(r",? as (?=\w)", text)[0])
    place = said if begins else re.sub(_WORK_ENDS, "", said)
    drafts: list[Draft] = []
    # "For peanuts".
    paid = upto(match).endswith(" for ") and not re.match(
        r"(?:an?|the|my|our)\b|[A-Z0-9\u00c0-\u00de]", place
    )
    if place and not paid and not _NO_WORK.match(place):
        drafts.append(Draft("employer", place, upto(match) + place, 0.9, past=begins and not
                            re.match(r"I am", match.string)))  # fmt: skip
    if drafts and role:
        drafts.append(Draft("job", cut(role["role"]), f"I work as {cut(role[0].split(' as ', 1)[1])}", 0.9))
    return drafts


def job(match: re.Match[str]) -> Sequence[Draft]:
    found = re.split(r"\s+(?:at|for|with)\s+(?=[A-Z\u00c0-\u00de])", cut(match["v"]), maxsplit=1)
    drafts = [Draft("job", found[0], f"I work as {found[0]}", 0.9)]
    return [*drafts, Draft("employer", found[1], f"I work at {found[1]}", 0.9)] if len(found) > 1 else drafts


def occupation(match: re.Match[str]) -> Sequence[Draft]:
    text = cut(match["v"])
    head = re.split(
        r"\s+(?:at|for|from|in|with|of|on|by|to|up|down|over|out|here|who|since|now|and|again)\b", text
    )[0]
    if not is_occupation(head):
        return ()
    past = match["past"] is not None
    slot = f"past job:{normalised(head)}" if past else "job"
    drafts = [Draft(slot, head, upto(match) + text, past=past)]
    origin = re.search(rf"\bfrom ({NAME})", text)
    return [*drafts, Draft("origin", origin[1], f"I am from {origin[1]}")] if origin else drafts


def allergy(match: re.Match[str]) -> Sequence[Draft]:
    value = re.sub(r"\s+(?:any ?more|since|as well|too|myself)\b.*$", "", cut(match["v"], words=8))
    before = upto(match).lower()
    if not says_something(value) or re.match(
        r"(?:any|nothing|it\b|that\b|this\b|them|these|those|work|mondays?|you|people|mornings?|exercise|stupid\w*|no|not"
        r"|never|zero|neither|some|many|few|several|two|three|absolutely|\w+ (?:no|with|of|had|my)|housework|maths?|effort"
        r"|bullshit|drama|nonsense)\b",
        match["v"],
        re.IGNORECASE,
    ):
        return ()
    gone = "no longer" in before or bool(re.search(r"\bany ?more\b", match.string))
    if " not " in before and not gone:
        return ()
    verb = "am no longer allergic to" if gone else "am allergic to"
    return [
        Draft(f"allergy:{normalised(one)}", f"{'no ' if gone else ''}{one}", f"I {verb} {one}", 0.95)
        for one in re.split(r" and (?!\w+ing\b)", value)
    ]


def medicine(match: re.Match[str]) -> Sequence[Draft]:
    drafts = []
    for one in re.split(r" and (?=something|\w+(?:ine|in|ol|ide|pril|one|am|ate)\b)", cut_long(match["v"])):
        name = re.search(r"\b[a-z]{3,}(?:ine|in|ol|ide|pril|tan|one|am|ate|il|ax|en)\b", one)
        if name or match["often"]:
            word = name[0] if name else one.split()[0]
            drafts.append(Draft(f"medicine:{normalised(word)}", one, f"I take {one}"))
    return drafts


def abstains(match: re.Match[str]) -> Sequence[Draft]:
    """ "I don't drink alcohol any more": the slot is the same however it is said."""
    said = cut(match["v"], words=9)
    if re.match(
        r"(?:\w+ (?:it|that|this|them|anything|here|now|another|much|while|enough|until|too)|(?:eat|drink|smoke) (?:after"
        r"|before"
        r"|during|at|in|on|and))\b",
        match["v"],
    ):
        return ()
    what = re.sub(
        r"\b(?:any ?more|at all|(?:\w+ )?\w+ ago|in \w+|last \w+)\b.*", "", " ".join(said.split()[:6])
    )
    if match["verb"].lower().startswith(("gave", "given", "am off")):
        what = f"eat {what}"
    key = normalised(re.sub(r"(?:eat|drink|smok)\w*", lambda verb: verb[0][:3], what))
    if not key or not re.search(r"eat|dri|smo", key):
        return ()
    return (Draft(f"food:{key}", "not", upto(match) + said, 0.85, preference=True, past=True),)


def possession(match: re.Match[str]) -> Sequence[Draft]:
    value, verb = cut(match["v"]), match["verb"].lower()
    clause = upto(match) + value
    made = re.split(r" (?:from|at|in|for|with|to) ", value)[0]
    head = POSSESSIONS.search(made)
    if verb == "drive" and not head and not re.search(r"[A-Z0-9]", made):
        return ()
    if verb == "drive":
        return (Draft("drives", re.sub(r"\s+now$", "", value), clause),)
    gone = verb in ("sold", "crashed", "lost")
    if (
        head is None
        and verb != "adopted"
        and (verb in ("got", "have") or not re.search(r"(?<!^)\b[A-Z]\w+", made))
    ):
        return ()
    if verb == "have" and not re.search(r"\b[A-Z]", value):
        return ()
    key = normalised(head[0] if head else value)
    return (Draft(f"own:{key}", ("no longer " if gone else "") + value, clause, past=verb not in ("own", "ride", "have"),
                  over=value if gone else ""),)  # fmt: skip


_NO_TASTE = (
    r"(?:i|they|we|it|this|that|these|those|you|your|yours|him|her|his|them|their|how|what|when|where|why|who|which|the"
    r" (?:way|idea|fact|part|one|first|second|new|look|sound|thought|last|third|other|same)|to (?:hear|see|know|ask|say|be"
    r"|think|have|thank|get|make|do|help|tell)|to$|up|here|there|around|still|to wait|to stay|not|seeing|hearing|having to"
    r"|one|both|everything|nothing|anything|all"
    r"|being|our|my (?!morning)|in|on|as|for|so|everyone|a lot|the|doing|every|some|each|was|were|is|are|to (?:just|sound)"
    r"|using|stuff|people like)\b"
)


def taste(match: re.Match[str]) -> Sequence[Draft]:
    # "People who lie": without the rest it says something else.
    value = cut(match["v"].replace(" who ", " \x02"), words=16).replace("\x02", "who ")
    value = re.sub(
        r"\s+(?:any ?more|at all|too|as well|a lot|very much|so much|the most|most|best|better)$", "", value
    )
    before = upto(match).lower()
    if not value or re.match(_NO_TASTE, value, re.IGNORECASE) or re.search(
        r"\b(?:it|this|that|one|those|these)$|\b(?:them|him|her|you|yours)\b", value, re.IGNORECASE
    ):  # fmt: skip
        return ()
    if before.endswith("not a ") and not re.match(r"(?:\w+ )?person\b", value):
        return ()
    against = re.search(r"hate|dislike|n't|not |detest|despise|afraid|scared|terrified|dreading", before)
    over = (
        re.split(r"\s+(?:over|to|rather than|instead of)\s+", value, maxsplit=1)
        if "prefer" in before
        else [value]
    )
    # Both sides, in one order: a later preference for the other one replaces it.
    both = " ".join(sorted(set(normalised(" ".join(over)).split())))
    slot = f"prefer:{both}" if len(over) > 1 else f"taste:{normalised(value)}"
    return (Draft(slot, ("not " if against else "") + (over[0] if len(over) > 1 else value),
                  upto(match) + value, 0.7, preference=True),)  # fmt: skip


def favourite(match: re.Match[str]) -> Sequence[Draft]:
    now = re.search(r"now (?:it's|it is)\s+(.+)", match["v"])
    value = cut(now[1] if now else match["v"], words=8)
    if not value or re.match(
        r"(?:when|how|that|to|not|the one|it|no|yes|now|never|used to be)\b", value, re.IGNORECASE
    ):
        return ()
    thing = match["name"].lower()
    if thing in ("part", "bit", "thing", "moment", "one"):
        return ()
    return (
        Draft(f"favourite:{normalised(thing)}", value, f"my favourite {thing} is {value}", preference=True),
    )


# What "my ... is" says of oneself, and what its value must have.
_PROPER = r"^(?:an? |the |now )?(?:old |new |\d{4} )?[A-Z0-9\u00c0-\u00de]"
ATTRIBUTES = {
    r"e-?mail(?: address)?": r"\S@\S+\.\w",
    r"(?:phone|mobile|cell|telephone) ?(?:number)?|number": r"^[\d ()/.+-]{7,}$|^(?:an? |the |now )?[A-Z][\w ]*\d|iPhone"
    r"|Pixel|Galaxy",
    r"(?:home |postal |new )?address|budget|salary|rent|height|weight": r"\d",
    r"(?:shoe|shirt|dress|ring|jacket|jeans|clothing) size": r"^\w{1,3}\b",
    r"blood (?:type|group)": r"^(?:a|b|ab|o|0|A|B|AB|O)\b",
    r"car|bike|laptop|computer|camera|guitar|motorbike|tablet|watch|truck|keyboard|printer|router": _PROPER,
    r"(?:home ?town|nationality|(?:native|first|second) language|mother tongue|company|employer|team|school|university"
    r"|college|project|dentist|accountant|lawyer|coach|teacher|supervisor|vet|assistant|(?:dog|cat|puppy|horse|rabbit"
    r"|hamster)'s name)": (
        r"^(?:called |named |now )?(?:Dr\.? |Mr\.? |Mrs\.? |Ms\.? )?[A-Z\u00c0-\u00de]"
    ),
    r"job|profession|occupation|job title|role|major|minor|degree|hobby|hobbies|star sign|zodiac sign|pronouns|religion|dream"
    r" job|(?:main )?goal": r"^(?:an? |the |to )?\w",
    r"time ?zone|username|user name|handle|nickname|website|blog|github|twitter|instagram|domain": r"^[\w@./+-]{2,}",
    r"(?:wedding )?anniversary": r"\d|\b[A-Z]",
}  # fmt: skip
_NO_VALUE = re.compile(
    r"(?:not|so|too|very|really|broken|slow|down|bad|good|great|killing|full|how|to (?:get|find|make)|that|what|gone|lost"
    r"|dead|here|mud|there|wrong|right|fine|ok|okay|working|running|always|never|still|getting|delayed|due|a (?:mess"
    r"|nightmare|joke|pain|total))\b",
    re.IGNORECASE,
)


def attribute(match: re.Match[str]) -> Sequence[Draft]:
    name = normalised(match["name"])
    value = re.sub(r"^now\s+|\s+now$|^called |^named ", "", cut(match["changed"] or match["v"], words=10))
    check = next((c for k, c in ATTRIBUTES.items() if re.fullmatch(k, match["name"], re.IGNORECASE)), None)
    if not value or check is None or _NO_VALUE.match(value) or not re.search(check, value):
        return ()
    if re.search(r"number|mobile|cell", name) and value[-1:].isdigit():
        name = "phone number"
    return (Draft(f"attribute:{name}", value, f"my {match['name']} is {value}", 0.9),)


def request(match: re.Match[str]) -> Sequence[Draft]:
    value = cut(match["v"], words=16)
    if len(value.split()) < 2:
        return ()
    language = re.search(r"\bin (" + "|".join(LANGUAGES) + r")\b", value, re.IGNORECASE)
    slot = "request:language" if language else f"request:{normalised(value)}"
    return (Draft(slot, value, f"I ask of assistants: {match['lead']}{value}", preference=True),)


APPOINTMENTS = (
    r"(?:(?:dentist|doctor's|hospital) appointment|appointment|meeting|exam|interview|flight|presentation|surgery|operation"
    r"|wedding|conference|deadline|call|lesson|concert|check-?up|graduation|reservation|train|viewing|rehearsal|demo|workshop"
    r"|defen[cs]e|hearing|recital|tournament|marathon|race|audition|test|party|doctor's|dentist|trip|vacation|holiday|game"
    r"|match|date|move|launch|review|standup|seminar|class|course|session|visit|delivery|release|dinner|lunch|scan|biopsy"
    r"|treatment|ceremony|funeral)s?"
)
_NO_TOPIC = re.compile(
    r"\b(?:my|our|the|with|to|for|at|about|in|of|and|this|that|leaves?|starts?|begins?|driving)\b|'s\b",
    re.IGNORECASE,
)


def plan(match: re.Match[str]) -> Sequence[Draft]:
    """Something with a day. Its topic is by what a later "it's on Monday" or "the exam is on Friday" finds it."""
    text = re.sub(_LATER, "", cut_long(match.string.split(", not ")[0]))
    when = match.groupdict().get("when")
    if when:
        text = re.sub(_LATER, "", f"{cut_long(match['body'])} {when}")
    if not (names_a_date(text) or re.search(r"\bat \d", text)):
        return ()
    topic = re.split(rf"\s(?:{WHEN})", f"{match['topic']} ", flags=re.IGNORECASE)[0]
    topic = normalised(
        _NO_TOPIC.sub(" ", match.groupdict().get("kind", "") or "") + " " + _NO_TOPIC.sub(" ", topic)
    )
    clause = re.sub(r"^(?:the|our) |^(?!my |I )", "my ", text, count=1, flags=re.IGNORECASE)
    if re.match(rf"(?:my )?(?:{KIN}|birthday)\b(?! party)", clause, re.IGNORECASE) or not topic:
        return ()
    return (Draft(f"plan:{topic}", text, clause, 0.85, topic=topic, lasting="lasting" in match.groupdict()),)


def correction(match: re.Match[str]) -> Sequence[Draft]:
    text = re.sub(_LATER, "", cut(match["v"], words=9))
    if not names_a_date(text) or not re.match(WHEN, text, re.IGNORECASE) or len(re.findall(r"\w+", text)) > 8:
        return ()
    return (Draft("", text, text, 0.7, corrects=True),)


def decision(match: re.Match[str]) -> Sequence[Draft]:
    value = cut_long(match["v"], words=16)
    if len(value) < 3 or re.match(
        rf"(?:{_PRONOUN}|what|where|which|yet|between|to$|care|a look|notes?|the wrong|wait|a bad|a good|a fight|some|my"
        rf"|our|friends|the flow"
        rf"|you|your)",
        value,
        re.IGNORECASE,
    ):
        return ()
    lead = match.groupdict().get("lead")
    clause = upto(match) + value if lead else f"I chose {value}"
    return (Draft(f"decision:{normalised(value)}", value, clause, 0.7, past=True),)


def instead(match: re.Match[str]) -> Sequence[Draft]:
    """ "I switched from biology to law": in what is known, law stands for biology; else it says this."""
    old, new = cut(match["old"], words=5), _PLACE_ENDS.sub("", cut(match["v"], words=5))
    if not old or not new or re.match(_PRONOUN + r"|the (?:next|last|first|other)\b", new, re.IGNORECASE):
        return ()
    if old.endswith("ing") and new.endswith("ing"):
        return ()
    clause = upto(match) + cut(match["v"])
    return (Draft(f"use:{normalised(new)}", new, clause, past=True, over=old, instead=(old, new)),)


def ends(families: str = "", *, if_said: str = "") -> Build:
    """What stands no longer: kept only where something known in these families ends. `if_said`: what the clause has."""
    allowed = frozenset(families.split(",")) if families else frozenset()
    said = re.compile(if_said)

    def ended(match: re.Match[str]) -> Sequence[Draft]:
        what = re.sub(
            r"\s+(?:last|this|today|yesterday|on|in|since|for good|again|at|ages)\b.*",
            "",
            cut(match["v"], words=7),
        )
        if (
            not says_something(what)
            or re.match(_PRONOUN, what, re.IGNORECASE)
            or not said.search(match.string)
        ):
            return ()
        clause = cut(match.string, words=14)
        return (Draft(f"ended:{normalised(what)}", what, clause, past=True, over=what, ends=allowed),)

    return ended
