"""Associations: the formula of `memory.linking.link`, the strongest five, batches equal to one by one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import linking
from memory.linking import Link, Linkable

link = partial(linking.link, related=0.5)
link_batch = partial(linking.link_batch, related=0.5)

NOON = datetime(2026, 5, 6, 12, tzinfo=UTC)


def memory(
    number: int,
    keywords: str = "",
    *,
    hours_ago: float = 0.0,
    kind: str = "outcome",
    agent_id: str = "builder",
) -> Linkable:
    created_at = NOON - timedelta(hours=hours_ago)
    return Linkable(UUID(int=number), kind, agent_id, frozenset(keywords.split()), created_at)


def only(links: Sequence[Link]) -> Link:
    assert len(links) == 1
    return links[0]


# --- strength


@pytest.mark.parametrize(
    ("hours_ago", "strength"),
    [(0.0, 0.7), (0.99, 0.7), (1.0, 0.6), (5.99, 0.6), (6.0, 0.5), (500.0, 0.5)],
)
def test_strength_is_the_share_of_keywords_and_a_bonus_for_nearness(
    hours_ago: float, strength: float
) -> None:
    made = only(link(memory(1, "deploy staging"), [memory(2, "deploy api v2 staging", hours_ago=hours_ago)]))
    assert made.strength == pytest.approx(strength)


def test_strength_is_capped_at_one() -> None:
    assert only(link(memory(1, "deploy staging"), [memory(2, "deploy staging")])).strength == 1.0


@pytest.mark.parametrize(("others", "linked"), [(5, True), (6, False)])
def test_links_below_fifteen_hundredths_are_dropped(others: int, linked: bool) -> None:
    words = " ".join(f"word{number}" for number in range(others))
    assert bool(link(memory(1, "deploy"), [memory(2, f"deploy {words}", hours_ago=30)])) is linked


def test_time_alone_links_within_the_hour_only() -> None:
    made = only(
        link(memory(1, "deploy"), [memory(2, "invoice", hours_ago=0.5), memory(3, "lunch", hours_ago=2)])
    )
    assert (made.related_memory_id, made.association_type) == (UUID(int=2), "sequential")
    assert made.strength == pytest.approx(0.2)


def test_later_memories_are_as_near_as_earlier_ones() -> None:
    assert only(link(memory(1), [memory(2, hours_ago=-0.5)])).association_type == "sequential"


# --- kind


@pytest.mark.parametrize(
    ("keywords", "hours_ago", "kind"),
    [
        ("deploy staging", 30, "similar"),
        ("deploy staging", 0.5, "similar"),
        ("deploy staging api v2", 0.5, "sequential"),
        ("deploy staging api v2", 2, "related"),
    ],
)
def test_type_similar_wins_over_sequential_over_related(keywords: str, hours_ago: float, kind: str) -> None:
    made = only(link(memory(1, "deploy staging"), [memory(2, keywords, hours_ago=hours_ago)]))
    assert made.association_type == kind


def test_a_success_after_a_failure_on_the_same_keywords_is_causal() -> None:
    failure = memory(2, "deploy staging connection refused timeout", hours_ago=3, kind="error")
    made = only(link(memory(1, "deploy staging green"), [failure]))
    assert made.association_type == "causal"
    assert made.strength == pytest.approx(2 / 5 + 0.1)


@pytest.mark.parametrize(
    ("success", "failure"),
    [
        (memory(1, "deploy staging"), memory(2, "deploy staging", hours_ago=6, kind="error")),
        (memory(1, "deploy staging"), memory(2, "deploy staging", hours_ago=-1, kind="error")),
        (
            memory(1, "deploy staging"),
            memory(2, "deploy staging", hours_ago=1, kind="error", agent_id="_shared"),
        ),
        (memory(1, "deploy staging"), memory(2, "deploy staging", hours_ago=1, kind="outcome")),
        (memory(1, "deploy staging", kind="note"), memory(2, "deploy staging", hours_ago=1, kind="error")),
        (memory(1, "deploy"), memory(2, "deploy", hours_ago=1, kind="error")),
        (memory(1, "deploy staging red green"), memory(2, "deploy staging a b", hours_ago=1, kind="error")),
    ],
    ids=["too late", "before it", "other agent", "no failure", "no success", "one keyword", "half only"],
)
def test_without_a_success_after_a_failure_a_link_is_not_causal(success: Linkable, failure: Linkable) -> None:
    assert only(link(success, [failure])).association_type != "causal"


# --- embedding


def test_a_near_neighbour_counts_as_overlap() -> None:
    far = memory(2, "rollout", hours_ago=100)
    made = only(link(memory(1, "deploy"), [far], neighbours={far.id: 0.8}))
    assert made.association_type == "similar"
    assert made.strength == pytest.approx(0.6)


def test_keywords_count_when_they_say_more_than_the_embedding() -> None:
    far = memory(2, "deploy staging", hours_ago=100)
    made = only(link(memory(1, "deploy staging"), [far], neighbours={far.id: 0.6}))
    assert made.strength == 1.0


@pytest.mark.parametrize("cosine", [0.5, 0.1, -1.0, float("nan")])
def test_a_distant_neighbour_is_not_linked(cosine: float) -> None:
    far = memory(2, "rollout", hours_ago=100)
    assert link(memory(1, "deploy"), [far], neighbours={far.id: cosine}) == []


# --- the strongest five


def test_the_strongest_five_are_kept_newer_first() -> None:
    weak = [memory(number, "deploy x y z", hours_ago=10 + number) for number in range(10, 14)]
    strong = [memory(number, "deploy", hours_ago=20 - number) for number in (3, 2, 4)]
    made = link(memory(1, "deploy"), [*weak, *strong])
    assert [one.related_memory_id.int for one in made] == [4, 3, 2, 10, 11]


def test_equal_strength_and_time_go_by_id() -> None:
    made = link(memory(1, "deploy"), [memory(number, "deploy") for number in (9, 3, 7, 5, 8, 2)])
    assert [one.related_memory_id.int for one in made] == [2, 3, 5, 7, 8]


def test_never_a_link_to_itself_nor_two_to_one() -> None:
    new, other = memory(1, "deploy"), memory(2, "deploy")
    assert len(link(new, [new, other, other])) == 1


# --- a batch


def test_new_memories_are_linked_to_those_before_them_in_the_batch() -> None:
    first, second = memory(1, "deploy", hours_ago=2), memory(2, "deploy", hours_ago=1.5)
    made = only(link_batch([second, first], [], neighbours={}))
    assert (made.memory_id, made.related_memory_id) == (second.id, first.id)


def test_only_the_window_before_a_memory_is_looked_at() -> None:
    earlier = [memory(number, "deploy", hours_ago=100 + number) for number in range(10, 20)]
    made = link_batch([memory(1, "deploy")], earlier, neighbours={}, window=2)
    assert [one.related_memory_id.int for one in made] == [10, 11]


def test_neighbours_before_the_window_are_looked_at_too() -> None:
    old = memory(50, "rollout", hours_ago=900)
    earlier = [old, *(memory(number, "lunch", hours_ago=100 + number) for number in range(10, 20))]
    new = memory(1, "deploy")
    near = {old.id: 0.9, UUID(int=999): 0.99}
    made = only(link_batch([new], earlier, neighbours={new.id: near}, window=2))
    assert made.related_memory_id == old.id
    assert made.strength == pytest.approx(0.8)


def test_a_neighbour_after_a_memory_waits_for_its_own_turn() -> None:
    first, second = memory(1, "deploy", hours_ago=90), memory(2, "rollout")
    near = {first.id: {second.id: 0.9}, second.id: {first.id: 0.9}}
    assert only(link_batch([first, second], [], neighbours=near)).memory_id == second.id


_MEMORIES = st.lists(
    st.builds(
        memory,
        st.integers(1, 40),
        st.lists(st.sampled_from(["deploy", "staging", "api", "lunch", "invoice", "retry"]), max_size=5).map(
            " ".join
        ),
        hours_ago=st.integers(0, 40).map(lambda half: half / 2),
        kind=st.sampled_from(["outcome", "error", "note"]),
        agent_id=st.sampled_from(["builder", "_shared"]),
    ),
    unique_by=lambda one: one.id,
    max_size=20,
)


@given(memories=_MEMORIES, cosine=st.floats(-1, 1), window=st.integers(0, 6), data=st.data())
def test_a_batch_equals_one_after_another(
    memories: list[Linkable], cosine: float, window: int, data: st.DataObject
) -> None:
    ordered = sorted(memories, key=lambda one: (one.created_at, one.id.int))
    new = [one for one in ordered if data.draw(st.booleans())]
    near = {one.id: {other.id: cosine for other in ordered[:2]} for one in new}
    expected: list[Link] = []
    for one in new:
        before = ordered[: ordered.index(one)]
        candidates = [*before[max(len(before) - window, 0) :], *before[:2]]
        expected += link(one, candidates, neighbours=near[one.id])
    shuffled = data.draw(st.permutations(memories))
    assert link_batch(data.draw(st.permutations(new)), shuffled, neighbours=near, window=window) == expected


@given(memories=_MEMORIES, data=st.data())
def test_links_are_few_valid_and_independent_of_order(memories: list[Linkable], data: st.DataObject) -> None:
    new = memory(99, "deploy staging", hours_ago=8)
    made = link(new, memories)
    assert made == link(new, data.draw(st.permutations(memories)))
    assert len(made) <= 5
    assert len({one.related_memory_id for one in made}) == len(made)
    assert all(one.memory_id == new.id != one.related_memory_id for one in made)
    assert all(0.15 <= one.strength <= 1 for one in made)
    assert [one.strength for one in made] == sorted((one.strength for one in made), reverse=True)
