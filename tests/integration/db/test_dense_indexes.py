"""Big tables get an IVFFlat index, in the background; recall finds with it what it finds without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest
from structlog.testing import capture_logs

from daemon.db.indexes import build_dense_indexes
from daemon.db.pool import Database
from daemon.logs import get_logger
from tests.support.content.index import UNINDEXED, index_rows
from tests.support.database.logins import GONE
from tests.support.database.owners import as_role
from tests.support.rows import column
from tests.support.waiting import MUCH_WORK

# Directions of their own, so that each one's nearest is itself.
REMEMBER = """
insert into agent_memory (agent_id, content, embedding)
select 'agent ' || n % 2, 'number ' || n,
       (select array_agg(sin(n * (d + 1.7)) order by d) from generate_series(1, 256) d)::real[]::vector
from generate_series($1::integer, $2::integer) n
"""
COUNT_IN = "select memoryd.fold_lexeme_changes()"
NEAREST = """
select r.content
from agent_memory m
cross join lateral recall('nothing of it', $2, query_embedding => m.embedding, match_count => 1) r
where m.content = $1
"""
INDEXES = r"select relname from pg_class where relname like '%\_lists\_%' order by 1"
SCANS = "select pg_stat_get_xact_numscans('memoryd.entries_lists_400'::regclass)"
NOTED = """
select split_part(key, '.', 2) as source, value ->> 'index_name' as index_name,
       (value ->> 'lists')::integer as lists, (value ->> 'rows')::bigint as rows
from memoryd.settings
where key like 'dense\\_index.%'
"""


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The database as the daemon opens it."""
    opened = await Database.open(database_url, size=3, pooled=False, logger=get_logger())
    yield opened
    await opened.close()


async def remember(connection: asyncpg.Connection, first: int, last: int) -> None:
    """Indexed memories, counted in."""
    await connection.execute(REMEMBER, first, last)
    assert (
        len(await index_rows(connection, "memory", await column(connection, UNINDEXED, "memory")))
        == last - first + 1
    )
    await connection.execute(COUNT_IN)


async def reads_the_index(connection: asyncpg.Connection) -> bool:
    """Whether a recall reads the lists. Within a transaction no count is moved to where all sessions see it."""
    async with connection.transaction():
        before = await connection.fetchval(SCANS)
        assert await connection.fetchval(NEAREST, "number 300", "agent 0") == "number 300"
        return bool(await connection.fetchval(SCANS) > before)


async def test_a_big_table_is_searched_by_an_ivfflat_index(
    connection: asyncpg.Connection, database: Database
) -> None:
    await remember(connection, 1, 400)
    await build_dense_indexes(database, get_logger(), min_rows=500)
    assert await column(connection, INDEXES) == []
    assert await connection.fetchval(NEAREST, "number 300", "agent 0") == "number 300"

    with capture_logs() as lines:
        await build_dense_indexes(database, get_logger(), min_rows=400)
        await build_dense_indexes(database, get_logger(), min_rows=400)
    assert [(x["event"], x["rows"]) for x in lines] == [("dense_index_built", 400)]
    assert [tuple(r) for r in await connection.fetch(NOTED)] == [("entries", "entries_lists_400", 50, 400)]
    # So few rows are looked through by code; as if the scope were a big one:
    assert not await reads_the_index(connection)
    await connection.execute(
        "update memoryd.settings set value = value || '{\"rows\": 0}' where key = 'dense_index.entries'"
    )
    assert await reads_the_index(connection)
    found = [await connection.fetchval(NEAREST, f"number {n}", "agent 0") for n in range(2, 400, 40)]
    assert found == [f"number {n}" for n in range(2, 400, 40)]


async def test_the_index_is_built_later_while_many_jobs_wait(
    connection: asyncpg.Connection, database: Database
) -> None:
    await remember(connection, 1, 100)
    await connection.execute(MUCH_WORK)
    await build_dense_indexes(database, get_logger(), min_rows=51)
    assert await column(connection, INDEXES) == []
    await build_dense_indexes(database, get_logger(), min_rows=50)
    assert await column(connection, INDEXES) == ["entries_lists_100"]
    await remember(connection, 101, 399)
    await build_dense_indexes(database, get_logger(), min_rows=50)
    assert await column(connection, INDEXES) == ["entries_lists_100"]
    await connection.execute("delete from memoryd.jobs")
    await build_dense_indexes(database, get_logger(), min_rows=50)
    assert await column(connection, INDEXES) == ["entries_lists_399"]


async def test_the_index_is_rebuilt_when_the_table_has_doubled(
    connection: asyncpg.Connection, database: Database
) -> None:
    await remember(connection, 1, 100)
    await build_dense_indexes(database, get_logger(), min_rows=100)
    await remember(connection, 101, 199)
    await build_dense_indexes(database, get_logger(), min_rows=100)
    assert await column(connection, INDEXES) == ["entries_lists_100"]
    await remember(connection, 200, 200)
    # As a daemon leaves it that was killed while it built.
    await connection.execute("create index entries_lists_200 on memoryd.entries (id)")
    await build_dense_indexes(database, get_logger(), min_rows=100)
    assert await column(connection, INDEXES) == ["entries_lists_200"]
    assert [tuple(r)[1:] for r in await connection.fetch(NOTED)] == [("entries_lists_200", 50, 200)]
    assert (
        await connection.fetchval(
            "select am.amname from pg_class c join pg_am am on am.oid = c.relam where c.relname = 'entries_lists_200'"
        )
        == "ivfflat"
    )


async def test_a_role_that_may_not_build_the_index_logs_that_and_continues(
    connection: asyncpg.Connection, database: Database, database_url: str
) -> None:
    await remember(connection, 1, 100)
    await connection.execute("create role lodger login; grant memoryd_service to lodger with inherit true")
    try:
        await connection.execute(f"grant connect on database {urlsplit(database_url).path[1:]} to lodger")
        await connection.execute("grant usage on schema memoryd to lodger")
        await connection.execute("grant select on all tables in schema memoryd to lodger")
        await connection.execute("grant execute on function memoryd.is_busy() to lodger")
        lodger = await Database.open(
            as_role(database_url, "lodger"), size=3, pooled=False, logger=get_logger()
        )
        with capture_logs() as lines:
            await build_dense_indexes(lodger, get_logger(), min_rows=100)
        await lodger.close()
        assert [(x["event"], x["hint"]) for x in lines] == [
            ("dense_index_not_built", "run one daemon as the owner of the tables")
        ]
        assert await column(connection, INDEXES) == []
    finally:
        await connection.execute(GONE.format("lodger"))
