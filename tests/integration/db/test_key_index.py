"""The indexes of a database that had memories before them: built beside writers, by as many as migrate at once."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from daemon.db.indexes import INDEXES, STATE, build_late_indexes
from tests.support.database.schemas import connected

KEEP = "select what from remember('x', 'alice', key => 'k')"


async def finished(connection: asyncpg.Connection) -> bool:
    return all([await connection.fetchval(STATE, *index) for index in INDEXES])


async def build(url: str) -> None:
    async with connected(url) as connection:
        await build_late_indexes(connection)


async def test_many_build_the_index_of_keys_while_others_write(database_url: str) -> None:
    async with connected(database_url) as connection:
        await connection.execute("insert into agent_memory (agent_id, content) values ('alice', 'of before')")
        await connection.execute("drop index agent_memory_key, agent_memory_superseded")
        with pytest.raises(asyncpg.InvalidColumnReferenceError):
            await connection.fetchval(KEEP)
        await asyncio.gather(*(build(database_url) for _ in range(3)))
        assert await finished(connection)
        assert [await connection.fetchval(KEEP) for _ in range(2)] == ["stored", "replaced"]


async def test_a_build_that_was_killed_is_made_again(admin: asyncpg.Connection, database_url: str) -> None:
    async with connected(database_url) as connection:
        for name, _ in INDEXES:
            # Only a superuser writes the catalog, as a build does that ends in the middle.
            await admin.execute(
                "update pg_index set indisvalid = false where indexrelid = $1::regclass", name
            )
        assert not await finished(connection)
        await build(database_url)
        assert await finished(connection)
