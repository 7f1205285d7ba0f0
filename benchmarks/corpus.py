"""Made-up texts that behave like English: a vocabulary of some thousands of words, few of them common and most of them rare,
texts with a subject each, questions in the words of a text. The same seed gives the same texts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate


def _words(text: str) -> list[str]:
    return text.split()


FUNCTION_WORDS = _words(
    "the a and of to in that it was for on with as at by we they he she this but from or had not were "
    "then there about into"
)
PLAIN = _words(
    "people time year way day thing world life hand part child eye place week case point company number group problem fact "
    "house money story month night study book word business issue side kind head service friend father power hour game line "
    "member law car city name team minute idea body face level office door health person art history party result change "
    "morning reason research girl guy moment air teacher force education food music summer garden letter river mountain "
    "doctor kitchen winter ticket budget meeting email report server database customer invoice contract holiday birthday "
    "window engine harbour bridge market coffee bread cheese apple orange horse rabbit tiger village island forest desert "
    "make know think take see come want look use find give tell work call try ask need feel become leave put mean keep let "
    "begin seem help talk turn start show hear play run move like live believe hold bring happen write provide sit stand lose "
    "pay meet include continue set learn lead understand watch follow stop create speak read allow add spend grow open walk "
    "win offer remember love consider appear buy wait serve die send expect build stay fall cut reach kill remain suggest "
    "raise pass sell require decide pull break plan cook paint travel repair deploy migrate measure cancel borrow deliver "
    "good new first last long great little own other old right big high different small large next early young important "
    "public bad same able warm cold quiet loud green yellow purple heavy cheap honest gentle careful broken famous"
)
OPENINGS = _words(
    "sea moon sun wind rain snow fire stone wood iron gold silver glass paper water book foot hand head eye tooth hair heart "
    "back door house home yard farm land mountain river lake wave cloud storm star night day week light dark sound song drum "
    "bell horn key lock rope sail boat ship rail road street bridge tower town school work shop bank mail post news table "
    "bath bed dream sleep milk tea corn apple berry honey salt sugar pepper bird horse cow dog cat fish bee butter dragon"
)
CLOSINGS = _words(
    "side way land man woman keeper maker holder fall house room yard bank board box bag ball band bird boat book bow bread "
    "bridge brush case cloth coat craft cup dress field fight fish flow fly fold frame gate glass guard guide hall hook horn "
    "jar knife lamp lane line lock mark mate mill nail net note paper path piece pin pipe plate pot print rack ring road rod "
    "rope sail scale screen seat shell shop shore smith song spoon spring stand step stick stone storm stream table tail "
    "thread tide time tool top tower track trade tree walk wall ware watch wheel wing wire work worm writer"
)
RANK_SHIFT = 8
"""Zipf-Mandelbrot: the n-th most common word is drawn in proportion to 1 / (n + RANK_SHIFT)."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of some words, and the subject it is about."""

    text: str
    kind: str
    """common, mixed or rare: what its words are."""


class Corpus:
    """Texts and questions. Not shared between threads."""

    def __init__(self, seed: int, *, words: int = 6000, subjects: int = 300) -> None:
        self._random = rng = random.Random(seed)
        compounds = [a + b for a in OPENINGS for b in CLOSINGS if a != b]
        # The same vocabulary for every seed: rows and questions may have different ones.
        fixed = random.Random(0)
        fixed.shuffle(compounds)
        plain = list(dict.fromkeys(PLAIN))
        fixed.shuffle(plain)
        self.words = (plain + compounds)[:words]
        self._cumulative = list(accumulate(1 / (n + RANK_SHIFT) for n in range(len(self.words))))
        self._subjects = [
            fixed.choices(self.words, cum_weights=self._cumulative, k=3) + fixed.sample(self.words, 12)
            for _ in range(subjects)
        ]
        self._choices = rng.choices

    def text(self) -> str:
        """8 to 30 words, a third of them function words, a third about its subject."""
        rng = self._random
        count = rng.randint(8, 30)
        third = count // 3
        words = self._choices(FUNCTION_WORDS, k=third)
        words += self._choices(rng.choice(self._subjects), k=third)
        words += self._choices(self.words, cum_weights=self._cumulative, k=count - 2 * third)
        rng.shuffle(words)
        return " ".join(words).capitalize() + rng.choice("...?")

    def question(self) -> Question:
        """2 to 8 words: very common ones only, or of all frequencies, or of one subject."""
        rng = self._random
        count = rng.randint(2, 8)
        kind = rng.choice(("common", "mixed", "mixed", "subject"))
        if kind == "common":
            words = rng.sample(self.words[:30], count)
        elif kind == "mixed":
            words = [
                *self._choices(self.words, cum_weights=self._cumulative, k=count - 1),
                rng.choice(self.words[500:]),
            ]
        else:
            words = rng.sample(rng.choice(self._subjects), count)
        return Question(" ".join(["what about the", *words]) + "?", kind)
