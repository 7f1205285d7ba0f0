"""What a dream finds belongs together among the memories of the last days.

Promise: clusters never mix users, never chain (every member is compared with the cluster's first memory, its
seed, not with its other members), come out the same for the same memories in any order, and cost bounded
work a memory, so that 100,000 memories cluster in seconds.

Greedy, in order of creation: a memory joins the seed that it matches best, or becomes a seed. Two memories
match when they share two keywords, or over 40 percent of the smaller set. Also:

- Keywords that most memories have say nothing ("tests", "files", "changed"): see `_common_weights`.
- Nearly the same words match whatever their weight: more than half of the larger set, as a `similar`
  association.
- A memory that no keyword placed is compared by embedding, with the same seeds.
- Candidates are the latest seeds of each keyword, so a seed that is long past may be missed in a large fleet.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

SAME_TOPIC = 0.75
"""Calibrated similarity from which on two texts are about the same thing. High, because the frame that outcome summaries share
makes unrelated ones alike to small static embeddings."""
SHARED_KEYWORDS = 2.0
SHARED_PART = 0.4
NEAR_COPY_PART = 0.5
COMMON_PART = 0.2
COMMON_FROM = 50  # memories; in fewer, a common keyword is what they are about

CANDIDATES_PER_KEYWORD = 64
COMPARED = 12
EMBEDDED_SEEDS = 4_096
BLOCK = 512
STOP_EVERY = 256

Vectors: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Dreamable:
    """What a dream needs of a memory: `keywords` are the database's, in order, `created_at` is aware."""

    id: UUID
    agent_id: str
    user_id: UUID | None
    kind: str
    content: str
    keywords: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """Two or more memories of one user (None: of the agents) in order of creation.

    `common` are the keywords that the seed's agent or user uses everywhere: they do not tell what the cluster is about.
    """

    user_id: UUID | None
    memories: tuple[Dreamable, ...]
    common: frozenset[str]


class ClusteringStoppedError(Exception):
    """The caller's `should_stop` said so; nothing half-made is returned."""


def cluster(
    memories: Sequence[Dreamable],
    embeddings: Vectors | None = None,
    *,
    same_topic: float,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Cluster]:
    """The clusters of two and more memories, the largest first, then the oldest.

    `embeddings` has shape (len(memories), dimensions), one row a memory, of any length; a row of zeros or NaN
    stands for a memory without one. `same_topic` is the cosine from which two
    texts are about the same thing. `should_stop` is asked every few milliseconds of work. Raises
    ClusteringStoppedError when it says yes, ValueError when the embeddings are not one row a memory.
    """
    if embeddings is not None and (embeddings.ndim != 2 or len(embeddings) != len(memories)):
        raise ValueError(
            f"embeddings must have one row for each of the {len(memories)} memories, got {embeddings.shape}"
        )
    scopes: defaultdict[UUID | None, list[int]] = defaultdict(list)
    for row, memory in enumerate(memories):
        scopes[memory.user_id].append(row)
    found: list[Cluster] = []
    for user_id, rows in scopes.items():
        rows.sort(key=lambda row: _order(memories[row]))
        leaders = _Leaders([memories[row] for row in rows])
        groups = leaders.gather(should_stop)
        if embeddings is not None:
            groups = _join_by_embedding(groups, embeddings, rows, same_topic, should_stop)
        for group in groups:
            if len(group) > 1:
                members = tuple(memories[rows[index]] for index in sorted(group))
                found.append(Cluster(user_id, members, leaders.common_to(group[0])))
    found.sort(key=lambda one: (-len(one.memories), _order(one.memories[0])))
    return found


def _order(memory: Dreamable) -> tuple[datetime, int]:
    return memory.created_at, memory.id.int


def _pause(should_stop: Callable[[], bool]) -> None:
    if should_stop():
        raise ClusteringStoppedError


# --- by keywords


