"""End users judge what their own recalls found, and touch nobody else's by it."""

from __future__ import annotations

from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.database.logins import BECOME
from tests.support.rows import associate, remember

FOUND = """
insert into memory_queries (agent_id, user_id, retrieved_memory_ids, relevance_scores)
values ('alice', $1, $2, $3) returning id
"""
JUDGE = "select mark_useful($1, true)"
STRENGTHS = "select array_agg(strength::numeric(3, 1) order by strength) from memory_associations"


async def test_a_user_judges_their_last_recall(connection: asyncpg.Connection) -> None:
    """Links among what is theirs gain, those to others' memories do not; what the judgement says is theirs to read."""
    one, other = [await remember(connection, f"the lamp {n}", user_id=ANN) for n in "ab"]
    of_bob = await remember(connection, "the lamp of bob", user_id=BOB)
    await associate(connection, one, other, 0.5)
    await associate(connection, one, of_bob, 0.2)
    async with acting_as(connection, ANN):
        await connection.fetch("select * from recall('lamp', 'alice')")
        judged = await connection.fetchval("select last_recall()")
        for _ in range(2):
            await connection.execute("select mark_useful(last_recall(), true)")
        assert await connection.fetchval("select useful from memory_queries where id = $1", judged)
    # An agent's retrieval, given to the user, names what is not theirs.
    mixed = await connection.fetchval(FOUND, ANN, [one, other, of_bob], [1.0, 1.0, 1.0])
    async with acting_as(connection, ANN):
        await connection.execute(JUDGE, mixed)
    strengths = [float(s) for s in await connection.fetchval(STRENGTHS)]
    assert strengths[0] == 0.2
    assert strengths[1] > 0.5


async def test_others_rows_and_none_are_answered_alike_and_not_waited_for(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    of_bob = await connection.fetchval(FOUND, BOB, [], [])
    of_agents = await connection.fetchval(FOUND, None, [], [])
    async with second.transaction():
        # Who waited for a row would wait for this transaction.
        await second.execute("select from memory_queries for update")
        async with acting_as(connection, ANN):
            await connection.execute("set local lock_timeout = '5s'")
            for given in (of_bob, of_agents, uuid4(), None):
                state, message, _ = await refused(connection, JUDGE, given)
                assert (state, message) == ("P0002", f"no query {given or '<NULL>'}")
        async with acting_as(connection, None, claims='{"role": "authenticated"}'):
            assert (await refused(connection, JUDGE, of_agents))[0] == "P0002"
    async with connection.transaction():
        await connection.execute("set local role memoryd_user")
        assert (await refused(connection, JUDGE, of_bob))[0] == "P0002"
        # Nor does whom it refused keep anybody waiting.
        await second.execute("set lock_timeout = '5s'")
        await second.execute("select from memory_queries for update nowait")
    assert await connection.fetchval("select count(useful) from memory_queries") == 0


async def test_what_a_user_has_judged_is_not_in_the_way_of_anothers_erasure(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """A user's row keeps no ids but of their own memories: others' and none are dropped alike."""
    of_bob = await remember(connection, "the lamp of bob", user_id=BOB)
    of_ann = await remember(connection, "the lamp of ann", user_id=ANN)
    async with acting_as(connection, ANN):
        forged = [of_bob, of_ann, UUID(int=7)]
        query = await connection.fetchval(
            FOUND.replace("returning id", "returning id::text || retrieved_memory_ids::text || relevance_scores::text"),
            ANN, forged, [0.1, 0.2],
        )  # fmt: skip
    assert query.endswith(f"{{{of_ann}}}{{0.2}}")
    async with acting_as(connection, ANN):
        await connection.execute(JUDGE, UUID(query[:36]))
        await second.execute("set lock_timeout = '5s'")
        await second.fetchval("select erase_user_memory($1)", BOB)
    assert await connection.fetchval("select useful from memory_queries where user_id = $1", ANN)


async def test_the_last_recall_of_a_shared_connection_is_nobody_elses(connection: asyncpg.Connection) -> None:
    """Behind a pooler users follow each other on one connection."""
    async with acting_as(connection, ANN):
        await connection.fetch("select * from recall('lamp')")
        assert await connection.fetchval("select last_recall()") is not None
    async with acting_as(connection, BOB):
        assert await connection.fetchval("select last_recall()") is None


@pytest.mark.parametrize("role", ["memoryd_admin", "anon"])
async def test_support_and_strangers_judge_nothing(connection: asyncpg.Connection, role: str) -> None:
    if role == "anon":
        role = f"stranger_{uuid4().hex[:8]}"
        await connection.execute(BECOME.format(role))
    query = await connection.fetchval(FOUND, ANN, [], [])
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with acting_as(connection, ANN, role=role):
            await connection.execute(JUDGE, query)
    if role.startswith("stranger"):
        await connection.execute(f"drop role {role}")
