"""The arithmetic of the comparison: bodies of text as rows for any system, and what its answers are worth."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.harness import percentiles
from benchmarks.search.bodies import Body, make_body

COUNT = 10
"""Results that are asked for."""
BATCH = 100
"""Rows of one write."""


@dataclass(frozen=True, slots=True)
class Text:
    """A row, for any system."""

    id: str
    user: str
    text: str
    """What peers get: in a conversation the speaker's name stands before it, which memoryd has a column for."""
    time: str | None
    memory: bool
    row: Sequence[object]
    """What memoryd gets."""


def make_texts(found: dict[str, Any]) -> tuple[Body, list[list[Text]]]:
    """A body of a file, and its rows in batches."""
    body, columns = make_body(found)
    rows = list(zip(*columns, strict=True))
    texts = []
    for turn, (row_id, text), row in zip(found["turns"], body.texts.items(), rows, strict=True):
        memory = turn["session"] is None
        said = text if memory else f"{turn['speaker']}: {text}"
        texts.append(Text(str(row_id), str(body.user), said, turn["time"] or None, memory, row))
    return body, [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came for a question."""

    ids: Sequence[str]
    seconds: float


@dataclass(slots=True)
class Tally:
    """The answers to the questions of one way to ask."""

    recall: dict[str, list[float]] = field(default_factory=dict)
    """By set."""
    precision: list[float] = field(default_factory=list)
    silent: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, name: str, answer: Answer, evidence: frozenset[uuid.UUID]) -> None:
        """Counts the answer to a question of a set."""
        found = set(answer.ids[:COUNT])
        right = len(found & {str(e) for e in evidence})
        self.recall.setdefault(name, []).append(right / len(evidence))
        if found:
            self.precision.append(right / len(found))
        self.seconds.append(answer.seconds)

    def add_foreign(self, answer: Answer) -> None:
        """Counts the answer to a question that nothing there answers."""
        self.silent.append(float(not answer.ids))

    def figures(self) -> dict[str, float]:
        """Means, and percentiles of the times but for the first tenth, which pays for plans and cold pages."""
        times = percentiles(self.seconds[len(self.seconds) // 10 :])
        return {
            "p50_ms": times["p50_ms"],
            "p99_ms": times["p99_ms"],
            **{f"recall@{COUNT} {name}": round(fmean(values), 4) for name, values in self.recall.items()},
            "precision": round(fmean(self.precision), 4) if self.precision else 0.0,
            "silent": round(fmean(self.silent), 4),
        }
