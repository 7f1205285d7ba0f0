"""Forgetting: what use does to links and to the order of what recall finds, and what it never does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from tests.support.content.index import index_rows
from tests.support.rows import associate, column, remember

NOW = datetime.now(UTC)
ANN = UUID(int=7)
COUNT = "select memoryd.count_uses($1, $2)"
FOUND = "select id from recall('heron pond nesting marsh', 'alice', sources => '{memory}')"
WEIGHTS = "select weight::numeric(4, 3)::float8 from memoryd.entries where id = $1"


async def retrieved(
    connection: asyncpg.Connection, ids: list[UUID], days_ago: float = 0, **columns: object
) -> None:
    """Logs a retrieval."""
    values: dict[str, object] = {"retrieved_memory_ids": ids, "query_time": NOW - timedelta(days=days_ago)}
    values |= columns
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    await connection.execute(
        f"insert into memory_queries ({', '.join(values)}) values ({places})", *values.values()
    )


async def dreamt(connection: asyncpg.Connection, now: datetime = NOW) -> None:
    """Counts and weighs, as a dream at this time does."""
    await connection.execute(COUNT, now - timedelta(days=400), now)
    await connection.execute("delete from memory_queries")
    await connection.execute("select memoryd.weigh_memories($1)", now)


async def test_use_decides_between_equals_and_never_hides_what_fits(connection: asyncpg.Connection) -> None:
    old = NOW - timedelta(days=200)
    alike = [
        await remember(connection, f"heron nesting beside the pond {word}", kind="fact", created_at=old)
        for word in ("one", "two", "six")
    ]
    exact = await remember(connection, "heron nesting by the pond in the marsh", kind="fact", created_at=old)
    other = await remember(connection, "wombat burrow by the creek", kind="fact", created_at=old)
    await index_rows(connection, "memory")
    first = await column(connection, FOUND)
    assert first[0] == exact
    for _ in range(500):
        await retrieved(connection, [first[3], other])  # type: ignore[list-item]
    await dreamt(connection)
    found = await column(connection, FOUND)
    # The one that was used is before its like; the one that fits exactly, and was never used, is first.
    assert found[:2] == [exact, first[3]]
    assert (set(found) - {other}) == {exact, *alike}
    assert await column(connection, WEIGHTS, exact) == [1.0]
    assert await column(connection, WEIGHTS, first[3]) == [1.049]

    # Without use it loses that again, and never has less than what was never retrieved.
    await dreamt(connection, NOW + timedelta(days=200))
    # The two recalls above are logged, too, and count as use.
    assert await column(connection, WEIGHTS, first[3]) == [1.017]
    await dreamt(connection, NOW + timedelta(days=600))
    assert await column(connection, WEIGHTS, first[3]) == [1.0]


async def test_a_users_retrievals_count_for_that_users_memories_alone(connection: asyncpg.Connection) -> None:
    shared, own, gone = [await remember(connection, "heron", user_id=user) for user in (None, ANN, ANN)]
    await index_rows(connection, "memory")
    await retrieved(connection, [shared, own, own, gone, UUID(int=1)], user_id=ANN)
    await retrieved(connection, [shared], user_id=UUID(int=8))
    await retrieved(connection, [shared], useful=False)
    await connection.execute("delete from agent_memory where id = $1", gone)
    await dreamt(connection)
    counted = await connection.fetch("select memory_id, uses from memoryd.memory_uses")
    assert [tuple(row) for row in counted] == [(own, 0.5)]
    await connection.execute("select erase_user_memory($1)", ANN)
    assert await column(connection, "select memory_id from memoryd.memory_uses") == []


async def test_links_that_rest_fade_and_those_that_are_used_or_made_by_others_do_not(
    connection: asyncpg.Connection,
) -> None:
    memories = [await remember(connection, f"memory {n}") for n in range(5)]
    resting, used, made, young = [
        await associate(connection, memories[0], memories[n], 0.5) for n in range(1, 5)
    ]
    month = NOW - timedelta(days=30)
    await connection.execute(
        "update memory_associations set automatic = id <> $1, rested_at = case id when $2 then now() else $3 end",
        made,
        young,
        month,
    )
    await retrieved(connection, [memories[0], memories[2], memories[3]], 1)
    await dreamt(connection)
    assert await connection.fetchval("select memoryd.fade_links($1, 100)", NOW) == 1
    strengths: dict[object, float] = dict(
        await connection.fetch("select id, round(strength::numeric, 2)::float8 from memory_associations")  # type: ignore[arg-type]
    )
    assert strengths == {resting: 0.26, used: 0.5, made: 0.5, young: 0.5}
    # Each week counts once, however often dreams come.
    assert await connection.fetchval("select memoryd.fade_links($1, 100)", NOW) == 0
    assert await connection.fetchval("select memoryd.fade_links($1, 100)", NOW + timedelta(days=40)) == 3
    weak = "select id from memory_associations where strength < 0.15"
    assert set(await column(connection, weak)) == {resting}
    assert await connection.fetchval("select count(*) from agent_memory") == 5
