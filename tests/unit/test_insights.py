"""What a dream writes about a cluster: category, confidence, a useful sentence, what it continues."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory.clustering import Cluster, Dreamable
from memory.insights import Insight, KnownInsight, KnownInsights, core_keywords, parts_of, write_insight

MIDNIGHT = datetime(2026, 5, 6, tzinfo=UTC)
ANNA = UUID(int=1 << 100)


def memory(
    number: int,
    kind: str = "outcome",
    content: str = "Task: deploy staging → completed",
    *,
    keywords: str = "deploy staging",
    agent_id: str = "builder",
) -> Dreamable:
    """The number is the memory's id and its minute."""
    words = tuple(keywords.split())
    return Dreamable(
        UUID(int=number), agent_id, None, kind, content, words, MIDNIGHT + timedelta(minutes=number)
    )


def of(*memories: Dreamable, user_id: UUID | None = None, common: str = "") -> Cluster:
    return Cluster(user_id, memories, frozenset(common.split()))


def of_kinds(kinds: Sequence[str]) -> Cluster:
    return of(*(memory(number, kind) for number, kind in enumerate(kinds, start=1)))


def written(cluster: Cluster) -> Insight:
    insight = write_insight(cluster)
    assert insight is not None
    return insight


# --- category and confidence


@pytest.mark.parametrize(
    ("errors", "outcomes", "others", "category", "confidence"),
    [
        (2, 0, 0, "correction", 0.6),
        (3, 2, 0, "correction", 0.7),
        (5, 4, 0, "correction", 0.9),
        (9, 0, 0, "correction", 0.9),
        (0, 3, 0, "pattern", 0.7),
        (3, 3, 0, "pattern", 0.7),
        (1, 4, 2, "pattern", 0.8),
        (0, 20, 0, "pattern", 0.9),
        (0, 0, 4, "summary", 0.5),
        (2, 2, 0, "summary", 0.5),
        (1, 0, 3, "summary", 0.5),
    ],
)
def test_category_and_confidence_follow_the_rules(
    errors: int, outcomes: int, others: int, category: str, confidence: float
) -> None:
    insight = written(of_kinds(["error"] * errors + ["outcome"] * outcomes + ["note"] * others))
    assert insight.category == category
    assert insight.confidence == confidence


@pytest.mark.parametrize("kinds", [["error", "outcome"], ["outcome", "outcome"], ["note"] * 3, ["error"]])
def test_a_cluster_with_too_little_evidence_gives_no_insight(kinds: list[str]) -> None:
    assert write_insight(of_kinds(kinds)) is None


# --- whose it is


@pytest.mark.parametrize(
    ("agents", "owner"),
    [
        (["builder"] * 3, "builder"),
        (["builder", "tester", "builder"], None),
        (["builder", "_shared", "builder"], "builder"),
        (["_shared"] * 3, None),
    ],
)
def test_an_insight_belongs_to_the_only_agent_or_to_none(agents: list[str], owner: str | None) -> None:
    memories = [memory(number, agent_id=agent_id) for number, agent_id in enumerate(agents)]
    insight = written(of(*memories, user_id=ANNA))
    assert insight.agent_id == owner
    assert insight.user_id == ANNA
    assert insight.source_memories == (UUID(int=0), UUID(int=1), UUID(int=2))


# --- what it says


def test_a_correction_names_the_latest_failure_and_what_worked_afterwards() -> None:
    insight = written(
        of(
            memory(1, "error", "Task: deploy api → failed (exit 1)\nconnecting\nError: timeout"),
            memory(2, "error", "Task: deploy web → failed (exit 1)\nconnecting\nconnection refused"),
            memory(4, "error", "Task: deploy all → failed (exit 7)\nconnecting\nmigration 42 failed"),
            memory(5, content="Task: order lunch → completed", keywords="order lunch"),
            memory(6, content="Task: run the migration, then deploy → completed\nok"),
        )
    )
    assert insight.text == (
        "3 failures around deploy, staging (latest: deploy all: migration 42 failed); "
        "afterwards worked: run the migration, then deploy"
    )