class _Leaders:
    """Greedy leader clustering of one user's memories, given in order of creation."""

    def __init__(self, memories: Sequence[Dreamable]) -> None:
        self._memories = memories
        self._counts = Counter(chain.from_iterable(memory.keywords for memory in memories))
        self._weights = _weights_by_agent(memories, self._counts)
        self._seeds: dict[int, frozenset[str]] = {}
        self._seeds_of: dict[str, list[int]] = {}

    def gather(self, should_stop: Callable[[], bool]) -> list[list[int]]:
        """Groups of indexes in order, each beginning with its seed; every memory is in exactly one."""
        groups: dict[int, list[int]] = {}
        for index, memory in enumerate(self._memories):
            if index % STOP_EVERY == 0:
                _pause(should_stop)
            keywords = frozenset(memory.keywords)
            seed = self._best_seed(index, keywords)
            if seed is None:
                groups[index] = [index]
                self._plant(index, keywords)
            else:
                groups[seed].append(index)
        return list(groups.values())

    def common_to(self, index: int) -> frozenset[str]:
        return self._weights[self._memories[index].agent_id].common

    def _plant(self, index: int, keywords: frozenset[str]) -> None:
        self._seeds[index] = keywords
        for keyword in keywords:
            if self._counts[keyword] > 1:  # else no other memory has it
                holders = self._seeds_of.setdefault(keyword, [])
                holders.append(index)
                if len(holders) >= 2 * CANDIDATES_PER_KEYWORD:
                    del holders[:CANDIDATES_PER_KEYWORD]

    def _best_seed(self, index: int, keywords: frozenset[str]) -> int | None:
        """The seed that shares most by weight, then by number, then the earliest; telling words go first."""
        common = self.common_to(index)
        best = self._best_holder(index, keywords, keywords - common)
        return self._best_holder(index, keywords, keywords & common) if best is None else best

    def _best_holder(self, index: int, keywords: frozenset[str], looked_up: frozenset[str]) -> int | None:
        holders = (self._seeds_of.get(word, ())[-CANDIDATES_PER_KEYWORD:] for word in looked_up)
        counts = Counter(chain.from_iterable(holders))
        best: tuple[float, int, int] | None = None
        for seed, _ in sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))[:COMPARED]:
            theirs = self._seeds[seed]
            shared = keywords & theirs
            weight = self._weight_of(shared, index, seed)
            if _match(weight, len(shared), len(keywords), len(theirs)):
                rank = (weight, len(shared), -seed)
                best = rank if best is None else max(best, rank)
        return None if best is None else -best[2]

    def _weight_of(self, shared: frozenset[str], one: int, other: int) -> float:
        """What the shared keywords weigh together: each the lesser of its weights for the two agents."""
        ours = self._weights[self._memories[one].agent_id].by_keyword
        theirs = self._weights[self._memories[other].agent_id].by_keyword
        # Exact, because a set's order changes with the process, and with it a plain sum's last digit.
        return math.fsum(min(ours.get(word, 1.0), theirs.get(word, 1.0)) for word in shared)


def _match(weight: float, shared: int, size: int, other_size: int) -> bool:
    return (
        weight >= SHARED_KEYWORDS
        or weight > SHARED_PART * min(size, other_size)
        or shared > NEAR_COPY_PART * max(size, other_size)
    )


@dataclass(frozen=True, slots=True)
class _Weights:
    """What the common keywords weigh; any other weighs 1."""

    by_keyword: Mapping[str, float]
    common: frozenset[str]


def _weights_by_agent(memories: Sequence[Dreamable], counts: Counter[str]) -> dict[str, _Weights]:
    """For each agent, the lesser of what a keyword weighs among all the user's memories and among its own.

    Every agent has words of its own in all that it does (its language's file endings, its repository's name),
    which are rare in the fleet and yet say nothing about one of its tasks.
    """
    everyone = _common_weights(counts, len(memories))
    by_agent: defaultdict[str, list[Dreamable]] = defaultdict(list)
    for memory in memories:
        by_agent[memory.agent_id].append(memory)
    weights: dict[str, _Weights] = {}
    for agent_id, own in by_agent.items():
        own_counts = Counter(chain.from_iterable(memory.keywords for memory in own))
        merged = dict(everyone)
        for keyword, weight in _common_weights(own_counts, len(own)).items():
            merged[keyword] = min(weight, merged.get(keyword, 1.0))
        weights[agent_id] = _Weights(merged, frozenset(merged))
    return weights


