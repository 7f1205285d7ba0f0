"""The links that the daemon makes: what kind, how strong, at most five, to earlier memories and within one user only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from tests.support.rows import HALF_PRECISION, column, embedding, remember
from tests.support.waiting import IDLE, until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LINKS = """
select related_memory_id, association_type, strength from memory_associations where memory_id = $1 order by strength desc
"""
COUNT = "select count(*) from memory_associations a join agent_memory m on m.id = a.memory_id where m.agent_id = $1"


async def at(
    connection: asyncpg.Connection, agent: str, content: str, hours: float, **columns: object
) -> UUID:
    """A memory of this agent so many hours after noon, unlike any other in meaning unless told otherwise."""
    created_at = NOON + timedelta(hours=hours)
    return await remember(
        connection,
        content,
        **({"agent_id": agent, "created_at": created_at, "embedding": embedding()} | columns),
    )


async def linked(connection: asyncpg.Connection, memory: UUID) -> list[tuple[object, ...]]:
    """The links of a memory, the strongest first: to which, of what type, how strong."""
    await until(connection, IDLE)
    return [
        (*row[:2], pytest.approx(row[2], abs=HALF_PRECISION)) for row in await connection.fetch(LINKS, memory)
    ]


@pytest.fixture
async def shared_by_all(served: asyncpg.Connection) -> AsyncIterator[None]:
    """Takes away at the end what was shared: every agent of the other tests would be linked to it."""
    yield
    await served.execute("delete from agent_memory where agent_id = '_shared'")


@pytest.mark.parametrize(
    ("earlier", "later", "hours", "link"),
    [
        ("red green blue white", "red green blue black", 10, ("similar", 0.75)),
        ("red green blue white", "red green blue black", 5, ("similar", 0.85)),
        ("red green blue white", "red green blue black", 0.5, ("similar", 0.95)),
        ("red green blue white", "red green blue white", 0.5, ("similar", 1.0)),
        ("red green blue white", "red green brown black", 0.5, ("sequential", 0.7)),
        ("red green blue white", "red green brown black", 5, ("related", 0.6)),
        ("red green blue white", "red green brown black", 10, ("related", 0.5)),
        ("red green blue white", "one two three four", 0.5, ("sequential", 0.2)),
        ("red green blue white", "one two three four", 5, None),  # 0.1 is too weak
        ("red green blue white", "red two three four five six seven eight nine ten", 5, ("related", 0.2)),
        ("red green blue white", "red two three four five six seven eight nine ten", 10, None),
        (
            "red green",
            "red green blue white black brown grey pink",
            10,
            ("related", 0.25),
        ),  # of the larger set
    ],
)
async def test_keywords_and_time_make_a_link(
    served: asyncpg.Connection, earlier: str, later: str, hours: float, link: tuple[str, float] | None
) -> None:
    agent = f"{earlier} {later} {hours}"
    first = await at(served, agent, earlier, 0)
    second = await at(served, agent, later, hours)
    assert await linked(served, second) == ([] if link is None else [(first, *link)])
    assert await linked(served, first) == []


@pytest.mark.parametrize(
    ("first", "second", "hours", "link"),
    [
        ("error", "outcome", 0.5, ("causal", 0.95)),
        ("error", "outcome", 5, ("causal", 0.85)),
        ("error", "outcome", 7, ("similar", 0.75)),
        ("outcome", "error", 0.5, ("similar", 0.95)),
        ("error", "error", 0.5, ("similar", 0.95)),
    ],
)
async def test_a_success_after_a_failure_on_the_same_keywords_is_linked_as_causal(
    served: asyncpg.Connection, first: str, second: str, hours: float, link: tuple[str, float]
) -> None:
    agent = f"{first} {second} {hours}"
    earlier = await at(served, agent, "deploy staging server build", 0, kind=first)
    later = await at(served, agent, "deploy staging server again", hours, kind=second)
    assert await linked(served, later) == [(earlier, *link)]


async def test_a_command_that_succeeds_after_failing_is_linked_to_its_failure(
    served: asyncpg.Connection,
) -> None:
    run = (
        "insert into agent_commands (agent_id, message, status, output, exit_code, finished_at) "
        "values ('persistent', 'rotate the database certificates', $1, $2, $3, $4) returning id"
    )
    failed = await served.fetchval(run, "failed", "permission denied", 1, NOON)
    await served.fetchval(run, "completed", "rotated", 0, NOON + timedelta(minutes=20))
    await until(served, IDLE)
    rows = await served.fetch(
        "select a.association_type, e.command_id from memory_associations a join agent_memory m on m.id = a.memory_id "
        "join agent_memory e on e.id = a.related_memory_id where m.agent_id = 'persistent'"
    )
    assert [tuple(row) for row in rows] == [("causal", failed)]


async def test_only_the_five_strongest_links_are_made(served: asyncpg.Connection) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    earlier = [await at(served, "five", " ".join(words[: n + 1]), -100 - 10 * n) for n in range(8)]
    memory = await at(served, "five", " ".join(words), 0)
    assert await linked(served, memory) == [
        (earlier[n], "similar" if n > 3 else "related", (n + 1) / 8) for n in (7, 6, 5, 4, 3)
    ]


async def test_memories_link_to_earlier_ones_in_any_order_of_arrival(served: asyncpg.Connection) -> None:
    values = (
        "select $1, 'step ' || "
        "array_to_string((array['plan', 'build', 'check', 'ship', 'rest', 'sing'])[1 + n % 3 : 2 + n % 5], ' '), "
        "$2::timestamptz + make_interval(mins => 25 * n), $3::text::vector from generate_series(1, 80) n"
    )
    insert = "insert into agent_memory (agent_id, content, created_at, embedding) "
    await served.execute(insert + values, "all at once", NOON, embedding())
    await served.execute(insert + values + " order by n desc", "backwards", NOON, embedding())
    for n in range(1, 81):
        await served.execute(
            insert + values.replace("generate_series(1, 80)", f"generate_series({n}, {n})"),
            "one by one",
            NOON,
            embedding(),
        )
    await until(served, IDLE)
    shape = (
        "select m.created_at, e.created_at, a.association_type, a.strength from memory_associations a "
        "join agent_memory m on m.id = a.memory_id join agent_memory e on e.id = a.related_memory_id "
        "where m.agent_id = $1 order by 1, 2"
    )
    expected = await served.fetch(shape, "one by one")
    assert len(expected) > 300
    assert all(later > earlier for later, earlier, *_ in expected)
    assert await served.fetch(shape, "all at once") == expected
    assert await served.fetch(shape, "backwards") == expected


async def test_memories_are_linked_to_shared_memories(
    served: asyncpg.Connection, shared_by_all: None
) -> None:
    shared = await at(served, "_shared", "the harbour closes in winter", -30)
    own = await at(served, "sailor", "the harbour closes early", 0)
    newer = await at(served, "_shared", "the harbour closes for good", 30)
    assert await linked(served, own) == [(shared, "similar", pytest.approx(2 / 3, abs=HALF_PRECISION))]
    assert [row[0] for row in await linked(served, newer)] == [shared]


async def test_no_link_crosses_users(served: asyncpg.Connection, shared_by_all: None) -> None:
    one, other = UUID(int=1), UUID(int=2)
    places = [(agent, user) for agent in ("_shared", "host") for user in (None, one, other)]
    memories: dict[UUID, tuple[str, UUID | None]] = {}
    for turn in range(3):
        for place, (agent, user) in enumerate(places):
            given = {"user_id": user, "embedding": embedding(1), "agent_id": agent}
            memories[await at(served, agent, "guest prefers a quiet room", turn + place / 10, **given)] = (
                agent,
                user,
            )
    await until(served, IDLE)
    seen = set()
    for memory, (agent, user) in memories.items():
        for (related,) in await served.fetch(
            "select related_memory_id from memory_associations where memory_id = $1", memory
        ):
            to_agent, to_user = memories[related]
            assert to_agent in (agent, "_shared")
            assert to_user in (None, user)
            seen.add((agent, user is not None, to_agent, to_user is not None))
    assert seen == {
        ("host", True, "host", True), ("host", True, "_shared", True), ("host", True, "host", False),
        ("host", True, "_shared", False), ("host", False, "host", False), ("host", False, "_shared", False),
        ("_shared", True, "_shared", True), ("_shared", True, "_shared", False), ("_shared", False, "_shared", False),
    }  # fmt: skip


async def test_no_link_crosses_agents(served: asyncpg.Connection) -> None:
    await at(served, "one agent", "exactly the same words", 0, embedding=embedding(1))
    memory = await at(served, "another agent", "exactly the same words", 0.1, embedding=embedding(1))
    assert await linked(served, memory) == []


@pytest.mark.parametrize(
    ("cosine", "link"),
    [(1.0, ("similar", 1.0)), (0.9, ("similar", 0.8)), (0.6, ("related", 0.2)), (0.55, None), (-1.0, None)],
)
async def test_a_near_neighbour_by_meaning_is_linked(
    served: asyncpg.Connection, cosine: float, link: tuple[str, float] | None
) -> None:
    agent = f"neighbour {cosine}"
    near = await at(served, agent, "quick brown fox", -1000, embedding=embedding(7))
    # Far more than the thirty that are compared anyway.
    await served.execute(
        "insert into agent_memory (agent_id, content, embedding, created_at) "
        "select $1, 'filler ' || n, $2::text::vector, $3::timestamptz - make_interval(hours => 10 * n) "
        "from generate_series(1, 60) n",
        agent, embedding(0, 0, 1), NOON,
    )  # fmt: skip
    memory = await at(
        served, agent, "a lazy dog", 0, embedding=embedding(3 * cosine, 3 * (1 - cosine**2) ** 0.5)
    )
    assert await linked(served, memory) == ([] if link is None else [(near, *link)])


async def test_paraphrases_are_linked_by_the_daemons_own_embeddings(served: asyncpg.Connection) -> None:
    first = await remember(served, "car engine repair", agent_id="mechanic", created_at=NOON)
    second = await remember(
        served, "automobile motor fixing", agent_id="mechanic", created_at=NOON + timedelta(days=3)
    )
    await until(served, IDLE)
    assert await column(
        served, "select related_memory_id from memory_associations where memory_id = $1", second
    ) == [first]


async def test_links_made_by_hand_stay(served: asyncpg.Connection) -> None:
    first = await at(served, "by hand", "one thing", 0)
    second = await at(served, "by hand", "another matter", 100)
    await until(served, IDLE)
    await served.execute(
        "insert into memory_associations (memory_id, related_memory_id, association_type, strength) "
        "values ($1, $2, 'causal', 0.9)",
        second, first,
    )  # fmt: skip
    await at(served, "by hand", "one thing again", 200)
    assert await linked(served, second) == [(first, "causal", 0.9)]
    assert await served.fetchval(COUNT, "by hand") == 2
