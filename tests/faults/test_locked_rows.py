"""A transaction that somebody leaves open on a row delays that row alone: not its batch, and not its session."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.daemons import Daemons
from tests.support.rows import column, remember
from tests.support.sources import TABLES, one_of_each
from tests.support.waiting import IDLE, until

INDEXED = " and ".join(
    f"(select lexemes is not null and code is not null from {table} where id = any($1))"
    for table, _ in TABLES.values()
)


@pytest.mark.parametrize("hold", ["select from {} where id = $1 for update", "delete from {} where id = $1"])
async def test_a_row_that_is_held_is_indexed_later_and_the_others_now(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, hold: str
) -> None:
    held = await one_of_each(connection, "boats in May")
    free = await one_of_each(connection, "blue fish")
    async with second.transaction():
        for source, (table, _) in TABLES.items():
            await second.execute(hold.format(table), held[source])
        await daemons.start(poll_seconds=0.2)
        await until(connection, f"select {INDEXED}", list(free.values()))
        assert await connection.fetchval(f"select not ({INDEXED})", list(held.values()))
    await until(connection, IDLE)
    if "delete" not in hold:
        assert await connection.fetchval(f"select {INDEXED}", list(held.values()))
    assert await connection.fetchval("select count(*) from memoryd.dead_jobs") == 0


@pytest.mark.parametrize("hold", ["select from {} where id = $1 for update", "delete from {} where id = $1"])
async def test_links_to_others_do_not_wait_for_a_memory_that_is_held(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, hold: str
) -> None:
    await daemons.start()
    held, other = [await remember(connection, f"boats in {month}") for month in ("May", "June")]
    await until(connection, IDLE)
    async with second.transaction():
        await second.execute(hold.format("agent_memory"), held)
        new = await remember(connection, "boats in July")
        await until(connection, IDLE)
        linked = await column(
            connection, "select related_memory_id from memory_associations where memory_id = $1", new
        )
        assert linked == [other]
