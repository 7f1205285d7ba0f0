"""How many standing rules of a prompt are found, and how many ordinary prompts are taken for one: by weights that were learned
from other writers' prompts only (leave one writer out).

    python -m benchmarks.talk.rules            # the figures
    python -m benchmarks.talk.rules --write    # learns from all writers, and writes plugins/hooks/stating.bin

The prompts are those of rules.json, written by people who had not seen the code, and of tests/acceptance/hooks/prompts.json.
The threshold is where WRONG of the ordinary prompts of rules.json are taken for rules by weights of other writers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Figures, arguments, report
from plugins.hooks.standing import rules_in, sentences_of
from plugins.hooks.stating import BUCKETS, HEADER, WEIGHTS, Reader

PROMPTS = Path(__file__).with_name("rules.json")
TESTED = Path(__file__).parents[2] / "tests/acceptance/hooks/prompts.json"
WRONG = 0.01
PENALTY = 0.1
MOST_STEPS = 15
BLOCK = 4096
EMPTY = HEADER.pack(0.0, 0.0) + bytes(BUCKETS)

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, its writer, and the rule that it states in the prompt's own words, "" for none."""

    writer: str
    text: str
    rule: str


def prompts() -> list[Prompt]:
    """All of them; the writers of the tests' sets have names of more than one letter."""
    read = []
    for writer, said in json.loads(PROMPTS.read_text(encoding="utf-8")).items():
        read += [Prompt(writer, text, rule) for text, rule in said["rules"]]
        read += [Prompt(writer, text, "") for text in said["ordinary"]]
    for writer, said in json.loads(TESTED.read_text(encoding="utf-8")).items():
        read += [Prompt(f"tests: {writer}", each["prompt"], each["rule"]) for each in said["rules"]]
        read += [Prompt(f"tests: {writer}", text, "") for text in said["ordinary"]]
    return read


def _words(text: str) -> set[str]:
    return set(re.findall(r"[\u3040-\u30ff\u4e00-\u9fff]|[\w']+", text.lower()))


def is_of(sentence: str, rule: str) -> bool:
    """Whether a sentence states a rule, or more than half of it."""
    sentence, rule = (text.strip(" .。") for text in (sentence, rule))
    said, stated = _words(sentence), _words(rule)
    if not said or not stated:
        return False
    inside = (sentence in rule and len(said) > 1) or rule in sentence
    return (
        inside
        or 2 * len(said & stated) > max(len(said), len(stated))
        or len(said & stated) > 0.6 * len(stated)
    )


class Sentences:
    """The sentences of prompts as what is seen in them, and how alike each two are."""

    def __init__(self, all_: list[Prompt]) -> None:
        reader = Reader(EMPTY)
        self.prompt: list[int] = []
        stated: list[bool] = []
        self.seen: list[list[set[int]]] = []
        for one, prompt in enumerate(all_):
            said = sentences_of(prompt.text)
            for nth, sentence in enumerate(said):
                self.prompt.append(one)
                stated.append(bool(prompt.rule) and is_of(sentence, prompt.rule))
                self.seen.append(reader.seen(sentence, nth, len(said)))
        self.stated = np.array(stated)
        self.alike = np.zeros((len(self.seen), len(self.seen)), np.float32)
        for begin in range(0, BUCKETS, BLOCK):
            part = self._columns(begin)
            self.alike += part @ part.T

    def _columns(self, begin: int) -> Floats:
        part = np.zeros((len(self.seen), BLOCK), np.float32)
        for row, groups in enumerate(self.seen):
            for group in groups:
                here = [one - begin for one in group if begin <= one < begin + BLOCK]
                part[row, here] += np.float32(len(group) ** -0.5)
        return part

    def weights(self, worth: Floats) -> Floats:
        """The weight of each bucket, of what each sentence is worth."""
        return np.concatenate([worth @ self._columns(begin) for begin in range(0, BUCKETS, BLOCK)])