def test_a_success_before_the_failures_or_on_another_task_is_no_correction() -> None:
    insight = written(
        of(
            memory(1, content="Task: deploy by hand → completed"),
            memory(2, "error", "Task: deploy → failed"),
            memory(3, "error", "Task: deploy → failed"),
            memory(4, "error", "Task: deploy → failed"),
            memory(5, content="Task: order lunch → completed", keywords="order lunch"),
        )
    )
    assert insight.text == "3 failures around deploy, staging (latest: deploy)"


def test_a_pattern_names_the_typical_and_the_latest_task() -> None:
    insight = written(
        of(
            memory(1, content="Task: tune worker retry → completed", keywords="worker retry backoff"),
            memory(2, "error", "Task: tune worker → failed", keywords="worker retry"),
            memory(3, content="Task: worker backoff → completed", keywords="worker backoff"),
            memory(4, content="Retry the worker by hand", keywords="retry worker"),
        )
    )
    assert insight.text == (
        "3 tasks about worker, retry, backoff succeeded, 1 failed; "
        "typically: tune worker retry; latest: Retry the worker by hand"
    )


def test_one_and_the_same_task_is_named_once() -> None:
    assert written(of_kinds(["outcome"] * 3)).text == (
        "3 tasks about deploy, staging succeeded; typically: deploy staging"
    )


def test_a_summary_counts_the_kinds() -> None:
    notes = [memory(number, "note", f"price {number}", keywords="price plan") for number in range(3)]
    assert written(of(*notes, memory(9, "fact", "plans cost 9", keywords="price plan"))).text == (
        "4 memories about price, plan (3 notes, 1 fact); typically: plans cost 9"
    )


def test_an_insight_without_shared_keywords_is_a_whole_sentence() -> None:
    memories = [memory(number, content=f"did {number}", keywords=f"word{number}") for number in range(3)]
    assert written(of(*memories)).text == "3 tasks alike succeeded; typically: did 2"


def test_an_arrow_in_the_task_is_kept() -> None:
    memories = [memory(number, content="Task: rename a → b → failed (exit -9)") for number in range(3)]
    assert "typically: rename a → b" in written(of(*memories)).text


_CONTENT = st.text(st.characters(exclude_categories=()), max_size=600)


@given(
    contents=st.lists(
        st.tuples(st.sampled_from(["error", "outcome", "note"]), _CONTENT), min_size=4, max_size=8
    ),
    keywords=st.lists(st.text("abcde→", min_size=3, max_size=60), max_size=20, unique=True),
)
def test_any_content_gives_one_storable_line(contents: list[tuple[str, str]], keywords: list[str]) -> None:
    memories = [
        memory(number, kind, content, keywords=" ".join(keywords))
        for number, (kind, content) in enumerate(contents)
    ]
    insight = write_insight(of(*memories))
    # Of memories that share one telling keyword, and have others, it says nothing.
    assume(insight is not None)
    assert insight is not None
    text = insight.text
    assert 0 < len(text) <= 400
    assert "\x00" not in text
    assert text.encode().decode().splitlines() == [text]


# --- core keywords


def test_core_keywords_are_the_most_shared_and_come_first_in_the_task() -> None:
    cluster = of(
        memory(1, keywords="fix retry worker files 2026 once"),
        memory(2, keywords="tune retry worker files 2026"),
        memory(3, keywords="test retry other files 2026"),
    )
    assert core_keywords(cluster) == ["retry", "files", "worker"]
    assert core_keywords(cluster, maximum=1) == ["retry"]


def test_common_keywords_are_named_only_when_there_are_no_others() -> None:
    memories = [memory(number, keywords="files changed retry") for number in range(3)]
    assert core_keywords(of(*memories, common="files changed")) == ["retry"]
    assert core_keywords(of(*memories, common="files changed retry")) == ["files", "changed", "retry"]


def test_a_keyword_that_few_memories_share_is_not_core() -> None:
    memories = [memory(number, keywords="retry " + ("rare" if number < 2 else "")) for number in range(20)]
    assert core_keywords(of(*memories)) == ["retry"]


# --- known insights


