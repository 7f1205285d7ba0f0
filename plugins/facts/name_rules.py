"""Names in what a person says: of people, animals, organisations, projects and places.

A name is known by what introduces it ("my sister Dora", "the Apollo project", "I work at Siemens"), in English, and for the
commonest forms in German, French and Spanish; or by being written with a capital letter within a sentence. The latter says
nothing of its kind, and is not looked at in German, which writes every noun so. Scripts without capital letters have no names
here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["user", "person", "animal", "organisation", "project", "place", "thing"]

KINDS: Mapping[str, Kind] = {
    "user": "user", "person": "person", "animal": "animal", "organisation": "organisation", "project": "project",
    "place": "place", "thing": "thing",
}  # fmt: skip
MAX_NAMES = 10
"""Of one message. A message with more is a list."""
MAX_CHARACTERS = 60
MAX_READ = 2_000
"""Characters of a message. A longer one is a document that was pasted, more often than talk."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it stands in the message, and of what kind of thing it is. None: not known."""

    name: str
    kind: Kind | None

    @property
    def key(self) -> str:
        """By which it is looked up."""
        return self.name.lower()


_RELATIVES = (
    "wife", "husband", "partner", "spouse", "fianc\u00e9e?", "fiancee?", "girlfriend", "boyfriend",
    "(?:grand|step)?(?:mother|father|daughter|son|child|children)(?:[- ]in[- ]law)?", "grandma", "grandpa", "mom", "mum",
    "dad", "parents", "(?:brother|sister)(?:s|[- ]in[- ]law)?", "daughters", "sons", "kids?", "twins", "baby", "aunt",
    "uncle", "cousin", "niece", "nephew", "god(?:son|daughter)", "(?:room|flat|house)?mates?", "best friend", "boss",
    "manager", "therapist", "doctor", "landlord", "landlady", "in-laws", "little one",
)  # fmt: skip
_WORD = r"(?-i:[A-Z\u00c0-\u00d6\u00d8-\u00de])[\w'\u2019&-]*"
_NAME = rf"(?P<v>{_WORD}(?: (?:{_WORD}|(?:de|la|van|von|der|den|del|al|bin|ben|of)(?= {_WORD}))){{0,3}})"
_ANIMALS = ("dog", "cat", "puppy", "kitten", "horse", "parrot", "rabbit", "hamster")
_PEOPLE = (
    *_RELATIVES, "friends?", "colleagues?", "co-?workers?", "neighbou?rs?", "teammates?", "supervisor", "teacher", "coach",
    "tutor", "client", "customer", "accountant", "lawyer", "dentist", "assistant", "student", "team lead",
)  # fmt: skip
_NAMED = r"(?:,|'s name is|,? (?:is )?(?:called|named))? "
_ORGANISATIONS = (
    r"company|startup|start-up|firm|agency|bank|school|university|employer|client|customer|club|band"
)

