"""Clauses of a speaker ("I live in Lyon with my wife") as sentences about them ("Ann lives in Lyon with their wife")."""

from __future__ import annotations

import re
import unicodedata

from memory.facts.words import KIN

_SWAPS = (
    (re.compile(r"\bmy\b", re.IGNORECASE), "their"),
    (re.compile(r"\bour\b", re.IGNORECASE), "their"),
    (re.compile(r"\bmine\b|\bours\b", re.IGNORECASE), "theirs"),
    (re.compile(r"\b(?:myself|ourselves)\b", re.IGNORECASE), "themselves"),
    (re.compile(r"\bme\b|\bus\b(?!\w)(?<=us)", re.IGNORECASE), "them"),
    (re.compile(r"\bI'm\b|\bI am\b", re.IGNORECASE), "they are"),
    (re.compile(r"\bI've\b|\bI have\b", re.IGNORECASE), "they have"),
    (re.compile(r"\bI\b"), "they"),
)
_FIRST = re.compile(
    r"^I (?P<adverbs>(?:(?:no longer|never|always|usually|often|sometimes|simply|especially|only|even|quite|live and) ){0,3})"
    r"(?P<verb>[\w']+)(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_PAST = frozenset({
    "was", "were", "had", "did", "went", "got", "bought", "sold", "quit", "left", "lost", "began", "became", "chose",
    "grew", "told", "met", "made", "took", "came", "gave", "found", "won", "ate", "drank", "drove", "wrote", "read",
    "broke", "built", "brought", "taught", "thought", "kept", "spent", "ran", "saw", "swam", "flew", "fell", "felt",
    "held", "paid", "put", "set", "cut", "let", "spoke", "slept", "stood", "will", "can", "can't", "cannot", "won't",
    "must", "couldn't", "didn't", "wasn't", "weren't", "ordered",
})  # fmt: skip
_THIRD = {
    "am": "is", "are": "is", "have": "has", "haven't": "hasn't", "do": "does", "don't": "doesn't", "go": "goes", "'m": "is",
    "no": "no", "were": "was", "weren't": "wasn't",
}  # fmt: skip


_THEIRS = re.compile(
    rf"(?:my|our) (?P<who>(?:older |younger |little |big |eldest |youngest |twin |late |best )?(?:{KIN})),?"
    r" (?P<name>(?-i:[A-Z\u00c0-\u00de])[\w-]+),? (?P<rest>(?!and\b|(?:is|are) (?:called|named)\b)[a-z].*)$",
    re.IGNORECASE,
)


def about(subject: str, clause: str) -> str:
    """The clause, which begins with I, my or a name, as a sentence about the subject, or about whom it names."""
    theirs = _THEIRS.match(clause)
    if theirs is not None:
        whose = f"the {subject[4:]}" if subject.startswith("The ") else subject
        return _sentence(f"{theirs['name']}, {possessive(whose)} {theirs['who']}, {_swapped(theirs['rest'])}")
    owner = re.match(r"my ", clause, re.IGNORECASE)
    if owner is not None:
        return _sentence(f"{possessive(subject)} {_swapped(clause[owner.end() :])}")
    parts = _FIRST.match(clause)
    if parts is None:
        return _sentence(_swapped(clause))
    verb = f"{parts['adverbs']}{_third(parts['verb'])}"
    return _sentence(f"{subject} {verb}{_swapped(parts['rest'])}")


def possessive(subject: str) -> str:
    """The genitive: Ann's."""
    return f"{subject}'s"


def _swapped(text: str) -> str:
    for pattern, word in _SWAPS:
        text = pattern.sub(word, text)
    return text


def _third(verb: str) -> str:
    low = verb.lower()
    if low in _THIRD:
        return _THIRD[low]
    if low in _PAST or low.endswith(("ed", "'t")):
        return verb
    if low.endswith("y") and low[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if low.endswith(("s", "x", "ch", "sh", "z", "o")) else "s")


def _sentence(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,;:-")
    return text if text.endswith((".", "!")) else text + "."


_SMALL = frozenset({
    "a", "an", "the", "my", "our", "their", "his", "her", "its", "of", "in", "on", "at", "to", "for", "with", "and",
    "or", "also", "really", "very", "so", "much", "is", "are", "was", "be", "been", "am", "i", "we", "he", "she",
    "they", "it", "this", "that", "as", "by", "from", "about", "just", "now", "all", "any", "some", "quite", "too",
})  # fmt: skip


def normalised(text: str) -> str:
    """What two ways of saying the same value have in common: words in lower case without marks, articles and plural."""
    plain = unicodedata.normalize("NFKD", text.lower())
    words = re.findall(
        r"[^\W_]+(?:[@.+-][^\W_]+)*", "".join(c for c in plain if not unicodedata.combining(c))
    )
    kept = [_stem(w) for w in words if w not in _SMALL] or words
    return " ".join(kept)[:200]


def says_something(text: str) -> bool:
    """Whether the text has a word that is no article, pronoun or the like."""
    return any(word not in _SMALL for word in normalised(text).split())


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


_DENIED = frozenset(["not", "no", "never", "longer", "don", "dont", "cannot"])


def says_no_more(new: str, known: str) -> bool:
    """Whether all that the new normalised value says is said by the known one, and neither denies what the other says."""
    a, b = set(new.split()), set(known.split())
    return a <= b and a & _DENIED == b & _DENIED and bool(a)


def alike(one: str, other: str) -> bool:
    """Whether two normalised values share four fifths of their words, all numbers among them, and what they deny."""
    a, b = set(one.split()), set(other.split())
    differ = a ^ b
    if not a or not b or differ & _DENIED or any(c.isdigit() for word in differ for c in word):
        return one == other
    return len(a & b) / len(a | b) >= 0.8
