"""Which clauses of a message are statements that its writer makes in their own name.

Left out: code, quotations, pasted documents, questions, what is supposed, wished or joked, and what others said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_CHARACTERS = 2_000
MAX_LINES = 12
"""A longer message is a document that was pasted, more often than talk."""

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,300}`", re.DOTALL)
_QUOTED = re.compile(
    r"[\"\u201c\u201d\u00ab\u00bb][^\"\u201c\u201d\u00ab\u00bb]{0,1500}[\"\u201c\u201d\u00ab\u00bb]"
    r"|(?<!\w)'[^'\n]{8,300}'(?!\w)"
)
_SHOWN = re.compile(r"\[(?:shares|image|photo|sticker|gif)[^\]]{0,500}\]", re.IGNORECASE)
_CODE_LINE = re.compile(
    r"^\s*(?:>|[#$%]\s|//|/\*|(?:def|class|import|from \w+ import|return|const|let(?!')|var|select|insert|update|delete"
    r"|create)\b.*[;:({=*'])|[{};]\s*$|^\s*\w+\s*=\s*\S|^\s*\|.*\|",
    re.IGNORECASE,
)
# The whole message speaks in another voice, or is no talk at all.
_OTHER_VOICE = re.compile(
    r"\b(?:pretend|role-?play|imagine|suppose|let'?s say|act as|in the (?:voice|style) of|narrator|character|once upon a time"
    r"|translate|proofread|rephrase|paraphrase|rewrite|summari[sz]e|correct (?:this|my)|how do (?:you|i) say|for example"
    r"|just kidding|only kidding|kidding|jk|joking|lyrics|dear (?:sir|madam|mr|mrs|ms|hiring|team)|yours (?:faithfully"
    r"|sincerely)"
    r"|(?:best|kind) regards|the (?:patient|customer|client|user|person|article|text) (?:says|said|writes|wrote))\b"
    r"|^\s*(?:please )?(?:write|draft|compose|generate|create|make|say|repeat|complete|fill)\b"
    r"[^.\n]{0,80}\b(?:e?mail|letter|poem|story|song|note|text|message|speech|bio|essay|dialogue|post|cv|resume|paragraph"
    r"|sentence"
    r"|tweet|caption|intro\w*|template)\b",
    re.IGNORECASE,
)
_PASTE_FOLLOWS = re.compile(
    r"(?:here(?:'s| is| are)|this is|i got|following|below|says?|said|wrote|reads?|(?:e?mail|text|letter"
    r"|message)[^:\n]{0,20})\s*:\s*$",
    re.IGNORECASE,
)
_UNSURE = re.compile(
    r"\b(?:if|unless|whether|suppose|what if|would|wouldn't|could|might|maybe|perhaps|probably|wish|hopefully|i guess"
    r"|i think|i doubt"
    r"|i wonder|thinking (?:about|of)|considering|not sure|as if|as though|should|supposed to|feels? like i|lol|haha+|lmao|rofl"
    r"|dreamt|dreamed|dream that|joke|who knows|i'd|we'd|sarcasm|/s)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?!i |we |i've |i also )(?:[\w']+) (?:said|says|told (?:me|him|her|us|them)|tells? me|asked|wrote|thinks?|thought"
    r"|claims?"
    r"|claimed|believes?|replied|mentioned|insists?)\b|\baccording to\b",
    re.IGNORECASE,
)
_QUESTION_START = re.compile(
    r"^(?:who|what|when|where|why|how|which|whose|is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|have you"
    r"|has|had|isn't|aren't|don't you|doesn't|didn't|can't you|won't)\b(?!.{0,20}\bis (?:that )?i)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"')\]]*\s+(?=\S)|\n+|(?<=\w)\s+-{1,2}\s+(?=\w)|;\s+|\s+(?=:\)|:D|;\))"
)
_SAID = re.compile(
    r"^(?:(?:as )?i (?:said|meant|mentioned)|i'm saying|i told you|to be clear|what i meant is)(?: that|,|:)?\s+(?=\w)",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:(?:hi|hey|hello|hiya|well|so|ok|okay|also|btw|by the way|oh|ah|hmm|yes|yeah|yep|no|nope|nah|fyi|and|but|plus|anyway"
    r"|actually|sorry|wait|sure|thanks|thank you|great|cool|right|look|listen|honestly|good news|update|guess what|wow|fun fact"
    r"|correction|in fact|to be honest|tbh|unfortunately|sadly|luckily|finally|and then|then|just so you know|for the record"
    r"|as you know|these days|nowadays|lately|currently|meanwhile|at last|big news|good news|small update|quick update"
    r"|one more thing|remember|note that|please note(?: that)?|good (?:morning|evening|afternoon)|there|everyone|all"
    r"|guys)\b[\s,!:.\u2014-]*)+",
    re.IGNORECASE,
)
# "Yesterday I moved" is read as "I moved yesterday". Of times to come, and of "today", the rules know too little.
_MONTH = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_PAST_DAY = (
    r"(?:the day before yesterday|yesterday|last (?:night|week|weekend|month|year|spring|summer|autumn|fall|winter"
    rf"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|{_MONTH})"
    r"|(?:a|one|two|three|four|five|six|\d{1,2}) (?:day|week|month|year)s? ago)"
)
_TIME = (
    rf"(?:{_PAST_DAY}|(?:back )?in (?:{_MONTH} )?(?:19|20)\d\d"
    rf"|since (?:{_PAST_DAY}|(?:{_MONTH} )?(?:19|20)\d\d|{_MONTH}))"
)
_SUBJECT = r"(?=(?:i|i've|i'm|we|we've|we're|my|our)\b)"
_TIME_FIRST = re.compile(rf"^({_TIME}) {_SUBJECT}(.+)$", re.IGNORECASE)
_TIME_AND_COMMA = re.compile(rf"({_TIME}), {_SUBJECT}", re.IGNORECASE)
_CLAUSE = re.compile(
    r",?\s+(?:and|but|so|because|then|plus|while|although|though|since|as)\s+(?=(?:i|i'm|i've|we|we're|we've|my|our|it's)\b)"
    r"|,\s+(?=(?:i|i'm|i've|i'll|my|we|we're|we've|it's)\b)"
    r"|,?\s+(?:and|but)\s+(?=(?:love|like|hate|prefer|enjoy|can't stand|don't (?:like|eat|drink)|work|live|study|have|play"
    r"|speak)\s)",
    re.IGNORECASE,
)
_SUBJECTLESS = re.compile(
    r"^(?:love|like|hate|prefer|enjoy|can't stand|don't (?:like|eat|drink)|work|live|study|have|play|speak)\s",
    re.IGNORECASE,
)


def statements(text: str) -> Iterator[str]:
    """The clauses, in order, each on one line without its full stop and without fillers ("well", "by the way")."""
    for sentence in spoken(text):
        yield from _clauses(sentence)


def spoken(text: str) -> Iterator[str]:
    """The sentences of a message that are neither code nor pasted; none where it speaks in another voice.

    In place of a quotation there is a NUL.
    """
    if len(text) > MAX_CHARACTERS or text.count("\n") >= MAX_LINES:
        return
    # Runs of blanks cost the patterns the square of their length.
    text = re.sub(r"[^\S\n]+", " ", text.replace("\u2019", "'"))
    if _OTHER_VOICE.search(text):
        return
    for line in _talk(text):
        yield from _SENTENCE_END.split(line)


def _talk(text: str) -> Iterator[str]:
    """The lines of a message that are neither code, quotation nor what was pasted after an announcement."""
    text = _SHOWN.sub(" ", _CODE.sub("\n", text))
    for line in text.split("\n"):
        if _PASTE_FOLLOWS.search(line):
            return
        if line.strip() and not _CODE_LINE.search(line):
            # A mark of its own: the clause around a quotation is not read, since it is about the quotation.
            yield _QUOTED.sub(" \x00 ", line)


def _clauses(sentence: str) -> Iterator[str]:
    sentence = sentence.strip()
    if (
        not sentence
        or sentence.endswith("?")
        or "\x00" in sentence
        or _REPORTED.search(sentence.split(" who ")[0])
    ):
        return
    filler = _FILLER.match(sentence)
    if time := _TIME_AND_COMMA.match(sentence, filler.end() if filler else 0):
        sentence = f"{time[1]} {sentence[time.end() :]}"
    pieces = _CLAUSE.split(sentence)
    # What is supposed is supposed of all that follows: "if I move to Paris, I need a flat".
    if _UNSURE.match(_FILLER.sub("", pieces[0])):
        return
    speaks = False
    for piece in pieces:
        clause = _SAID.sub("", _FILLER.sub("", piece.strip(" \t,.!)("))).strip(" \t,.!)(*_~")
        if not clause or _UNSURE.search(clause) or _QUESTION_START.match(clause):
            continue
        if _SUBJECTLESS.match(clause):
            if not speaks:
                continue
            clause = "I " + clause
        if first := _TIME_FIRST.match(clause):
            clause = f"{first[2]} {first[1][0].lower()}{first[1][1:]}"
        speaks = speaks or clause[:2].lower() in ("i ", "i'")
        yield re.sub(r"\s+", " ", clause)
