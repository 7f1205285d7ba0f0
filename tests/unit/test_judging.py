"""What happened after an insight was drawn: which memories count, and what they do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from memory.clustering import Dreamable
from memory.insights import TEXT_LENGTH, KnownInsight
from memory.judging import judge

MIDNIGHT = datetime(2026, 5, 6, tzinfo=UTC)
ANNA = UUID(int=1 << 100)
TOPIC = ("restore", "tape", "backup", "checksum")


def memory(
    minute: int,
    kind: str = "outcome",
    *,
    keywords: str = "restore tape",
    agent_id: str = "sysop",
    user_id: UUID | None = None,
) -> Dreamable:
    content = f"Task: restore {minute} → completed"
    at = MIDNIGHT + timedelta(minutes=minute)
    return Dreamable(UUID(int=minute), agent_id, user_id, kind, content, tuple(keywords.split()), at)


def known(category: str = "correction", **values: object) -> KnownInsight:
    base: dict[str, object] = {
        "id": UUID(int=99), "category": category, "user_id": None, "source_memories": frozenset([UUID(int=5)]),
        "agent_id": "sysop", "text": "3 failures", "confidence": 0.7, "topic": TOPIC, "judged_until": MIDNIGHT,
    }  # fmt: skip
    return KnownInsight(**(base | values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "irrelevant",
    [
        memory(0), memory(5), memory(1, "note"), memory(1, keywords="restore lunch"), memory(1, keywords="tape"),
        memory(1, agent_id="baker"), memory(1, user_id=ANNA),
    ],
)  # fmt: skip
def test_only_later_memories_of_the_same_user_and_agent_on_the_same_topic_count(
    irrelevant: Dreamable,
) -> None:
    """Not what was judged before, nor a source, nor a note, nor another topic's."""
    assert judge([known()], [irrelevant]) == []
    assert len(judge([known()], [irrelevant, memory(7)])) == 1
    assert judge([known("summary"), known(topic=("restore",)), known(topic=())], [memory(7)]) == []


def test_successes_resolve_a_correction_and_failures_open_it_again() -> None:
    [verdict] = judge([known()], [memory(1), memory(2, agent_id="_shared")])
    assert (verdict.confidence, verdict.resolved_at) == (0.5, MIDNIGHT + timedelta(minutes=1))
    assert (verdict.judged_until, verdict.text) == (
        MIDNIGHT + timedelta(minutes=2),
        "3 failures; since then worked: restore 1",
    )
    opened = known(text=verdict.text, resolved_at=verdict.resolved_at)
    [verdict] = judge([opened], [memory(3, "error")])
    assert (verdict.confidence, verdict.resolved_at) == (0.8, None)
    assert verdict.text == "3 failures; since then failed again: restore 3"


def test_confidence_has_limits_and_a_models_words_and_a_long_text_stay_whole() -> None:
    [down] = judge([known("pattern")], [memory(n, "error") for n in range(10, 30)])
    [up] = judge([known("pattern")], [memory(n) for n in range(10, 30)])
    assert (down.confidence, up.confidence, down.resolved_at) == (0.1, 0.9, None)
    [by_model] = judge([known(written_by="openai/any")], [memory(1)])
    assert by_model.text is None
    assert by_model.resolved_at is not None
    [long] = judge([known(text="x" * TEXT_LENGTH)], [memory(1)])
    assert long.text is not None
    assert len(long.text) <= TEXT_LENGTH
    assert long.text.endswith("since then worked: restore 1")
