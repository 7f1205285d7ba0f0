"""What a dream writes about a cluster, by rule, and which insight of an earlier dream it continues.

Promise: no model is needed, the category and the confidence follow from the numbers of errors and outcomes (see
`write_insight`), the text is one sentence of at most 400 characters that a person and an agent can act on, and a cluster seen
again finds its insight.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from memory.clustering import Cluster, Dreamable
from memory.text import cut, one_line

Category = Literal["pattern", "recommendation", "summary", "correction"]

TEXT_LENGTH = 400
CORE_KEYWORDS = 5
CORE_PART = 0.2
MAX_CONFIDENCE = 0.9
SUMMARY_FROM = 4
SUMMARY_CONFIDENCE = 0.5
TOPIC_WORDS = 2
# The share of a cluster that has two of its words, up to which these say nothing of it.
LOOSE = 0.5
# A later success on something else is no cure.
CURE_KEYWORDS = 2
SHARED_AGENT = "_shared"
# The share of the smaller set of source memories that makes two clusters the same one.
SAME_CLUSTER = 0.5

_HEAD = 110
_DETAIL = 110
_KEYWORDS = 80
_STATUS = re.compile(r"(?P<task>.*) → (?:completed|failed(?: \(exit -?\d+\))?)", re.DOTALL)
_LETTER = re.compile(r"[^\W\d_]")
# Keywords come in the order of the text: the task's own words first, its output's later.
_HALF_WEIGHT_AT = 8


@dataclass(frozen=True, slots=True)
class Insight:
    """A row of dream_insights to write; `agent_id` is None when it is about several agents.

    `resolved_at`: of failures, when the same succeeded afterwards. `topic`: the keywords that its memories share.
    """

    category: Category
    text: str
    confidence: float
    agent_id: str | None
    user_id: UUID | None
    source_memories: tuple[UUID, ...]
    topic: tuple[str, ...] = ()
    evidence_until: datetime | None = None
    resolved_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class KnownInsight:
    """What is needed of an insight of an earlier dream to know it again, and to hold later memories against it."""

    id: UUID
    category: str
    user_id: UUID | None
    source_memories: frozenset[UUID]
    agent_id: str | None = None
    text: str = ""
    confidence: float = 0.5
    topic: tuple[str, ...] = ()
    judged_until: datetime | None = None
    resolved_at: datetime | None = None
    written_by: str | None = None
    """The language model that wrote it; None: a rule."""
    sources_hash: bytes | None = None


def parts_of(cluster: Cluster) -> list[Cluster]:
    """The cluster, or, where several agents' memories share too little, the memories of each of its agents.

    What two agents do in the same words ("fix tests", "update docs") is rarely about the same thing.
    """
    agents = dict.fromkeys(memory.agent_id for memory in cluster.memories)
    if (
        len(agents) == 1
        or SHARED_AGENT in agents
        or cohesion(cluster.memories, core_keywords(cluster)) > LOOSE
    ):
        return [cluster]
    parts = (tuple(m for m in cluster.memories if m.agent_id == agent) for agent in agents)
    return [replace(cluster, memories=part) for part in parts if len(part) > 1]


def cohesion(memories: Sequence[Dreamable], keywords: Sequence[str]) -> float:
    """The share of the memories that have two of the keywords; 1.0 without keywords: then the embeddings said so."""
    topic = set(keywords)
    if not topic:
        return 1.0
    enough = sum(
        len(topic.intersection(memory.keywords)) >= max(1, min(TOPIC_WORDS, len(memory.keywords)))
        for memory in memories
    )
    return enough / len(memories)


def write_insight(cluster: Cluster) -> Insight | None:
    """The insight that the rules find in a cluster, or None when it is too small to say anything.

    Errors > outcomes and errors >= 2: correction, confidence 0.4 + 0.1 x errors. Outcomes >= 3: pattern, 0.4
    + 0.1 x outcomes. Four memories and more: summary, 0.5. No confidence is above 0.9. Where nothing failed, most of the
    memories must share two telling keywords, or the insight would only count them; the confidence is multiplied by their share.
    """
    errors = [memory for memory in cluster.memories if memory.kind == "error"]
    outcomes = [memory for memory in cluster.memories if memory.kind == "outcome"]
    keywords = core_keywords(cluster)
    together = 1.0 if errors else cohesion(cluster.memories, keywords)
    if together <= LOOSE or (not errors and keywords and cluster.common.issuperset(keywords)):
        return None
    if len(errors) > len(outcomes) and len(errors) >= 2:
        cure = _cure(errors[-1], outcomes, cluster.common)
        text = _correction(errors, cure, keywords)
        insight = _insight(cluster, "correction", _confidence(len(errors)), text, keywords)
        return insight if cure is None else replace(insight, resolved_at=cure.created_at)
    if len(outcomes) >= 3:
        text = _pattern(errors, outcomes, keywords)
        return _insight(cluster, "pattern", round(_confidence(len(outcomes)) * together, 2), text, keywords)
    if len(cluster.memories) >= SUMMARY_FROM:
        text = _summary(cluster.memories, keywords)
        return _insight(cluster, "summary", round(SUMMARY_CONFIDENCE * together, 2), text, keywords)
    return None


def core_keywords(cluster: Cluster, maximum: int = CORE_KEYWORDS) -> list[str]:
    """The keywords that most of the cluster's memories share, at most `maximum`, the most telling first.

    Bare numbers and keywords that fewer than two memories or a fifth of them share never count; those common
    to all that the agent does only when there are no others.
    """
    holders = Counter(word for memory in cluster.memories for word in set(memory.keywords))
    weights: defaultdict[str, float] = defaultdict(float)
    for memory in cluster.memories:
        for position, word in enumerate(memory.keywords):
            weights[word] += 1 / (1 + position / _HALF_WEIGHT_AT)
    enough = max(2, len(cluster.memories) * CORE_PART)
    shared = [word for word, count in holders.items() if count >= enough and _LETTER.search(word)]
    shared.sort(key=lambda word: (-weights[word], word))
    telling = [word for word in shared if word not in cluster.common]
    return (telling or shared)[:maximum]


def _confidence(evidence: int) -> float:
    return round(min(MAX_CONFIDENCE, 0.4 + 0.1 * evidence), 2)


# --- the sentences


def _insight(
    cluster: Cluster, category: Category, confidence: float, text: str, keywords: Sequence[str]
) -> Insight:
    agents = {memory.agent_id for memory in cluster.memories} - {SHARED_AGENT}
    return Insight(
        category=category,
        text=cut(text, TEXT_LENGTH),
        confidence=confidence,
        agent_id=agents.pop() if len(agents) == 1 else None,
        user_id=cluster.user_id,
        source_memories=tuple(memory.id for memory in cluster.memories),
        topic=tuple(keywords),
        evidence_until=max(memory.created_at for memory in cluster.memories),
    )


def _correction(errors: Sequence[Dreamable], cure: Dreamable | None, keywords: Sequence[str]) -> str:
    text = f"{len(errors)} failures{_about('around', keywords)} (latest: {_failure(errors[-1])})"
    return text if cure is None else f"{text}; afterwards worked: {task_of(cure)}"


def _cure(latest: Dreamable, outcomes: Sequence[Dreamable], common: frozenset[str]) -> Dreamable | None:
    """The first success after the latest failure of those that share most with it; None where none shares enough."""
    telling = set(latest.keywords) - common
    later = [memory for memory in outcomes if memory.created_at > latest.created_at]
    # max keeps the earliest of equals.
    cure = max(later, key=lambda memory: len(telling.intersection(memory.keywords)), default=None)
    if cure is None or len(telling.intersection(cure.keywords)) < CURE_KEYWORDS:
        return None
    return cure


def _pattern(errors: Sequence[Dreamable], outcomes: Sequence[Dreamable], keywords: Sequence[str]) -> str:
    failed = f", {len(errors)} failed" if errors else ""
    about = _about("about", keywords)
    return f"{len(outcomes)} tasks{about} succeeded{failed}; {_examples(outcomes, keywords)}"


def _summary(memories: Sequence[Dreamable], keywords: Sequence[str]) -> str:
    kinds = Counter(memory.kind for memory in memories)
    counted = ", ".join(
        _number(count, kind) for kind, count in sorted(kinds.items(), key=lambda kind: (-kind[1], kind))
    )
    return f"{len(memories)} memories{_about('about', keywords)} ({counted}); {_examples(memories, keywords)}"


def _about(word: str, keywords: Sequence[str]) -> str:
    return f" {word} {cut(', '.join(keywords), _KEYWORDS)}" if keywords else " alike"


def _number(count: int, kind: str) -> str:
    return f"{count} {kind}" if count == 1 else f"{count} {kind}s"


def _examples(memories: Sequence[Dreamable], keywords: Sequence[str]) -> str:
    """The most central memory (with most of the core keywords, then the newest) and the newest one."""
    core = set(keywords)
    central = max(reversed(memories), key=lambda memory: len(core.intersection(memory.keywords)))
    typical, latest = task_of(central), task_of(memories[-1])
    return f"typically: {typical}" if typical == latest else f"typically: {typical}; latest: {latest}"


def task_of(memory: Dreamable) -> str:
    """What a memory is about, in a phrase: its first line, of an outcome summary only the task."""
    head = memory.content.lstrip().partition("\n")[0]
    if found := _STATUS.fullmatch(head.rstrip()):
        head = found["task"].removeprefix("Task: ")
    return one_line(head, _HEAD)


def _failure(memory: Dreamable) -> str:
    """The task of an error memory with the line that says why: the last one."""
    below_task = memory.content.strip().partition("\n")[2]
    why = one_line(below_task.rpartition("\n")[2].removeprefix("Error: "), _DETAIL)
    task = task_of(memory)
    return f"{task}: {why}" if why else task


# --- insights known from earlier dreams


class KnownInsights:
    """The insights of earlier dreams, each to be continued by at most one insight of this dream.

    An insight is continued when at least half of the smaller set of source memories is shared, for the same
    user. The category may have changed (failures that were mended become a pattern), and so may the agent (a
    second one joined), so an update of the row writes both; but a recommendation continues only a
    recommendation, since it stands beside the rules' insight about the same cluster.
    """

    def __init__(self, known: Iterable[KnownInsight]) -> None:
        self._known = {insight.id: insight for insight in known}
        self._continued: dict[UUID, KnownInsight] = {}
        self._by_source: defaultdict[UUID, list[UUID]] = defaultdict(list)
        for insight in self._known.values():
            for source in insight.source_memories:
                self._by_source[source].append(insight.id)

    def find(self, insight: Insight) -> UUID | None:
        """The id of the known insight that this one continues, and take it off the list; None when it is new.

        The largest shared part wins, then the largest number, then the same category, then the smallest id.
        The cost grows with the insight's sources, not with what is known.
        """
        sources = set(insight.source_memories)
        shared = Counter(known for source in sources for known in self._by_source.get(source, ()))
        best: tuple[float, int, bool, int] | None = None
        for known_id, count in shared.items():
            known = self._known.get(known_id)
            if known is None or not _may_continue(insight, known):
                continue
            part = count / min(len(sources), len(known.source_memories))
            if part >= SAME_CLUSTER:
                rank = (part, count, known.category == insight.category, -known_id.int)
                best = rank if best is None else max(best, rank)
        if best is None:
            return None
        found = UUID(int=-best[3])
        self._continued[found] = self._known.pop(found)
        return found

    def continued(self, insight_id: UUID) -> KnownInsight:
        """One that was found."""
        return self._continued[insight_id]

    def left(self) -> list[KnownInsight]:
        """Those that nothing has continued so far."""
        return list(self._known.values())


def _may_continue(insight: Insight, known: KnownInsight) -> bool:
    return insight.user_id == known.user_id and (
        (insight.category == "recommendation") == (known.category == "recommendation")
    )