def insight_of(*sources: int, category: str = "pattern", user_id: UUID | None = None) -> Insight:
    ids = tuple(UUID(int=source) for source in sources)
    return Insight(
        "recommendation" if category == "recommendation" else "pattern", "", 0.5, None, user_id, ids
    )


def known(number: int, *sources: int, category: str = "pattern", user_id: UUID | None = None) -> KnownInsight:
    return KnownInsight(
        UUID(int=number), category, user_id, frozenset(UUID(int=source) for source in sources)
    )


@pytest.mark.parametrize(
    ("sources", "continued"),
    [
        ([1, 2, 3, 4], True),
        ([3, 4, 5, 6, 7, 8], True),
        ([4, 5, 6], False),
        ([4, 5], True),
        ([9], False),
        ([], False),
    ],
)
def test_half_of_the_smaller_set_makes_it_the_same_cluster(sources: list[int], continued: bool) -> None:
    found = KnownInsights([known(50, 1, 2, 3, 4)]).find(insight_of(*sources))
    assert found == (UUID(int=50) if continued else None)


def test_each_known_insight_is_continued_once() -> None:
    insights = KnownInsights([known(50, 1, 2, 3)])
    assert insights.find(insight_of(1, 2, 3)) == UUID(int=50)
    assert insights.find(insight_of(1, 2, 3)) is None


def test_the_most_shared_is_continued() -> None:
    insights = KnownInsights([known(50, 1, 2, 8, 9), known(51, 1, 2, 3, 9), known(52, 1, 2, 3)])
    assert insights.find(insight_of(1, 2, 3, 4)) == UUID(int=52)
    assert insights.find(insight_of(1, 2, 3, 4)) == UUID(int=51)


def test_of_equals_the_same_category_is_continued_then_the_first_id() -> None:
    insights = KnownInsights([known(50, 1, 2, category="summary"), known(52, 1, 2), known(51, 1, 2)])
    assert [insights.find(insight_of(1, 2)) for _ in range(3)] == [
        UUID(int=number) for number in (51, 52, 50)
    ]


def test_a_pattern_of_corrected_failures_continues_the_correction() -> None:
    assert KnownInsights([known(50, 1, 2, category="correction")]).find(insight_of(1, 2, 3)) == UUID(int=50)


def test_a_recommendation_stands_beside_the_rules_insight() -> None:
    insights = KnownInsights([known(50, 1, 2, category="recommendation")])
    assert insights.find(insight_of(1, 2)) is None
    assert insights.find(insight_of(1, 2, category="recommendation")) == UUID(int=50)


def test_another_users_insight_is_never_continued() -> None:
    insights = KnownInsights([known(50, 1, 2, user_id=ANNA)])
    assert insights.find(insight_of(1, 2)) is None
    assert insights.find(insight_of(1, 2, user_id=ANNA)) == UUID(int=50)


# --- what hangs together


def test_a_pattern_whose_memories_share_little_is_less_sure_or_none() -> None:
    tasks = [memory(number, keywords="retry worker backoff") for number in range(4)]
    loose = [memory(number, keywords=f"retry word{number}") for number in range(4, 10)]
    assert written(of(*tasks)).confidence == 0.8
    assert written(of(*tasks, loose[0])).confidence == 0.72
    assert write_insight(of(*tasks, *loose[:4])) is None
    assert write_insight(of(*tasks, common="retry worker backoff")) is None
    # Failures are told in any case.
    failed = [memory(number, "error", keywords=f"retry word{number}") for number in range(3)]
    assert written(of(*failed)).confidence == 0.7


def test_a_cluster_of_agents_that_share_only_a_word_is_taken_apart() -> None:
    apart = [memory(n, keywords=f"fix w{n}", agent_id=f"agent {n % 2}") for n in range(6)]
    assert [len(part.memories) for part in parts_of(of(*apart))] == [3, 3]
    alike = [memory(n, keywords="deploy staging", agent_id=f"agent {n % 2}") for n in range(6)]
    assert parts_of(of(*alike)) == [of(*alike)]
    shared = [memory(n, keywords=f"fix w{n}", agent_id="_shared" if n else "one") for n in range(4)]
    assert parts_of(of(*shared)) == [of(*shared)]
