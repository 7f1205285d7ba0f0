"""Sentences that the code made with their values in them, told in another language.

Who makes a sentence knows no language but English, and says it in one piece: the command line shows it as it is. A catalog has
its template, with {} for each value. The values are taken out of the sentence and put into the translation; what is no
sentence of memoryd (a name, a command, what Postgres or a provider said) stays.

Promise: tests/unit/test_web_sentences.py finds each sentence of the code that can reach a page, and fails without its German.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LONGEST = 2000
"""Characters of a text that can be a sentence: what is longer is somebody else's."""
APART = ((re.compile(r"(?<=[.?!]) +"), " "), (re.compile("; "), "; "), (re.compile(", "), ", "))
"""Between what is translated by itself: sentences, then the items of a list; and what stands there again."""
_PHRASE = re.compile(r"[^\W\d]\s|\s[^\W\d]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")


@dataclass(frozen=True, slots=True)
class Told:
    """A text in the other language. `left`: the parts that have no translation."""

    text: str
    left: tuple[str, ...] = ()

    @property
    def letters_left(self) -> int:
        """How much of it stays as it was."""
        return sum(c.isalpha() for part in self.left for c in part)


class Sentences:
    """Those of one language. `words`: its catalog."""

    def __init__(self, words: Mapping[str, str | list[str]]) -> None:
        self._words = {english: [said] if isinstance(said, str) else said for english, said in words.items()}
        templates = [(english.split("{}"), said) for english, said in self._words.items() if "{}" in english]
        # Of two that fit, the one that says more itself.
        templates.sort(key=lambda template: -sum(map(len, template[0])))
        self._templates = [
            (max(parts, key=len), re.compile("(.*?)".join(map(re.escape, parts)), re.DOTALL), said)
            for parts, said in templates
        ]

    def tell(self, text: str) -> Told:
        """The text, read as that of which the least has no translation."""
        if text in self._words:
            return Told(self._words[text][0])
        if len(text) > LONGEST:
            return Told(text, (text,))
        return min(self._readings(text), key=lambda told: told.letters_left)

    def _readings(self, text: str) -> Iterator[Told]:
        yield Told(text, (text,))
        for literal, form, said in self._templates:
            if literal in text and (found := form.fullmatch(text)):
                values = [self._value(value) for value in found.groups()]
                # Two forms are for one and for many, by the first value.
                form_of_count = said[0 if found[1] == "1" else -1]
                yield Told(form_of_count.format(*(value.text for value in values)), _left(values))
                break
        for apart, between in APART:
            if len(apart.split(text)) > 1:
                pieces = [self._piece(piece) for piece in apart.split(text)]
                yield Told(between.join(piece.text for piece in pieces), _left(pieces))
        if text.endswith("."):
            told = self.tell(text[:-1])
            yield Told(f"{told.text}.", told.left)

    # One word is a name, also where the catalog has a word like it.

    def _value(self, value: str) -> Told:
        return self.tell(value) if _PHRASE.search(value) else Told(_THOUSANDS.sub("\u202f", value))

    def _piece(self, text: str) -> Told:
        return self.tell(text) if _PHRASE.search(text) else Told(text, (text,))


def _left(told: Sequence[Told]) -> tuple[str, ...]:
    return tuple(part for each in told for part in each.left)
