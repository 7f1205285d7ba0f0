"""Which clauses of a message are statements that its writer makes in their own name.

Left out: code, quotations, pasted documents, questions, what is supposed, wished or joked, and what others said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_CHARACTERS = 2_000
MAX_CLAUSE = 300
MAX_LINES = 12
"""A longer message is a document that was pasted, more often than talk."""

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,300}`", re.DOTALL)
_QUOTED = re.compile(
    r"[\"\u201c\u201d\u00ab\u00bb][^\"\u201c\u201d\u00ab\u00bb]{0,1500}[\"\u201c\u201d\u00ab\u00bb]"
    r"|(?<!\w)'[^'\n]{8,300}'(?!\w)"
)
# What no eye sees, markup, and lines that speak as somebody else.
_UNSEEN = re.compile(r"[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_MARKUP = re.compile(r"<[^<>\n]{1,200}>|\*\*|__|~~")
_ROLE = re.compile(
    r"^\W{0,4}(?:system|assistant|user|human|ai|bot|developer|admin\w*|instructions?|chatgpt|claude)\b[^\w\n]{0,4}[:>\]]"
    r"|<\W{0,3}(?:system|assistant|instructions?|im_start|memory|context)\b",
    re.IGNORECASE | re.MULTILINE,
)
_SHOWN = re.compile(r"\[(?:shares|image|photo|sticker|gif)[^\]]{0,500}\]", re.IGNORECASE)
_CODE_LINE = re.compile(
    r"^\s*(?:>|[#$%]\s|//|/\*|(?:def|class|import|from \w+ import|return|const|let(?!')|var|select|insert|update|delete"
    r"|create)\b.*[;:({=*'])|[{};]\s*$|^\s*\w+\s*=\s*\S|^\s*\|.*\|",
    re.IGNORECASE,
)
# The whole message speaks in another voice, or is no talk at all.
_OTHER_VOICE = re.compile(
    r"\b(?:pretend|role-?play|imagine|suppose|let'?s (?:say|play|pretend)|said (?:no \w+ ever|everyone|nobody)|would say"
    r"|(?:speaking |just )?as an? [\w ]{2,30} (?:would|might)|my"
    r" motto|the saying goes|as they say|spiel(?:en)? wir|tu(?:n wir)? so als|rollenspiel|stell dir vor|juguemos|jugamos a"
    r"|finge|imagina que|faisons semblant|on dirait que|jeu de r\u00f4le|nur spa\u00df|kleiner scherz|era broma|es broma|je"
    r" plaisante|je rigole|star sign|act as|in the (?:voice|style) of|narrator|character|once upon a time|translate|proofread"
    r"|rephrase|paraphrase|rewrite|summari[sz]e|correct (?:this|my)|how do (?:you|i) say|for example|just kidding|only"
    r" kidding|kidding|jk|joking|lyrics|dear (?:sir|madam|mr|mrs|ms|hiring|team)|yours (?:faithfully|sincerely)|(?:best|kind)"
    r" regards|the (?:patient|customer|client|user|person|article|text) (?:says|said|writes|wrote))\b|^\s*(?:please"
    r" )?(?:write|draft|compose|generate|create|make|say|repeat|complete|fill)\b[^.\n]{0,80}\b(?:e?mail|letter|poem|story"
    r"|song|note|text|message|speech|bio|essay|dialogue|post|cv|resume|paragraph|sentence|tweet|caption|intro\w*|template)\b",
    re.IGNORECASE,
)
_PASTE_FOLLOWS = re.compile(
    r"(?:here(?:'s| is| are)|this is|i got|following|below|says?|said|wrote|reads?|(?:e?mail|text|letter"
    r"|message)[^:\n]{0,20})\s*:\s*$",
    re.IGNORECASE,
)
_UNSURE = re.compile(
    r"\b(?:if|unless|whether|suppose|what if|would|wouldn't|could|might|maybe|perhaps|probably|wish|hopefully|i guess|^i"
    r" think|i doubt|i wonder|thinking (?:about|of)|considering|not sure|as if|as though|should|supposed to|feels? like i|lol"
    r"|haha+|lmao|rofl|almost|nearly|someday|some day|one day|rather than die|literally dying|to the moon|(?-i:LOVE|HATE"
    r"|LOOOVE)|dreamt|dreamed|dream that|joke|who knows|i'd|we'd|sarcasm|/s)\b",
    re.IGNORECASE,
)
SARCASM = re.compile(
    r"^(?:oh,? |ah,? |ay,? )?(?:wonderful|great|fantastic|lovely|brilliant|perfect|awesome|amazing|just what i needed"
    r"|qu\u00e9 bien|genial|na toll|toll|super|wunderbar|g\u00e9nial|formidable)[,!. ]+(?:another|yet another|more|again|noch"
    r" ein\w*|schon wieder|otr[oa]|encore)\b",
    re.IGNORECASE,
)
_IN_CASE = re.compile(
    r"(?<=\w) (?:if|in case) (?:they|you|anyone|anybody|needed|it helps|that helps)\b.*$", re.IGNORECASE
)
_REPORTED = re.compile(
    r"\b(?!i |we |i've |i also )(?:[\w']+) (?:said|says|told (?:me|him|her|us|them)|tells? me|asked|wrote|thinks?|thought"
    r"|claims?|claimed|believes?|replied|mentioned|insists?)\b|\baccording to\b",
    re.IGNORECASE,
)
_QUESTION_START = re.compile(
    r"^(?:who|what|when|where|why|how|which|whose|is|are|am|was|were|do|does|did|can|could|would|will|should|shall|may|have"
    r" you|has|had|isn't|aren't|don't you|doesn't|didn't|can't you|won't)\b(?!.{0,20}\bis (?:that )?i)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"')\]]*\s+(?=\S)(?!(?i:januar|februar|m\u00e4rz|april|mai|juni|juli|august|september|oktober|november"
    r"|dezember)\b)|\n+|(?<=\w)\s+-{1,2}\s+(?=\w)|;\s+|\s+(?=:\)|:D|;\))"
)
_SAID = re.compile(
    r"^(?:(?:as )?i (?:said|mentioned)|i'm saying|i told you|to be clear)(?: that|,|:)?\s+(?=\w)",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:(?:hi|hey|hello|hiya|well|so|ok|okay|also|btw|by the way|oh|ah|hmm|yes|yeah|yep|no(?! more\b| longer\b)|nope|nah"
    r"|fyi|and|but|plus|anyway|actually|sorry|wait|sure|thanks|thank you|great|cool|right|look|listen|honestly|good news"
    r"|update|guess what|wow|fun fact|correction|sooo*|yo+|just|(?:it )?turns out(?: that)?|apparently|wel+|now|also|ugh|argh"
    r"|aha|btw|heyyy*|hii+|i mean|in fact|to be honest|tbh|unfortunately|sadly|luckily|finally|and then|then|just so you know"
    r"|for the record|as you know|these days|nowadays|lately|currently|meanwhile|at last|big news|good news|small update"
    r"|quick update|one more thing|remember(?: that)?|note that|please note(?: that)?|good (?:morning|evening|afternoon)"
    r"|there|everyone|all|guys)\b[\s,!:.\u2014-]*)+",
    re.IGNORECASE,
)
# "Yesterday I moved" is read as "I moved yesterday". Of times to come, and of "today", the rules know too little.
_MONTH = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_PAST_DAY = (
    r"(?:the day before yesterday|yesterday|last (?:night|week|weekend|month|year|spring|summer|autumn|fall|winter"
    rf"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|{_MONTH})"
    r"|(?:a|one|two|three|four|five|six|\d{1,2}) (?:day|week|month|year)s? ago)"
)
_YEAR = rf"(?:{_MONTH} )?(?:19|20)\d\d"
_TIME = rf"(?:{_PAST_DAY}|(?:back )?in {_YEAR}|since (?:{_PAST_DAY}|{_YEAR}|{_MONTH}))"
_SUBJECT = r"(?=(?:i|i've|i'm|we|we've|we're|my|our)\b)"
_TIME_FIRST = re.compile(rf"^({_TIME}) {_SUBJECT}(.+)$", re.IGNORECASE)
_TIME_AND_COMMA = re.compile(rf"({_TIME}), {_SUBJECT}", re.IGNORECASE)
_CLAUSE = re.compile(
    r",?\s+(?:and|but|so|because|then|plus|while|although|though|since|as)\s+(?=(?:i|i'm|i've|we|we're|we've|my|our|it's)\b)"
    r"|,\s+(?=(?:i|i'm|i've|i'll|my|we|we're|we've|our|no more|vegan|vegetarian|pescatarian|(?:now )?(?:studying|working"
    r"|living)|(?:broke|got|fractured|sprained) (?:my|an?|the))\b|\d{1,2}(?:,|$))|,?\s+(?:and|but)\s+(?=(?:everyone|everybody"
    r"|people|friends|they) calls? me\b)|,?\s+(?:and|but)\s+(?=(?:love|like|hate|prefer|enjoy|can't stand|don't (?:like|eat"
    r"|drink)|work|live|study|have|play|speak|studying|working|living)\s)",
    re.IGNORECASE,
)
_DOING = re.compile(
    r"^(?:starting|going|flying|travell?ing|moving|studying|working|living|learning|training|heading|joining)\s(?!.*\b(?:is"
    r"|are|was|were|has|have|can|will|would|helps?|makes?|takes?|sets?|requires?|sounds?|seems?|means?|feels?|gives?"
    r"|from)\b)",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"^(?:turned(?= \d)|got (?:a|an|the|my|married|engaged|fired|promoted|laid)|moved|broke my|quit|gave up|sold|bought"
    r"|adopted|switched|started|handed in|dropped|broke up|got rid|joined|lost my job|cancelled|stopped|decided)\s"
    r"|^play(?:ing)? the\s",
    re.IGNORECASE,
)
ADVERBS = (
    r"(?:really|absolutely|also|actually|just|still|now|currently|only|mostly|finally|recently|already|definitely|totally"
    r"|both|personally|generally|usually|truly|severely|very|quite|mainly|originally|officially|kind of|so|a bit|always been"
    r"|then|unfortunately|sadly|luckily|basically|pretty much|normally) "
)
_SHORT = (
    (re.compile(r"^(?:i'm|im|we're|we are|i am)\b(?! not sure)", re.IGNORECASE), "I am"),
    (re.compile(r"^(?:i've|ive|we've|i have|we have)\b(?: got\b(?= (?:an?|two|three|four|five|\d+|my|no"
        r"|the)\b))?", re.IGNORECASE), "I have"),
    (re.compile(r"^(?:i'll|we'll)\b", re.IGNORECASE), "I will"),
    (re.compile(r"^(?:we|i)\b", re.IGNORECASE), "I"),
    (re.compile(r"^(?:our|my)\b", re.IGNORECASE), "my"),
    (re.compile(rf"^(I(?: am| have| will| do(?! have))?) (?:{ADVERBS})+", re.IGNORECASE), r"\1 "),
)  # fmt: skip
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
    text = re.sub(r"[^\S\n]+", " ", _UNSEEN.sub("", text).replace("\u2019", "'"))
    if _ROLE.search(text) or _OTHER_VOICE.search(text):
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


_ASKED = re.compile(
    r",\s+(?:(?:so|and|but) )?(?:any|who|what|when|where|why|how|which|is|are|do|does|can|could|would|will|should|shall"
    r"|may)\b(?! i\?)[^,]*\?$",
    re.IGNORECASE,
)


def _clauses(sentence: str) -> Iterator[str]:
    sentence = _own(_MARKUP.sub(" ", sentence).strip())
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
        clause = _IN_CASE.sub("", clause)
        if not clause or _UNSURE.search(clause) or _QUESTION_START.match(clause):
            continue
        if _SUBJECTLESS.match(clause) and not speaks:
            continue
        clause = _plain(clause, speaks=speaks)
        speaks = speaks or clause.startswith("I ")
        yield clause


def _own(sentence: str) -> str:
    """What the writer says in their own name; empty if that is nothing."""
    if sentence.endswith("?"):
        # Of a statement with a question behind it the statement.
        sentence, times = _ASKED.subn("", sentence)
        if not times:
            return ""
    if "\x00" in sentence or SARCASM.match(sentence):
        return ""
    reported = _REPORTED.search(sentence.split(" who ")[0])
    if reported is None:
        return sentence
    # "I'm allergic to nuts, they wrote it on my card": what stands before is one's own. Not so "I'm vain, Tom says".
    more = len(sentence[reported.end() :].split()) > 1
    return sentence[: reported.start()].rpartition(",")[0] if more else ""


def _plain(clause: str, *, speaks: bool) -> str:
    """The clause with its subject, "we" as "I", contractions written out, without adverbs after the subject."""
    if first := _TIME_FIRST.match(clause):
        clause = f"{first[2]} {first[1][0].lower()}{first[1][1:]}"
    if _DOING.match(clause) or (speaks and re.fullmatch(r"\d{1,2}", clause)):
        clause = f"I am {clause[0].lower()}{clause[1:]}"
    elif _DONE.match(clause) or _SUBJECTLESS.match(clause):
        clause = f"I {clause}"
    clause = re.sub(r"\s+", " ", clause)[:MAX_CLAUSE]
    for short, long in _SHORT:
        clause = short.sub(long, clause)
    return clause
