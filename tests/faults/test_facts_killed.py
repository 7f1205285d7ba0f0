"""kill -9 while facts are written: each fact is one memory, and the last one said stands."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import asyncpg

from tests.support.processes.daemons import Daemons
from tests.support.waiting import IDLE, until

USERS, MOVES, KILLS = 5, 30, 3
SAY = """
insert into conversation_messages (session_id, user_id, role, content)
select md5('s' || u)::uuid, md5('u' || u)::uuid, 'user', t.text
from generate_series(1, $1::integer) u
cross join lateral (values ('I live in Town' || $2::text), ('I am allergic to nuts')) as t(text)
order by u, t.text
"""


def town(number: int) -> str:
    """The end of a name, in letters."""
    return str(number).translate(str.maketrans("0123456789", "abcdefghij"))


async def test_each_fact_is_one_memory_although_daemons_are_killed(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    dice = random.Random(20261122)
    for move in range(MOVES):
        await connection.execute(SAY, USERS, town(move))
        if move % (MOVES // KILLS) == 0:
            daemon = await daemons.start(claim_seconds=1, poll_seconds=0.3, max_attempts=KILLS + 2)
            # The moment is the point: no event marks it.
            await asyncio.sleep(dice.uniform(0.0, 0.2))
            await daemon.kill()
    await daemons.start(claim_seconds=1, poll_seconds=0.3)
    await until(connection, IDLE)
    rows = await connection.fetch(
        "select user_id, content, superseded_by, metadata ->> 'count' as count from agent_memory order by created_at, content"
    )
    towns: dict[UUID, list[str]] = {}
    for row in rows:
        if "allergic" in row["content"]:
            assert row["count"] == str(MOVES)
            assert row["superseded_by"] is None
        else:
            towns.setdefault(row["user_id"], []).append(row["content"])
            assert (row["superseded_by"] is None) == row["content"].endswith(f"Town{town(MOVES - 1)}.")
    assert list(towns.values()) == [[f"The user lives in Town{town(n)}." for n in range(MOVES)]] * USERS
    assert len(rows) == USERS * (MOVES + 1)
