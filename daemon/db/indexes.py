"""Indexes that are built beside the schema, while others read and write.

The IVFFlat index by which recall searches many passages by meaning is built in bulk, by one daemon at a time, and again when
the rows have outgrown it; it is left out with one line where this role or this pooler may not build. Until there is one,
recall looks through the codes of the embeddings.

Indexes of memories that an existing database lacks, of their keys and of the memories that replaced them, are built after the
upgrade was committed, however many migrate at once; a build that a kill has left is made again by the next `memoryd migrate`.
Until the index of keys is there, a memory with a key is refused; until the other one is, the history of a memory is found
slowly.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from math import isqrt

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import IN_THE_WAY, MigrationError
from daemon.db.lease import Lease
from daemon.db.pool import POSTGRES_NAMES, Database, connected, pin
from daemon.db.settings import READ_SETTING

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
    has nothing to build waits for none. If the lease is lost, two builds of a table wait for each other: Postgres makes one at
    a time.

    Returns how many are wanted. Raises what `DATABASE_FAULTS` names when the database is gone.
    """
    wanted = await database.fetch(WANTED, min_rows, OUTGROWN, OVERDUE)
    if not wanted or database.pooled:
        return 0
    async with turn(), AsyncExitStack() as leased:
        try:
            token = await LEASE.take(database)
        except asyncpg.InsufficientPrivilegeError:
            pass  # then it may not build either: the build itself reports that
        else:
            if token is None:
                return len(wanted)
            await leased.enter_async_context(LEASE.renewed(database, token))
        await _build(database, wanted[0]["rows"], logger)
    return len(wanted)


async def _build(database: Database, rows: int, logger: FilteringBoundLogger) -> None:
    dimensions = int(await database.fetchval(READ_SETTING, "dimensions"))
    if dimensions > MAX_DIMENSIONS:
        return
    began = time.perf_counter()
    try:
        lists = await _make(database, "entries", rows, dimensions)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ProgramLimitExceededError) as error:
        logger.warning(
            "dense_index_not_built",
            rows=rows,
            error=type(error).__name__,
            hint="run one daemon as the owner of the tables",
        )
    else:
        logger.info(
            "dense_index_built", rows=rows, lists=lists, seconds=round(time.perf_counter() - began, 1)
        )


async def build_spare_index(database: Database, *, rows: int, dimensions: int) -> None:
    """Builds the index of a generation that recall is about to use, where its number of `rows` needs one."""
    if rows >= MIN_ROWS and dimensions <= MAX_DIMENSIONS and not database.pooled:
        await _make(database, "spare_entries", rows, dimensions)


async def _make(database: Database, table: str, rows: int, dimensions: int) -> int:
    """Builds the index of one of the two tables of entries, on a connection of its own; returns its lists."""
    lists = max(MIN_LISTS, min(MAX_LISTS, isqrt(rows) * 3 // 2))
    name, schema = f"{table}_lists_{rows}", database.vector_schema
    async with connected(database.url, application="memoryd dense index") as connection:
        await pin(connection, POSTGRES_NAMES, scope="session", maintenance_work_mem=BUILD_MEMORY)
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


# --- Indexes of memories that an existing database lacks.

TRIES = 20

STATE = """
select case when exists (select from pg_attribute where attrelid = to_regclass('public.agent_memory') and attname = $2)
            then (select indisvalid from pg_index where indexrelid = to_regclass('public.' || $1))
            else true end
"""
"""Whether an index is there and finished; null: it is missing. Without its column there is nothing to build."""
INDEXES = {
    ("agent_memory_key", "key"): "create unique index concurrently if not exists agent_memory_key "
    "on public.agent_memory (scope, agent_id, key) where key is not null",
    (
        "agent_memory_superseded",
        "superseded_by",
    ): "create index concurrently if not exists agent_memory_superseded "
    "on public.agent_memory (superseded_by) where superseded_by is not null",
}
"""Each with the column that it needs, and its statement."""
BUILD_AGAIN = "reindex index concurrently public.{}"
"""It waits for a build that goes on elsewhere. To drop it first would drop what that one has built."""


async def build_late_indexes(connection: asyncpg.Connection) -> None:
    """Builds each index that is missing or unfinished; two builds at once may need to try again. Raises MigrationError."""
    for (name, column), build in INDEXES.items():
        if await connection.fetchval(STATE, name, column):
            continue
        fault: Exception | None = None
        await connection.execute("set statement_timeout = 0")
        try:
            for _ in range(TRIES):
                valid = await connection.fetchval(STATE, name, column)
                if valid:
                    break
                try:
                    again = build if valid is None else BUILD_AGAIN.format(name)
                    await connection.execute(again, timeout=A_DAY)
                except IN_THE_WAY as error:
                    fault = error
                    await asyncio.sleep(random.uniform(0.1, 1))
            else:
                raise MigrationError(
                    f"The upgrade is done, but the index {name} could not be built yet ({fault}). "
                    "Run again: memoryd migrate"
                )
        finally:
            await connection.execute("reset statement_timeout")
