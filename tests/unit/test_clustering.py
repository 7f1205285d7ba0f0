"""What a dream finds belongs together: by keywords, by embedding, never across users, never everything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import clustering
from memory.clustering import Cluster, ClusteringStoppedError, Dreamable

cluster = partial(clustering.cluster, same_topic=0.75)

MIDNIGHT = datetime(2026, 5, 6, tzinfo=UTC)
ANNA, BEN = UUID(int=1 << 100), UUID(int=2 << 100)
TOPICS = [
    ["deploy", "staging", "migration"],
    ["flaky", "unit", "retry"],
    ["invoice", "pdf", "export"],
    ["login", "oauth", "token"],
]


def memory(
    number: int, keywords: str = "", *, user_id: UUID | None = None, agent_id: str = "builder"
) -> Dreamable:
    """The number is the memory's id and its minute."""
    words = tuple(keywords.split())
    created_at = MIDNIGHT + timedelta(minutes=number)
    return Dreamable(UUID(int=number), agent_id, user_id, "outcome", keywords, words, created_at)


def members(clusters: Sequence[Cluster]) -> list[list[int]]:
    return [[one.id.int for one in found.memories] for found in clusters]


def with_noise(topic: Sequence[str], noise: int, random: Random) -> str:
    return " ".join([*topic, *(f"noise{random.randrange(500)}" for _ in range(noise))])


# --- by keywords


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("deploy staging api green blue", "deploy staging invoice pdf export", True),
        ("deploy staging api green blue", "deploy lunch invoice pdf export", False),
        ("deploy staging", "deploy lunch invoice pdf export", True),
        ("deploy staging api", "deploy lunch invoice pdf export", False),
        ("deploy", "deploy", True),
        ("", "", False),
    ],
)
def test_two_shared_keywords_or_over_forty_percent_of_the_smaller_set_join_two_memories(
    one: str, other: str, together: bool
) -> None:
    assert members(cluster([memory(1, one), memory(2, other)])) == ([[1, 2]] if together else [])


def test_members_are_compared_with_the_seed_not_with_each_other() -> None:
    chain = [
        memory(1, "red green blue cyan pink"),
        memory(2, "red green gold gray lime"),
        memory(3, "gold gray teal navy rust"),
    ]
    assert members(cluster(chain)) == [[1, 2]]


def test_a_memory_joins_the_seed_it_shares_most_with() -> None:
    memories = [
        memory(1, "red green blue cyan pink"),
        memory(2, "gold gray lime teal navy"),
        memory(3, "red green gold gray lime"),
    ]
    assert members(cluster(memories)) == [[2, 3]]


def test_users_never_mix() -> None:
    memories = [
        memory(number, "deploy staging", user_id=user_id)
        for number, user_id in enumerate([ANNA, BEN, None, ANNA, BEN, None], start=1)
    ]
    found = cluster(memories)
    assert members(found) == [[1, 4], [2, 5], [3, 6]]
    assert [one.user_id for one in found] == [ANNA, BEN, None]


def test_agents_of_one_user_do_mix() -> None:
    memories = [
        memory(1, "deploy staging", agent_id="builder"),
        memory(2, "deploy staging", agent_id="_shared"),
    ]
    assert members(cluster(memories)) == [[1, 2]]


def test_the_largest_comes_first_and_members_are_in_order_of_creation() -> None:
    memories = [
        memory(5, "deploy"),
        memory(4, "lunch"),
        memory(3, "deploy"),
        memory(2, "lunch"),
        memory(1, "deploy"),
    ]
    assert members(cluster(memories)) == [[1, 3, 5], [2, 4]]


def test_no_memories_make_no_clusters() -> None:
    assert cluster([]) == []
    assert cluster([memory(1, "deploy")], np.ones((1, 4), np.float32)) == []


# --- common keywords


def test_words_that_every_memory_has_make_no_cluster() -> None:
    frame = "files changed insertions deletions"
    memories = [
        memory(number, f"first{number} second{number} third{number} fourth{number} {frame}")
        for number in range(60)
    ]
    assert cluster(memories) == []
    assert members(cluster(memories[:49])) == [list(range(49))]


def test_words_of_every_other_memory_do_not_add_up_to_a_topic() -> None:
    random = Random(5)
    memories = []
    for number in range(100):
        frame = " ".join(
            word for word in ("lib", "src", "tests", "fix", "update", "docs") if random.random() < 0.5
        )
        memories.append(memory(number, f"{frame} " + " ".join(f"own{number}x{own}" for own in range(12))))
    assert cluster(memories) == []


def test_words_that_all_memories_of_one_agent_have_make_no_cluster() -> None:
    memories = [
        memory(number, f"a{number} b{number} c{number} d{number} e{number} lib{number % 10} src{number % 10}")
        for number in range(10, 610)
    ]
    by_agent = [
        memory(one.id.int, " ".join(one.keywords), agent_id=f"agent{one.id.int % 10}") for one in memories
    ]
    assert len(cluster(memories)) == 10
    assert cluster(by_agent) == []


