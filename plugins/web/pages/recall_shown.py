"""The results of the page of recall: bars of the parts of each score, and which rows moved between two settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

from plugins.web.found import link_of

PARTS = ("lexical", "dense", "named", "timed", "session", "prior")
"""The parts of the sum behind relevance."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: its begin and its width, in hundredths of the bar."""

    name: str
    begin: float
    width: float


@dataclass(frozen=True, slots=True)
class Result:
    """A row. `rank`: from 1 among those that fit; None for one that does not. `elsewhere`: its place with the other setting."""

    rank: int | None
    row: Any
    kind: str
    link: str | None
    said_by: str
    """Why `named` counts: the speaker whom the question names, or that it says I or you as the role does."""
    sum: list[Segment]
    score: list[Segment]
    elsewhere: Literal["none", "here", "moved", "left_out", "same"] = "none"
    moved: int = 0
    """By how many ranks the row stands higher (below zero: lower) than with the other setting."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one setting: those that belong to the question, and the nearest of those that do not."""

    results: list[Result]
    left_out: list[Result]


def results_of(question: str, rows: Sequence[Any], parents: Mapping[UUID, UUID], scale: Scale) -> Results:
    results: list[Result] = []
    left_out: list[Result] = []
    for row in rows:
        is_out = row["left_out"] is not None
        made = Result(
            None if is_out else len(results) + 1,
            row,
            _kind(row["source"], json.loads(row["metadata"])),
            link_of(row["source"], row["id"], parents),
            _said_by(question, json.loads(row["metadata"]).get("speaker")),
            sum_of(row, scale),
            score_of(row),
        )
        (left_out if is_out else results).append(made)
    return Results(results, left_out)


@dataclass(frozen=True, slots=True)
class Scale:
    """Of the bars of sums: the most that parts of a row add (never 0), and the most that they take off."""

    most: float
    least: float

    def segment(self, name: str, begin: float, width: float) -> Segment:
        """A part from `begin`, counted from the line between both sides."""
        hundredth = 100 / (self.most + self.least)
        return Segment(name, (self.least + begin) * hundredth, width * hundredth)


def scale_of(rows: Sequence[Any]) -> Scale:
    """The scale that shows all these rows."""
    most = max((sum(max(0.0, row[name]) for name in PARTS) for row in rows), default=1.0) or 1.0
    return Scale(most, max((-sum(min(0.0, row[name]) for name in PARTS) for row in rows), default=0.0))


def sum_of(row: Mapping[str, Any], scale: Scale) -> list[Segment]:
    """The parts that add to a row, one after another, and to the other side those that take off."""
    segments: list[Segment] = []
    added = taken = 0.0
    for name in PARTS:
        if (value := row[name]) > 0:
            segments.append(scale.segment(name, added, value))
            added += value
        elif value < 0:
            taken -= value
            segments.append(scale.segment(name, -taken, -value))
    return segments


def score_of(row: Mapping[str, Any]) -> list[Segment]:
    """The score as a bar to 1: relevance x weight, recency, and the bonus of a link."""
    segments: list[Segment] = []
    at = 0.0
    for name, value in (
        ("relevance", row["relevance"] * row["weight"]),
        ("recency", row["recency"]),
        ("association", row["association"]),
    ):
        width = min(value, 1 - at)
        if width > 0:
            segments.append(Segment(name, 100 * at, 100 * width))
            at += width
    return segments


def compared(one: Results, other: Results) -> tuple[Results, Results]:
    """Both settings, each row with its place in the other one."""
    return _matched(one, other), _matched(other, one)


def _matched(mine: Results, others: Results) -> Results:
    ranks = {(r.row["source"], r.row["id"]): r.rank for r in (*others.results, *others.left_out)}

    def match(result: Result) -> Result:
        key = (result.row["source"], result.row["id"])
        if key not in ranks:
            return replace(result, elsewhere="here")
        there = ranks[key]
        if there is None:
            return replace(result, elsewhere="left_out")
        if result.rank is None or result.rank == there:
            return replace(result, elsewhere="same")
        return replace(result, elsewhere="moved", moved=there - result.rank)

    return replace(mine, results=[match(result) for result in mine.results])


def _said_by(question: str, speaker: object) -> str:
    asked = set(re.findall(r"\w+", question.casefold()))
    named = isinstance(speaker, str) and not asked.isdisjoint(re.findall(r"\w+", speaker.casefold()))
    return f"names {speaker}" if named else "says I or you"


def _kind(source: str, metadata: Mapping[str, Any]) -> str:
    """The label of a row beside its source: a memory's kind, a speaker, a title."""
    if source == "knowledge":
        return f"{metadata.get('category')}: {metadata.get('title')}"
    names = ("kind", "speaker", "role", "title", "category")
    return next((str(metadata[name]) for name in names if metadata.get(name)), "")