_CUES: tuple[tuple[Kind, str], ...] = (
    ("person", rf"\b(?:my|our|his|her|their) (?:[\w-]+ )?(?:{'|'.join(_PEOPLE)}){_NAMED}{_NAME}"),
    ("animal", rf"\b(?:my|our|an?|the) (?:[\w-]+ )?(?:{'|'.join(_ANIMALS)}){_NAMED}{_NAME}"),
    ("person", rf"\b(?:my name is|call me|je m'appelle|me llamo|ich hei\u00dfe|mein name ist) {_NAME}"),
    (
        "person",
        (rf"\b(?:meine?|ma|mon|mi) (?:mutter|vater|schwester|bruder|frau|mann|tochter|sohn|freundin|freund|chefin|chef"
            rf"|kollegin"
        rf"|kollege|femme|mari|s\u0153ur|fr\u00e8re|m\u00e8re|p\u00e8re|fille|fils|amie?|hermana|hermano|madre|padre|hija"
        rf"|hijo"
        rf"|esposa|esposo|amiga|amigo|jefe|jefa),? (?:hei\u00dft |s'appelle |se llama )?{_NAME}"),
    ),
    ("person", rf"\b(?:mr|mrs|ms|dr|prof|herr|frau|madame|monsieur|se\u00f1ora?)\.? {_NAME}"),
    ("project", rf"\b(?:pro[jy]e[ck]to?|projet) (?:called |named |namens )?{_NAME}"),
    ("project", rf"\b(?:the|our|my|this) {_NAME} project\b"),
    ("organisation", rf"\b(?:{_ORGANISATIONS}) (?:is |was )?(?:called|named) {_NAME}"),
    ("project", rf"\b(?:app|repo|repository|product|tool|library|game) (?:is )?(?:called|named) {_NAME}"),
    ("place", rf"\b(?:town|city|village|suburb|island) (?:is )?(?:called|named|of) {_NAME}"),
    (
        "organisation",
        (rf"\b(?:work(?:s|ed|ing)?|job|jobs|interned|interning|hired|offer|employed|arbeitet?|travaille|trabajo) "
        rf"(?:now |currently )?(?:at|for|by|from|bei|f\u00fcr|chez|pour|para) {_NAME}"),
    ),
    ("organisation", rf"\b{_NAME}(?= (?-i:Inc|GmbH|Ltd|LLC|AG|Corp|SA|SARL|plc)\b)"),
    (
        "place",
        (rf"\b(?:live|lives|living|lived|moved?|moving|relocat\w+|flew|fly|flying|travel\w*|trips?|born|grew up|based"
        rf"|holidays?|vacation|apartment|flat|house|wohnt?e?|lebt?e?|habite|vis|vit|vive|vivo|zieht?e?) (?:back |over )?"
        rf"(?:in|to|from|nach|aus|\u00e0|en|a|near) {_NAME}"),
    ),
)  # fmt: skip
_BY_CUE = tuple((kind, re.compile(cue, re.IGNORECASE)) for kind, cue in _CUES)
_WITHIN = re.compile(rf"(?<=[a-z0-9,)'\u2019\u00df-\u00ff] ){_NAME}")
_GERMAN = re.compile(
    r"\b(?:der|die|das|und|ist|nicht|ich|wir|ein|eine|dem|den|zu|mein|meine)\b", re.IGNORECASE
)
_NO_NAMES = frozenset({
    "american", "argentinian", "australian", "austrian", "belgian", "brazilian", "british", "bulgarian", "canadian",
    "chilean", "chinese", "colombian", "croatian", "cuban", "czech", "danish", "dutch", "egyptian", "english", "estonian",
    "european", "finnish", "french", "german", "greek", "hungarian", "icelandic", "indian", "indonesian", "iranian", "irish",
    "israeli", "italian", "japanese", "jewish", "kenyan", "korean", "latvian", "lebanese", "lithuanian", "mexican",
    "moroccan", "muslim", "nigerian", "norwegian", "pakistani", "peruvian", "polish", "portuguese", "romanian", "russian",
    "scottish", "serbian", "slovak", "slovenian", "spanish", "swedish", "swiss", "syrian", "taiwanese", "thai", "turkish",
    "ukrainian", "vietnamese", "welsh", "catholic", "christian", "buddhist", "hindu", "asian", "african", "catalan",
    "arabic", "persian", "farsi", "hindi", "urdu", "bengali", "tamil", "mandarin", "cantonese", "hebrew", "swahili",
    "not", "sorry", "ok", "okay", "fine", "back", "here", "very", "too", "just", "also", "still", "good", "great", "sure",
    "happy", "sad", "glad", "tired", "in", "on", "at", "a", "an", "the", "i", "ready", "done", "home", "late", "off", "out",
    "up", "down", "well", "will", "may", "can", "my", "we", "you", "he", "she", "they", "it", "this", "that", "these", "if",
    "but", "and", "no", "yes", "please", "thanks", "hi", "hello", "hey", "what", "why", "how", "when", "where", "who",
    "which", "is", "are", "do", "does", "christmas", "easter", "halloween", "thanksgiving", "hanukkah", "ramadan", "god",
    "internet", "web", "pdf", "tv", "ceo", "cto", "hr", "mom", "mum", "dad", "mummy", "daddy", "grandma", "grandpa", "one",
    "two", "three", "for", "so", "as", "btw", "asap", "fyi", "i'm", "i've", "i'll", "i'd", "since", "because", "after",
    "before", "then", "now", "there", "mr", "mrs", "spring", "summer", "autumn", "winter", "january", "february", "march",
    "april", "june", "july", "august", "september", "october", "november", "december", "monday", "tuesday", "wednesday",
    "thursday", "friday", "saturday", "sunday", "mondays", "tuesdays", "wednesdays", "thursdays", "fridays", "saturdays",
    "sundays",
})  # fmt: skip
_NO_TALK = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{1,300}`|[\"\u201c\u201d\u00ab\u00bb][^\"\u201c\u201d\u00ab\u00bb]{0,1500}[\"\u201c\u201d\u00ab\u00bb]"
    r"|<[^<>\n]{1,200}>|\*\*|__|~~",
    re.DOTALL,
)
"""Code, quotations and markup."""
_CODE_LINE = re.compile(
    r"^\s*(?:>|[#$%]\s|//|/\*|(?:def|class|import|from \w+ import|return|const|var|select|insert|update|delete|create)\b"
    r".*[;:({=*'])|[{};]\s*$|^\s*\w+\s*=\s*\S|^\s*\|.*\|",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=\S)|\n+|;\s+")
_ABBREVIATED = re.compile(r"\b(mr|mrs|ms|dr|prof)\.\s+", re.IGNORECASE)
_ENDING = re.compile(r"(?:['\u2019]s?|['\u2019\-&]+)$")


def find_names(text: str) -> list[Name]:
    """The names in a message, in the order of their kinds of evidence, none twice."""
    found: dict[str, Name] = {}
    lines = _NO_TALK.sub(" ", text[:MAX_READ]).replace("\u2019", "'").split("\n")
    text = "\n".join(" ".join(line.split()) for line in lines if not _CODE_LINE.search(line))
    for sentence in _SENTENCE_END.split(_ABBREVIATED.sub(r"\1 ", text)):
        for name in _in_sentence(sentence.strip()):
            found.setdefault(name.key, name)
    return list(found.values())[:MAX_NAMES]


def stated_names(stated: Iterable[tuple[str, str]], *, text: str) -> list[Name]:
    """The names that a language model gave, each with its kind, as far as the text has them as whole words."""
    found: dict[str, Name] = {}
    for name, kind in stated:
        if kind not in KINDS or len(name) > MAX_CHARACTERS or _plain(name) in _NO_NAMES:
            continue
        # As the message writes it: whoever invents a name has none.
        there = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
        if there is not None:
            found.setdefault(there[0].lower(), Name(there[0], KINDS[kind]))
    return list(found.values())[:MAX_NAMES]


def _in_sentence(sentence: str) -> Iterator[Name]:
    taken: list[tuple[int, int]] = []
    for kind, cue in _BY_CUE:
        for match in cue.finditer(sentence):
            yield from _name(match, kind, taken)
    words = [word for word in sentence.split()[1:] if not word.startswith("I")]
    titled = sum(word[:1].isupper() for word in words)
    # A heading, or shouting: capital letters say nothing.
    if _GERMAN.search(sentence) or (len(words) > 2 and 3 * titled > 2 * len(words)):
        return
    for match in _WITHIN.finditer(sentence):
        yield from _name(match, None, taken)


def _name(match: re.Match[str], kind: Kind | None, taken: list[tuple[int, int]]) -> Iterator[Name]:
    """The name of a match, unless it has none, or a part of it is taken; and then it is taken."""
    start, end = match.span("v")
    if any(start < other and begin < end for begin, other in taken):
        return
    words = match["v"].split()
    while words and _plain(words[0]) in _NO_NAMES:
        words = words[1:]
    for index, word in enumerate(words):
        if _plain(word) in _NO_NAMES:
            words = words[:index]
            break
    name = _ENDING.sub("", " ".join(words))
    letters = sum(char.isalpha() for char in name)
    if letters < 2 or len(name) > MAX_CHARACTERS or (kind is None and name.isupper()):
        return
    taken.append((start, end))
    yield Name(name, kind)


def _plain(word: str) -> str:
    return _ENDING.sub("", word.lower())
