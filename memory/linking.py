"""Which earlier memories a new memory belongs to, how strongly, and in what way.

Promise: the strength follows from shared keywords and time (see `link`), at most five links a memory, never to itself, the same
links for the same input whatever its order. A near neighbour by embedding counts as overlap too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

AssociationType = Literal["causal", "similar", "sequential", "related"]

WINDOW = 30
RELATED = 0.5
"""Calibrated similarity below which two texts have nothing to do with each other."""
MAX_LINKS = 5
MIN_STRENGTH = 0.15
SIMILAR_OVERLAP = 0.5
SEQUENTIAL_WITHIN = timedelta(hours=1)
SEQUENTIAL_BONUS = 0.2
NEAR_WITHIN = timedelta(hours=6)
NEAR_BONUS = 0.1
CAUSAL_KEYWORDS = 2


@dataclass(frozen=True, slots=True)
class Linkable:
    """What linking needs to know of a memory; `keywords` are the database's, `created_at` is aware."""

    id: UUID
    kind: str
    agent_id: str
    keywords: frozenset[str]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Link:
    """One association to write: from the new memory to the one it relates to, strength 0.15 to 1."""

    memory_id: UUID
    related_memory_id: UUID
    association_type: AssociationType
    strength: float


_NO_NEIGHBOURS: Mapping[UUID, float] = {}


def link(
    memory: Linkable,
    earlier: Iterable[Linkable],
    *,
    related: float,
    neighbours: Mapping[UUID, float] = _NO_NEIGHBOURS,
) -> list[Link]:
    """The strongest links of one memory, the strongest first, then the newer related memory, then its id.

    `earlier` are the candidates, each compared once: the last 30 of the agent and `_shared`, and those that
    embedding search found. `neighbours` gives the calibrated similarity (-1 to 1) of the latter by id; below
    `related` two texts have nothing to do with each other.

    strength = overlap + 0.2 under 1 h apart, + 0.1 under 6 h; capped at 1, dropped under 0.15, so two memories of the same hour
    are linked by time only. overlap = shared / max(|a|, |b|) keywords or, when larger, (similarity - related) / (1 - related).

    `causal`: a success follows a failure of the same agent within 6 h on the same keywords: two at least, and more than half of
    the smaller set (an error's text is longer than the success's, so the larger set would hide it). Otherwise `similar` above
    an overlap of one half, else `sequential` within the hour, else `related`.
    """
    found: list[tuple[float, float, int, float, int, Linkable]] = []
    seen = {memory.id}
    keywords, born, many = memory.keywords, memory.created_at, len(memory.keywords)
    for other in earlier:
        if other.id in seen:
            continue
        seen.add(other.id)
        shared = 0 if keywords.isdisjoint(other.keywords) else len(keywords & other.keywords)
        overlap = shared / max(many, len(other.keywords)) if shared else 0.0
        if neighbours and (near := neighbours.get(other.id, 0.0)) > related:
            overlap = max(overlap, (near - related) / (1 - related))
        apart = abs(born - other.created_at)
        bonus = SEQUENTIAL_BONUS if apart < SEQUENTIAL_WITHIN else NEAR_BONUS if apart < NEAR_WITHIN else 0.0
        strength = min(1.0, overlap + bonus)
        if strength >= MIN_STRENGTH:
            found.append((-strength, -other.created_at.timestamp(), other.id.int, overlap, shared, other))
    found.sort()
    return [
        Link(memory.id, other.id, _kind(memory, other, overlap, shared), -weakness)
        for weakness, _, _, overlap, shared, other in found[:MAX_LINKS]
    ]


def link_batch(
    new: Collection[Linkable],
    earlier: Iterable[Linkable],
    *,
    neighbours: Mapping[UUID, Mapping[UUID, float]],
    related: float,
    window: int = WINDOW,
) -> list[Link]:
    """The links of many new memories of one lane, by memory in order of creation.

    Each new memory is compared with the `window` newest before its own (created_at, id) among `earlier` and `new` together, and
    with those before it that its entry in `neighbours` (new id -> earlier id -> similarity) names. `earlier` may come in any
    order, be any number, and include the new ones; unknown neighbours are skipped.
    """
    by_id = {memory.id: memory for memory in (*earlier, *new)}
    ordered = sorted(by_id.values(), key=_order)
    orders = [_order(memory) for memory in ordered]
    links: list[Link] = []
    for memory in sorted({memory.id: memory for memory in new}.values(), key=_order):
        own_order = _order(memory)
        here = bisect_left(orders, own_order)
        candidates: Sequence[Linkable] = ordered[max(here - window, 0) : here]
        near = neighbours.get(memory.id, _NO_NEIGHBOURS)
        if near:
            named = (by_id[other] for other in near if other in by_id)
            candidates = [*candidates, *(other for other in named if _order(other) < own_order)]
        links.extend(link(memory, candidates, related=related, neighbours=near))
    return links


def _order(memory: Linkable) -> tuple[datetime, int]:
    return memory.created_at, memory.id.int


def _kind(memory: Linkable, other: Linkable, overlap: float, shared: int) -> AssociationType:
    apart = abs(memory.created_at - other.created_at)
    if apart < NEAR_WITHIN and shared >= CAUSAL_KEYWORDS and _recovers(memory, other, shared):
        return "causal"
    if overlap > SIMILAR_OVERLAP:
        return "similar"
    return "sequential" if apart < SEQUENTIAL_WITHIN else "related"


def _recovers(memory: Linkable, other: Linkable, shared: int) -> bool:
    """Whether the memory is the success after the other's failure, on the keywords they share."""
    return (
        memory.kind == "outcome"
        and other.kind == "error"
        and memory.agent_id == other.agent_id
        and other.created_at < memory.created_at
        and shared > min(len(memory.keywords), len(other.keywords)) / 2
    )