def learn(alike: Floats, stated: NDArray[np.bool_]) -> tuple[Floats, float]:
    """Logistic regression with a penalty, by Newton's method: what each sentence is worth, and what each begins with."""
    count = len(stated)
    worth, start = np.zeros(count, np.float32), -1.5
    for _ in range(MOST_STEPS):
        score = alike @ worth + start
        chance = 1 / (1 + np.exp(-score))
        sure = np.maximum(chance * (1 - chance), 1e-4)
        root = np.sqrt(sure).astype(np.float32)
        system = alike * np.outer(root, root)
        system[np.diag_indices(count)] += PENALTY
        aims = np.stack([root * (score + (stated - chance) / sure), root], axis=1)
        answer, ones = (root[:, None] * np.linalg.solve(system, aims.astype(np.float32))).T
        start = float(answer.sum() / ones.sum())
        new = answer - start * ones
        moved, worth = float(np.abs(new - worth).max()), new
        if moved < 1e-3 * np.abs(worth).max():
            break
    return worth, start


@dataclass(frozen=True, slots=True)
class Learned:
    """Weights as they are shipped."""

    unit: float
    start: float
    weights: bytes

    @classmethod
    def of(cls, sentences: Sentences, chosen: NDArray[np.bool_]) -> Learned:
        """What the chosen sentences teach."""
        worth = np.zeros(len(chosen), np.float32)
        worth[chosen], start = learn(sentences.alike[np.ix_(chosen, chosen)], sentences.stated[chosen])
        weights = sentences.weights(worth)
        unit = float(np.quantile(np.abs(weights), 0.9999)) / 127
        return cls(unit, start, np.clip(np.round(weights / unit), -127, 127).astype(np.int8).tobytes())

    def file(self, threshold: float) -> bytes:
        """The file: a sentence that scores more than the threshold states a rule."""
        return HEADER.pack(self.unit, self.start - threshold) + self.weights


def readers_of(by: dict[str, Learned], threshold: float) -> dict[str, Reader]:
    """What reads with these weights."""
    return {writer: Reader(one.file(threshold)) for writer, one in by.items()}


def wrong(all_: list[Prompt], by: dict[str, Learned], threshold: float) -> dict[str, list[str]]:
    """The ordinary prompts of each writer that are taken for rules."""
    readers = readers_of(by, threshold)
    taken: dict[str, list[str]] = {writer: [] for writer in by}
    for one in all_:
        if not one.rule and one.writer in by and rules_in(one.text, readers[one.writer]):
            taken[one.writer].append(one.text)
    return taken


def found(all_: list[Prompt], by: dict[str, Learned], threshold: float) -> dict[str, list[bool]]:
    """Which rules of each writer are found: a sentence that is kept states it."""
    readers = readers_of(by, threshold)
    right: dict[str, list[bool]] = {writer: [] for writer in by}
    for one in all_:
        if one.rule:
            kept = rules_in(one.text, readers[one.writer])
            right[one.writer].append(any(is_of(rule, one.rule) for rule in kept))
    return right


def threshold_of(all_: list[Prompt], by: dict[str, Learned]) -> float:
    """The lowest threshold at which at most WRONG of the ordinary prompts of rules.json are taken for rules."""
    untested = {writer: one for writer, one in by.items() if not writer.startswith("tests")}
    most = WRONG * sum(not one.rule and one.writer in untested for one in all_)
    low, high = -4.0, 4.0
    for _ in range(9):
        middle = (low + high) / 2
        if sum(map(len, wrong(all_, untested, middle).values())) > most:
            low = middle
        else:
            high = middle
    return high


def main() -> None:
    """Learns and reports."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--write", action="store_true", help="write the weights of all writers")
    parser.add_argument("--show", action="store_true", help="print what is wrongly taken for a rule")
    options = parser.parse_args()
    all_ = prompts()
    sentences = Sentences(all_)
    writers = np.array([all_[one].writer for one in sentences.prompt])
    by = {str(writer): Learned.of(sentences, writers != writer) for writer in np.unique(writers)}
    threshold = threshold_of(all_, by)
    right, taken = found(all_, by, threshold), wrong(all_, by, threshold)
    figures: Figures = {
        writer: f"{sum(right[writer])} of {len(right[writer])} rules found, {len(taken[writer])} of "
        f"{sum(not one.rule and one.writer == writer for one in all_)} ordinary prompts taken for one"
        for writer in by
    }
    if options.show:
        print(*(repr(text) for texts in taken.values() for text in texts), sep="\n")
    if options.write:
        Path(WEIGHTS).write_bytes(Learned.of(sentences, np.ones(len(writers), bool)).file(threshold))
    report("rules", figures | {"threshold": round(threshold, 2)}, options.json)


if __name__ == "__main__":
    main()
