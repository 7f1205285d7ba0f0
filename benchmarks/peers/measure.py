"""The arithmetic of the comparison: bodies of text as rows for any system, and what its answers are worth."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from statistics import fmean
from typing import Any

from benchmarks.harness import percentiles
from benchmarks.search.bodies import Body, make_body

COUNT = 10
"""Results that are asked for."""
BATCH = 100
"""Rows of one write."""
SESSION = 20
"""Messages of a session that is made up."""


@dataclass(frozen=True, slots=True)
class Text:
    """A row, for any system."""

    id: str
    user: str
    text: str
    """What peers get."""
    time: str | None
    memory: bool
    row: Sequence[object]
    """What memoryd gets."""


def pad(bodies: Sequence[dict[str, Any]], rows: int) -> Iterator[dict[str, Any]]:
    """The bodies of a file, each with texts of the others as further sessions of its user, until it has so many rows."""
    for body in bodies:
        others = [one for one in bodies if one is not body] or bodies
        texts = cycle([turn["text"] for one in others for turn in one["turns"]])
        memory = body["turns"][0]["session"] is None
        more = [
            {
                "id": f"more {n}",
                "session": None if memory else f"more {n // SESSION}",
                "speaker": None if memory else ("Ada", "Ben")[n % 2],
                "time": None,
                "text": next(texts),
            }
            for n in range(rows - len(body["turns"]))
        ]
        yield body | {"turns": body["turns"] + more}


def make_texts(found: dict[str, Any], *, names: bool = True) -> tuple[Body, list[list[Text]]]:
    """A body of a file, and its rows in batches.

    `names`: peers get the speaker's name before what is said in a conversation. memoryd has a column for it.
    """
    body, columns = make_body(found)
    rows = list(zip(*columns, strict=True))
    texts = []
    for turn, (row_id, text), row in zip(found["turns"], body.texts.items(), rows, strict=True):
        memory = turn["session"] is None
        said = text if memory or not names else f"{turn['speaker']}: {text}"
        texts.append(Text(str(row_id), str(body.user), said, turn["time"] or None, memory, row))
    return body, [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came for a question."""

    ids: Sequence[str]
    seconds: float


async def timed(work: Awaitable[Sequence[Any]]) -> Answer:
    """The ids of the rows that come, and how long it took."""
    began = time.perf_counter()
    rows = await work
    return Answer([str(r["id"]) for r in rows], time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class System:
    """One that is measured."""

    write: Callable[[Sequence[Text]], Awaitable[object]]
    settle: Callable[[], Awaitable[object]]
    """Returns when all that was written can be found."""
    ways: Mapping[str, Callable[[str, uuid.UUID], Awaitable[Answer]]]
    """To ask it, by name."""
    pid: int | None
    """Of its process; with its children that is what it keeps in memory."""


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
