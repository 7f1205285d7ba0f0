"""The IVFFlat index by which recall searches many passages by meaning: built in bulk, and again when they have outgrown it.

Promise: never in the way of a write (concurrently, on a connection of its own), by one daemon at a time, and left out with one
line where this role or this pooler may not build. Until there is one, recall looks through the codes of the embeddings.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from math import isqrt

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.lease import Lease
from daemon.db.migrator import READ_SETTING
from daemon.db.pool import Database, connect

MIN_ROWS = 60_000
"""Rows from which an index is built: below that, comparing all codes is as quick, and finds more."""
OUTGROWN = 2
"""Times as many rows as it was built with: then it is built again."""
OVERDUE = 2
"""Times as many rows as it is due at: then it is built even while much work waits."""
MIN_LISTS, MAX_LISTS = 50, 1_500
"""Fifteen hundred lists are made in 450 MB; the memory grows with their square."""
MAX_DIMENSIONS = 4_000
"""Limit of pgvector for indexes of halfvec, which have half the size of vector and lose nothing."""
BUILD_MEMORY = "512MB"
A_DAY = 86_400.0
"""In seconds: more than any build takes."""

WANTED = """
select w.rows
from (select coalesce(sum(s.passages), 0)::bigint as rows from memoryd.scope_statistics s) w
left join memoryd.settings d on d.key = 'dense_index.entries'
cross join lateral (select greatest($1::bigint, coalesce($2 * (d.value ->> 'rows')::bigint, 0)) as rows) due
where w.rows >= due.rows
  -- Built while rows stream in, it would slow them down, and be outgrown at once.
  and (w.rows >= $3 * due.rows or not memoryd.is_busy())
"""
LEASE = Lease("dense_indexes", 60.0)

LEFT_OVER = """
select c.relname
from pg_index i join pg_class c on c.oid = i.indexrelid
where i.indrelid = to_regclass('memoryd.' || $1) and c.relname like $1 || '_lists_%'
"""
SAVE = """
insert into memoryd.settings (key, value)
values ('dense_index.' || $4, jsonb_build_object('index_name', $1::text, 'lists', $2::integer, 'rows', $3::bigint))
on conflict (key) do update set value = excluded.value, updated_at = now()
"""


async def build_dense_indexes(
    database: Database,
    logger: FilteringBoundLogger,
    *,
    min_rows: int = MIN_ROWS,
    turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> int:
    """Builds the index where there are `min_rows` passages and more and none, or they have outgrown it.

    While much work waits the build is delayed, until there are `OVERDUE` times as many rows. `turn`: within it is built; who
    has nothing to build waits for none.

    Returns how many are wanted. Raises what `DATABASE_FAULTS` names when the database is gone.
    """
    wanted = await database.fetch(WANTED, min_rows, OUTGROWN, OVERDUE)
    if not wanted or database.pooled:
        return 0
    async with turn(), _build_lease(database) as leased:
        if not leased:
            return len(wanted)
        connection = await connect(database.url, application="memoryd dense index")
        try:
            await _try_to_build(connection, wanted[0]["rows"], database.vector_schema, logger)
        finally:
            await connection.close()
    return len(wanted)


@asynccontextmanager
async def _build_lease(database: Database) -> AsyncIterator[bool]:
    """Whether this daemon has the lease to build; the lease is renewed meanwhile and returned at the end.

    If a lease is lost all the same, two builds of a table wait for each other: Postgres makes one at a time.
    """
    try:
        token = await LEASE.take(database)
    except asyncpg.InsufficientPrivilegeError:
        # Then it may not build either: the build itself reports that.
        yield True
        return
    if token is None:
        yield False
        return
    async with LEASE.renewed(database, token):
        yield True


async def _try_to_build(
    connection: asyncpg.Connection, rows: int, schema: str, logger: FilteringBoundLogger
) -> None:
    try:
        await _build(connection, rows, schema, logger)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ProgramLimitExceededError) as error:
        logger.warning(
            "dense_index_not_built",
            rows=rows,
            error=type(error).__name__,
            hint="run one daemon as the owner of the tables",
        )


async def build_spare_index(database: Database, *, rows: int, dimensions: int) -> None:
    """Builds the index of a generation that recall is about to use, where its number of `rows` needs one."""
    if rows < MIN_ROWS or dimensions > MAX_DIMENSIONS or database.pooled:
        return
    connection = await connect(database.url, application="memoryd dense index")
    try:
        await _make(connection, "spare_entries", rows, dimensions, database.vector_schema)
    finally:
        await connection.close()


async def _build(
    connection: asyncpg.Connection, rows: int, schema: str, logger: FilteringBoundLogger
) -> None:
    dimensions = int(await connection.fetchval(READ_SETTING, "dimensions"))
    if dimensions > MAX_DIMENSIONS:
        return
    began = time.perf_counter()
    lists = await _make(connection, "entries", rows, dimensions, schema)
    logger.info(
        "dense_index_built",
        rows=rows,
        lists=lists,
        seconds=round(time.perf_counter() - began, 1),
    )


async def _make(connection: asyncpg.Connection, table: str, rows: int, dimensions: int, schema: str) -> int:
    """Builds the index of one of the two tables of entries; returns its lists."""
    lists = max(MIN_LISTS, min(MAX_LISTS, isqrt(rows) * 3 // 2))
    name = f"{table}_lists_{rows}"
    await connection.execute(f"set maintenance_work_mem = '{BUILD_MEMORY}'; set statement_timeout = 0")
    old = [r["relname"] for r in await connection.fetch(LEFT_OVER, table)]
    if name in old:
        # Begun once, and not ended: a name that is taken is of no use.
        await connection.execute(f'drop index concurrently if exists memoryd."{name}"', timeout=A_DAY)
    await connection.execute(
        f'create index concurrently "{name}" on memoryd.{table} '
        f'using ivfflat ((embedding::"{schema}".halfvec({dimensions})) "{schema}".halfvec_cosine_ops) '
        f"with (lists = {lists})",
        timeout=A_DAY,
    )
    await connection.execute(SAVE, name, lists, rows, table)
    for leftover in (n for n in old if n != name):
        await connection.execute(f'drop index concurrently if exists memoryd."{leftover}"', timeout=A_DAY)
    return lists