def _common_weights(counts: Counter[str], total: int) -> dict[str, float]:
    """What keywords weigh that more than a fifth of 50 and more memories have: (ln part / ln 0.2) squared.

    A word whose plural is common is common too.

    A fifth weighs 1, a quarter 0.74, a third 0.47, half 0.19, all 0: a fleet busy with four things still has
    four clusters, and words of every other memory cannot make one of everything.
    """
    if total < COMMON_FROM:
        return {}
    floor = COMMON_PART * total
    weights = {
        keyword: (math.log(count / total) / math.log(COMMON_PART)) ** 2
        for keyword, count in counts.items()
        if count > floor
    }
    # "1 insertion" says as little as "2 insertions".
    for keyword in [one[:-1] for one in weights if one.endswith("s")]:
        if keyword in counts:
            weights.setdefault(keyword, weights[keyword + "s"])
    return weights


# --- by embedding


def _join_by_embedding(
    groups: list[list[int]],
    embeddings: Vectors,
    rows: Sequence[int],
    same_topic: float,
    should_stop: Callable[[], bool],
) -> list[list[int]]:
    """The groups after each lone memory joined the seed nearest to it, if one is near enough.

    First the seeds of groups, the latest 4,096 of them; then, in order of creation, the lone ones before it.
    """
    lone = [group for group in groups if len(group) == 1]
    joined = [group for group in groups if len(group) > 1]
    seeds, seed_vectors = _with_vectors(joined[-EMBEDDED_SEEDS:], embeddings, rows)
    leaders: list[list[int]] = []
    leader_vectors = np.empty((0, embeddings.shape[1]), np.float32)
    for start in range(0, len(lone), BLOCK):
        _pause(should_stop)
        block, vectors = _with_vectors(lone[start : start + BLOCK], embeddings, rows)
        block, vectors = _join(block, vectors, seeds, seed_vectors, same_topic)
        block, vectors = _join(block, vectors, leaders, leader_vectors, same_topic)
        cosines = vectors @ vectors.T
        barred = np.full(len(block), -np.inf, np.float32)
        planted: list[int] = []
        for position, group in enumerate(block):
            to_planted = cosines[position] + barred
            nearest = int(to_planted.argmax())
            if to_planted[nearest] >= same_topic:
                block[nearest].extend(group)
            else:
                planted.append(position)
                barred[position] = 0
        joined.extend(block[position] for position in planted)
        leaders = [*leaders, *(block[position] for position in planted)][-EMBEDDED_SEEDS:]
        leader_vectors = np.concatenate([leader_vectors, vectors[planted]])[-EMBEDDED_SEEDS:]
    return joined


def _with_vectors(
    groups: Sequence[list[int]], embeddings: Vectors, rows: Sequence[int]
) -> tuple[list[list[int]], NDArray[np.float32]]:
    """The groups whose seed has an embedding, and these at length 1, shape (groups, dimensions)."""
    vectors = np.asarray(embeddings[[rows[group[0]] for group in groups]], np.float32)
    lengths = np.linalg.norm(vectors, axis=1)
    has = np.flatnonzero(lengths > 0)  # NaN is not
    return [groups[position] for position in has.tolist()], vectors[has] / lengths[has, None]


def _join(
    groups: list[list[int]],
    vectors: NDArray[np.float32],
    seeds: Sequence[list[int]],
    seed_vectors: NDArray[np.float32],
    same_topic: float,
) -> tuple[list[list[int]], NDArray[np.float32]]:
    """Extend the seeds' groups by these groups where near enough; return what is left over."""
    if not groups or not seeds:
        return groups, vectors
    cosines = vectors @ seed_vectors.T
    nearest = cosines.argmax(axis=1)
    near = cosines[np.arange(len(groups)), nearest] >= same_topic
    for position in np.flatnonzero(near).tolist():
        seeds[int(nearest[position])].extend(groups[position])
    left = np.flatnonzero(~near)
    return [groups[position] for position in left.tolist()], vectors[left]