@pytest.mark.parametrize(("topics", "noise"), [(1, 2), (2, 2), (3, 2), (4, 2), (4, 5)])
def test_a_small_fleet_busy_with_few_things_keeps_a_cluster_for_each(topics: int, noise: int) -> None:
    random = Random(topics)
    memories = [memory(number, with_noise(TOPICS[number % topics], noise, random)) for number in range(100)]
    found = members(cluster(memories))
    assert sorted(found) == [
        [number for number in range(100) if number % topics == topic] for topic in range(topics)
    ]


def test_a_cluster_marks_which_of_its_words_are_common() -> None:
    memories = [memory(number, f"deploy staging files changed w{number}") for number in range(5)]
    memories += [
        memory(number, f"a{number} b{number} c{number} d{number} files changed") for number in range(10, 70)
    ]
    assert [(len(one.memories), one.common) for one in cluster(memories)] == [
        (5, frozenset({"files", "changed"}))
    ]


def test_a_keyword_with_hundreds_of_seeds_still_finds_the_latest() -> None:
    memories = [
        memory(number, f"deploy a{number} b{number} c{number} d{number}") for number in range(100, 400)
    ] + [memory(number, f"a{number} b{number} c{number} d{number}") for number in range(400, 2500)]
    late = memory(3000, "deploy a399 x y z")
    assert members(cluster([*memories, late])) == [[399, 3000]]


# --- by embedding


def test_memories_without_shared_keywords_are_clustered_by_embedding() -> None:
    memories = [
        memory(1, "deploy staging"),
        memory(2, "deploy staging"),
        memory(3, "rollout"),
        memory(4, "lunch"),
        memory(5, "dinner"),
        memory(6, "tax"),
    ]
    vectors = np.array([[3, 0, 0], [0, 0, 1], [2, 1, 0], [0, 5, 1], [0, 1, 0], [-1, 0, 0]], np.float32)
    assert members(cluster(memories, vectors)) == [[1, 2, 3], [4, 5]]


def test_memories_without_an_embedding_stay_alone() -> None:
    memories = [memory(number, f"word{number}") for number in range(6)]
    nan = float("nan")
    vectors = np.array([[0, 0], [0, 0], [nan, nan], [nan, nan], [1, 0], [1, 0.1]], np.float32)
    assert members(cluster(memories, vectors)) == [[4, 5]]


def test_embeddings_are_compared_across_blocks_and_never_across_users() -> None:
    random = np.random.default_rng(7)
    centres = random.standard_normal((3, 64))
    memories = [memory(number, user_id=(ANNA, BEN)[number // 3 % 2]) for number in range(2400)]
    vectors = (centres[np.arange(2400) % 3] + 0.2 * random.standard_normal((2400, 64))).astype(np.float32)
    found = cluster(memories, vectors)
    assert [len(one.memories) for one in found] == [400] * 6
    assert all(len({(one.id.int % 3, one.user_id) for one in group.memories}) == 1 for group in found)


def test_embeddings_must_be_one_row_a_memory() -> None:
    with pytest.raises(ValueError, match="one row for each of the 1 memories"):
        cluster([memory(1)], np.ones((2, 3), np.float32))


# --- stopping


@pytest.mark.parametrize("patience", [0, 5, 10])
def test_clustering_stops_when_cancelled(patience: int) -> None:
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > patience

    memories = [memory(number) for number in range(2000)]
    with pytest.raises(ClusteringStoppedError):
        cluster(memories, np.eye(2000, dtype=np.float32), should_stop=should_stop)
    assert asked == patience + 1


# --- for any memories whatever

_WORDS = [f"word{number}" for number in range(14)]
_MEMORIES = st.lists(
    st.builds(
        memory,
        st.integers(1, 200),
        st.lists(st.sampled_from(_WORDS), max_size=8, unique=True).map(" ".join),
        user_id=st.sampled_from([None, ANNA]),
    ),
    unique_by=lambda one: one.id,
    max_size=12,
)


def alike(one: Dreamable, other: Dreamable) -> bool:
    shared = len(set(one.keywords) & set(other.keywords))
    smaller = min(len(one.keywords), len(other.keywords))
    larger = max(len(one.keywords), len(other.keywords))
    return one.user_id == other.user_id and (shared >= 2 or shared > 0.4 * smaller or shared > 0.5 * larger)


@given(memories=_MEMORIES, data=st.data())
def test_every_member_is_like_its_seed_and_no_two_left_over_are_alike(
    memories: list[Dreamable], data: st.DataObject
) -> None:
    found = cluster(memories)
    assert members(found) == members(cluster(data.draw(st.permutations(memories))))
    clustered = [one for group in found for one in group.memories]
    assert len(clustered) == len({one.id for one in clustered})
    for group in found:
        assert all(alike(group.memories[0], one) for one in group.memories[1:])
    left = [one for one in memories if one not in clustered]
    assert not any(alike(one, other) for one in left for other in left if one is not other)
