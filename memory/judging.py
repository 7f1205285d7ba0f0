"""What happened after an insight was drawn speaks for it or against it.

Promise: only memories that are newer than what was judged before count, each once; only those of the insight's user, and of its
agent where it has one; and only those that share most of its topic, so a success on something else changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memory.clustering import Dreamable
from memory.insights import MAX_CONFIDENCE, SHARED_AGENT, TEXT_LENGTH, KnownInsight, task_of
from memory.text import cut

STEP = 0.1
"""What each later memory adds to the confidence, or takes from it."""
MIN_CONFIDENCE = 0.1
MIN_SHARED = 2
MAX_HOLDERS = 500
"""Memories that one keyword leads to, the newest: what is in more of them tells little."""

_SINCE = "; since then "
_SPEAKS_AGAINST = {"correction": "outcome", "pattern": "error"}
_SPEAKS_FOR = {"correction": "error", "pattern": "outcome"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an insight. `text` is None where it stays: a model's words are not changed by a rule."""

    id: UUID
    confidence: float
    resolved_at: datetime | None
    judged_until: datetime
    text: str | None


def judge(known: Iterable[KnownInsight], memories: Sequence[Dreamable]) -> list[Verdict]:
    """The insights of earlier dreams that these memories, in order of creation, speak for or against."""
    judged = [one for one in known if one.category in _SPEAKS_AGAINST and len(one.topic) >= MIN_SHARED]
    holders = _holders({word for one in judged for word in one.topic}, memories)
    verdicts = (_verdict(one, _about(one, holders, memories)) for one in judged)
    return [verdict for verdict in verdicts if verdict is not None]


def _holders(words: set[str], memories: Sequence[Dreamable]) -> dict[str, list[int]]:
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for index, memory in enumerate(memories):
        if memory.kind in ("outcome", "error"):
            for word in words.intersection(memory.keywords):
                holders[word].append(index)
    return {word: found[-MAX_HOLDERS:] for word, found in holders.items()}


def _about(
    known: KnownInsight, holders: dict[str, list[int]], memories: Sequence[Dreamable]
) -> list[Dreamable]:
    """The memories that are about the same as the insight and newer than what was judged, in order."""
    shared = Counter(index for word in known.topic for index in holders.get(word, ()))
    enough = max(MIN_SHARED, (len(known.topic) + 1) // 2)
    found = (memories[index] for index, count in sorted(shared.items()) if count >= enough)
    return [
        memory
        for memory in found
        if memory.user_id == known.user_id
        and (known.agent_id is None or memory.agent_id in (known.agent_id, SHARED_AGENT))
        and (known.judged_until is None or memory.created_at > known.judged_until)
        and memory.id not in known.source_memories
    ]


def _verdict(known: KnownInsight, later: Sequence[Dreamable]) -> Verdict | None:
    if not later:
        return None
    kinds = Counter(memory.kind for memory in later)
    change = kinds[_SPEAKS_FOR[known.category]] - kinds[_SPEAKS_AGAINST[known.category]]
    confidence = round(min(MAX_CONFIDENCE, max(MIN_CONFIDENCE, known.confidence + STEP * change)), 2)
    resolved_at, text = known.resolved_at, known.text
    if known.category == "correction":
        for memory in later:
            if memory.kind == "error":
                resolved_at, text = None, _since(text, "failed again", memory)
            elif resolved_at is None:
                resolved_at, text = memory.created_at, _since(text, "worked", memory)
    return Verdict(
        known.id,
        confidence,
        resolved_at,
        later[-1].created_at,
        text if known.written_by is None and text != known.text else None,
    )


def _since(text: str, what: str, memory: Dreamable) -> str:
    base = text.partition(_SINCE)[0]
    end = f"{_SINCE}{what}: {task_of(memory)}"
    return cut(base, TEXT_LENGTH - len(end)) + end
