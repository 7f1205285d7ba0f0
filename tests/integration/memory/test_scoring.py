"""The score of a memory, to the letter of its formula: min(1, relevance x kind + recency + association)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.support.rows import associate, column, embedding, one_row, remember

TASK = "upgrade the staging postgres server tonight"  # upgrade, staging, postgres, server, tonight


def ago(**time: float) -> datetime:
    """A time of creation in the past."""
    return datetime.now(UTC) - timedelta(**time)


async def scores(connection: asyncpg.Connection, query: str = TASK, **wanted: object) -> dict[UUID, Any]:
    """What recall finds for alice, best first."""
    names = "".join(
        f", {name} => ${n}::{'vector' if 'embedding' in name else 'uuid'}" for n, name in enumerate(wanted, 2)
    )
    names = names.replace("::vector", "::text::vector")
    rows = await connection.fetch(
        f"select id, score from recall($1, 'alice'{names})", query, *wanted.values()
    )
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    return {row["id"]: pytest.approx(row["score"]) for row in rows}


async def test_the_designs_example_has_the_designs_score(scratch: asyncpg.Connection) -> None:
    memory = await remember(scratch, "upgrade of staging postgres", kind="outcome", created_at=ago(hours=12))
    top = await remember(scratch, "postgres server tonight", kind="fact", created_at=ago(days=30))
    await associate(scratch, memory, top, 0.6)
    assert (await scores(scratch))[memory] == 0.87

    await scratch.execute("delete from memory_queries")
    await scratch.execute("select build_context('alice', $1)", TASK)
    query = await one_row(scratch, "select * from memory_queries")
    assert query["task_keywords"] == ["upgrade", "staging", "postgres", "server", "tonight"]
    assert dict(zip(query["retrieved_memory_ids"], query["relevance_scores"], strict=True)) == {
        memory: pytest.approx(0.87),
        top: pytest.approx(0.6 + 0.12),
    }
    assert query["retrieved_memory_ids"] == [memory, top]


async def test_each_kind_has_its_own_weight(scratch: asyncpg.Connection) -> None:
    weights = {"outcome": 1.0, "fact": 1.0, "error": 0.9, "goal": 0.8, "observation": 0.6, "note": 0.5}
    memories = {
        kind: await remember(scratch, "upgrade staging postgres", kind=kind, created_at=ago(days=30))
        for kind in weights
    }
    assert await scores(scratch) == {memories[kind]: 0.6 * weight for kind, weight in weights.items()}


@pytest.mark.parametrize(
    ("age", "bonus"),
    [
        (timedelta(hours=-1), 0.15),
        (timedelta(), 0.15),
        (timedelta(hours=23, minutes=59), 0.15),
        (timedelta(hours=24, seconds=1), 0.05),
        (timedelta(hours=71, minutes=59), 0.05),
        (timedelta(hours=72, seconds=1), 0.0),
        (timedelta(days=3000), 0.0),
    ],
)
async def test_newer_memories_score_higher(scratch: asyncpg.Connection, age: timedelta, bonus: float) -> None:
    memory = await remember(scratch, "upgrade staging", kind="fact", created_at=datetime.now(UTC) - age)
    assert await scores(scratch) == {memory: 0.4 + bonus}


@pytest.mark.parametrize(
    ("content", "relevance"),
    [
        ("tonight", 0.2),
        ("server tonight", 0.4),
        ("upgrade staging postgres server tonight and then tomorrow", 1.0),
        ("SERVER, Server; servers", 0.2),
        ("a sunny day in May", None),
        ("the and of it", None),
    ],
)
async def test_relevance_is_the_share_of_the_tasks_keywords(
    scratch: asyncpg.Connection, content: str, relevance: float | None
) -> None:
    memory = await remember(scratch, content, kind="fact", created_at=ago(days=30))
    assert await scores(scratch) == ({} if relevance is None else {memory: relevance})


async def test_no_score_is_above_one(scratch: asyncpg.Connection) -> None:
    memory, top = [await remember(scratch, TASK, kind="fact") for _ in range(2)]
    await associate(scratch, memory, top, 1.0)
    assert await scores(scratch) == {memory: 1.0, top: 1.0}


@pytest.mark.parametrize("query", ["", "   ", "the and of", "zebra xylophone"])
async def test_memories_without_relevance_are_not_found(scratch: asyncpg.Connection, query: str) -> None:
    one, other = [await remember(scratch, TASK, kind="fact") for _ in range(2)]
    await associate(scratch, one, other, 1.0)
    assert await scores(scratch, query) == {}
    assert await scratch.fetchval("select build_context('alice', $1)", query) == ""


@pytest.mark.parametrize(
    ("top", "strength", "bonus"),
    [
        ("upgrade staging", 0.3, 0.06),
        ("upgrade staging", 1.0, 0.2),
        ("upgrade staging", 0.29, 0.0),  # a link this weak says nothing
        ("upgrade", 1.0, 0.0),  # 0.2 is no top memory
    ],
)
@pytest.mark.parametrize("outgoing", [True, False])
async def test_a_link_to_a_top_memory_counts(
    scratch: asyncpg.Connection, top: str, strength: float, bonus: float, outgoing: bool
) -> None:
    memory = await remember(scratch, "tonight", kind="fact", created_at=ago(days=30))
    other = await remember(scratch, top, kind="fact", created_at=ago(days=30))
    await associate(scratch, *((memory, other) if outgoing else (other, memory)), strength)
    assert (await scores(scratch))[memory] == 0.2 + bonus


async def test_only_the_strongest_link_counts(scratch: asyncpg.Connection) -> None:
    memory = await remember(scratch, "tonight", kind="fact", created_at=ago(days=30))
    for strength in (0.4, 0.9, 0.5):
        await associate(scratch, memory, await remember(scratch, "upgrade staging", kind="fact"), strength)
    assert (await scores(scratch))[memory] == 0.2 + 0.18


async def test_what_is_linked_to_a_top_memory_is_found_by_it(scratch: asyncpg.Connection) -> None:
    top = await remember(scratch, "upgrade staging", kind="fact", created_at=ago(days=30))
    linked = await remember(scratch, "remember the backup", kind="fact", created_at=ago(hours=30))
    strangers = await remember(scratch, "of somebody else", agent_id="bob", kind="fact")
    expired = await remember(scratch, "long gone", kind="fact", expires_at=ago(hours=1))
    for other in (linked, strangers, expired):
        await associate(scratch, other, top, 0.5)
    assert await scores(scratch) == {top: 0.4, linked: 0.05 + 0.1}


@pytest.mark.parametrize(
    ("content", "similarity", "least", "most"),
    [
        ("nothing in common", 1.0, 0.5, 0.5),
        ("nothing in common", 0.675, 0.3375, 0.3375),
        ("nothing in common", 0.35, 0.175, 0.175),
        ("nothing in common", 0.15, None, None),
        ("nothing in common", -1.0, None, None),
        ("upgrade staging", 1.0, 0.52, 0.9),
        ("upgrade staging", 0.6, 0.32, 0.7),
        (TASK, 1.0, 1.0, 1.0),
        (TASK, 0.6, 0.8, 0.8),
    ],
)
async def test_the_best_rows_relevance_is_the_mean_of_its_share_of_the_question_and_its_similarity(
    scratch: asyncpg.Connection, content: str, similarity: float, least: float | None, most: float | None
) -> None:
    given = embedding(similarity, (1 - similarity**2) ** 0.5)
    memory = await remember(scratch, content, kind="fact", created_at=ago(days=30), embedding=given)
    found = await scratch.fetch(
        "select id, score, similarity from recall($1, 'alice', query_embedding => $2::text::vector)",
        TASK,
        embedding(1),
    )
    if least is None or most is None:
        assert found == []
        return
    [row] = found
    assert row["id"] == memory
    assert least - 1e-3 <= row["score"] <= most + 1e-3
    assert row["similarity"] == pytest.approx(similarity, abs=1e-3)


async def test_the_best_come_first_and_then_the_newest(scratch: asyncpg.Connection) -> None:
    old = await remember(scratch, "upgrade staging", kind="fact", created_at=ago(days=9))
    new = await remember(scratch, "upgrade staging", kind="fact", created_at=ago(days=8))
    best = await remember(scratch, "upgrade staging server", kind="fact", created_at=ago(days=100))
    assert await column(scratch, "select id from recall($1, 'alice')", TASK) == [best, new, old]
    assert await column(scratch, "select id from recall($1, 'alice', match_count => 2)", TASK) == [best, new]
    assert await column(scratch, "select id from recall($1, 'alice', match_count => 0)", TASK) == []


async def test_recall_returns_the_columns_of_its_design(scratch: asyncpg.Connection) -> None:
    memory = await remember(
        scratch, "upgrade staging", kind="fact", metadata='{"ticket": 7}', created_at=ago(days=9)
    )
    insight = await scratch.fetchval(
        "insert into dream_insights (agent_id, insight, source_memories, category, confidence, generated_at) "
        "values ('alice', 'upgrade staging first', array[$1::uuid], 'pattern', 0.7, now() - interval '9 days') returning id",
        memory,
    )
    rows = await scratch.fetch(
        "select source, id, content, score, metadata::jsonb as metadata from recall($1, 'alice')", TASK
    )
    assert [tuple(row)[:3] for row in rows] == [
        ("memory", memory, "upgrade staging"),
        ("insight", insight, "upgrade staging first"),
    ]
    assert [row["score"] for row in rows] == [pytest.approx(0.4), pytest.approx(0.4 * 0.7)]
    for sources, found in (
        ("{memory}", [memory]),
        ("{insight}", [insight]),
        ("{}", []),
        (None, [memory, insight]),
    ):
        assert (
            await column(
                scratch, "select id from recall($1, 'alice', sources => $2::text::text[])", TASK, sources
            )
            == found
        )
    for condition, found in (
        ('{"ticket": 7}', [memory]),
        ('{"ticket": 8}', []),
        ('{"kind": "fact"}', [memory]),
        ('{"category": "pattern"}', [insight]),
        ("{}", [memory, insight]),
        (None, [memory, insight]),
    ):
        assert (
            await column(scratch, "select id from recall($1, 'alice', filter => $2)", TASK, condition)
            == found
        )


async def test_recall_searches_only_the_given_agent_user_and_sources(scratch: asyncpg.Connection) -> None:
    users = [UUID(int=1), UUID(int=2)]
    places = {
        (agent, user): await remember(scratch, "upgrade staging", agent_id=agent, user_id=user, kind="fact")
        for agent in ("alice", "bob", "_shared")
        for user in (None, *users)
    }
    for agent, user, expected in (
        ("alice", None, {("alice", None), ("_shared", None)}),
        ("alice", users[0], {("alice", users[0]), ("_shared", users[0])}),
        (None, users[1], {(agent, users[1]) for agent in ("alice", "bob", "_shared")}),
        (None, None, set(places)),
        ("carol", None, {("_shared", None)}),
        ("carol", UUID(int=3), set()),
    ):
        found = await column(scratch, "select id from recall($1, $2, $3)", TASK, agent, user)
        assert set(found) == {places[place] for place in expected}
