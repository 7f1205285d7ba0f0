"""Judging a retrieval: what was found together and was useful is linked more strongly, once."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import pytest

from tests.support.rows import associate, one_row, remember

STRENGTH = "select strength from memory_associations where id = $1"
TASK = "upgrade staging server"


@pytest.fixture
async def retrieved(scratch: asyncpg.Connection) -> tuple[UUID, UUID, UUID]:
    """A query that found two memories, the link between them, and a link of one to a third that was not found."""
    one, two = [await remember(scratch, f"upgrade staging {n}") for n in "ab"]
    third = await remember(scratch, "unrelated")
    inside, outside = await associate(scratch, one, two, 0.5), await associate(scratch, one, third, 0.2)
    await scratch.execute("select build_context('alice', $1)", TASK)
    row = await one_row(
        scratch, "select id, retrieved_memory_ids as found from memory_queries order by query_time desc"
    )
    assert set(row["found"]) == {one, two}
    return row["id"], inside, outside


async def test_a_useful_retrieval_reinforces_once(
    scratch: asyncpg.Connection, retrieved: tuple[UUID, UUID, UUID]
) -> None:
    query, inside, outside = retrieved
    for _ in range(3):
        await scratch.execute("select mark_useful($1, true)", query)
        assert await scratch.fetchval(STRENGTH, inside) == pytest.approx(0.6)
    assert await scratch.fetchval(STRENGTH, outside) == 0.2
    assert await scratch.fetchval("select useful from memory_queries where id = $1", query)


async def test_two_useful_retrievals_reinforce_twice(
    scratch: asyncpg.Connection, retrieved: tuple[UUID, UUID, UUID]
) -> None:
    query, inside, _ = retrieved
    await scratch.execute("select build_context('alice', $1)", TASK)
    other = await scratch.fetchval("select id from memory_queries where id <> $1", query)
    for one in (query, other):
        await scratch.execute("select mark_useful($1, true)", one)
    assert await scratch.fetchval(STRENGTH, inside) == pytest.approx(0.7)


@pytest.mark.parametrize("judgement", [False, None])
async def test_a_judgement_other_than_useful_changes_no_link(
    scratch: asyncpg.Connection, retrieved: tuple[UUID, UUID, UUID], judgement: bool | None
) -> None:
    query, inside, _ = retrieved
    await scratch.execute("select mark_useful($1, $2)", query, judgement)
    assert await scratch.fetchval(STRENGTH, inside) == 0.5
    assert await scratch.fetchval("select useful from memory_queries where id = $1", query) is judgement


async def test_a_judgement_taken_back_and_given_again_reinforces_once(
    scratch: asyncpg.Connection, retrieved: tuple[UUID, UUID, UUID]
) -> None:
    query, inside, _ = retrieved
    for judgement in (True, False, True, None, True):
        await scratch.execute("select mark_useful($1, $2)", query, judgement)
        assert await scratch.fetchval(STRENGTH, inside) == pytest.approx(0.6)


async def test_a_judgement_may_change_to_useful(
    scratch: asyncpg.Connection, retrieved: tuple[UUID, UUID, UUID]
) -> None:
    query, inside, _ = retrieved
    for judgement in (False, True):
        await scratch.execute("select mark_useful($1, $2)", query, judgement)
    assert await scratch.fetchval(STRENGTH, inside) == pytest.approx(0.6)


@pytest.mark.parametrize("before", [0.95, 1.0])
async def test_no_strength_is_above_one(
    scratch: asyncpg.Connection, retrieved: tuple[UUID, UUID, UUID], before: float
) -> None:
    query, inside, _ = retrieved
    await scratch.execute("update memory_associations set strength = $2 where id = $1", inside, before)
    await scratch.execute("select mark_useful($1, true)", query)
    assert await scratch.fetchval(STRENGTH, inside) == 1.0


async def test_an_unknown_query_is_an_error(scratch: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.PostgresError, match="no query") as raised:
        await scratch.execute("select mark_useful(gen_random_uuid(), true)")
    assert raised.value.sqlstate == "P0002"
