"""Generations of entries: begun, exchanged and deleted, by one process at a time (see functions/reembed/generations.sql).

Promise: each step is one transaction that waits for locks only briefly, again and again, so that nobody waits long behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.apply import Patience
from daemon.db.errors import IN_THE_WAY, MigrationError
from daemon.db.lease import Lease
from daemon.db.pool import Database, connected
from daemon.db.settings import Model

LEASE = Lease("reembed", 15.0)
"""How long the next one waits after a kill -9."""
PREVIOUS_DAYS = 30.0
"""How long the embeddings of the model before are kept, so that one can go back."""
LOOK_SECONDS = 0.5
LOCK_MILLISECONDS = 200
A_DAY = 86_400.0

LEASED_UNTIL = "select leased_until from memoryd.lanes where topic = 'reembed' and lane = 'build'"
COUNT = """
select (select count(*) from memoryd.entries),
       (select count(*) from memoryd.spare_entries where code is not null)
"""
BEGIN = "select memoryd.begin_generation($1, $2, $3::jsonb)"
DROP = "select memoryd.drop_generation()"
RECONCILE = "select memoryd.reconcile_generation(false)"
SWAP = "select memoryd.swap_generations()"
OUTDATED = """
select exists (
    select from memoryd.settings s
    where s.key = 'spare' and s.value ->> 'state' = 'kept'
      and (s.value ->> 'since')::timestamptz < now() - make_interval(secs => $1::double precision * 86400))
"""


@asynccontextmanager
async def lease(database: Database) -> AsyncIterator[int]:
    """The right to change generations, and its token. Raises MigrationError where another process has it.

    The lease of a process that was killed is waited for.
    """
    token = await _acquire(database)
    async with LEASE.renewed(database, token):
        yield token


async def _acquire(database: Database) -> int:
    seen: datetime | None = None
    while True:
        token = await LEASE.take(database)
        if token is not None:
            return token
        until = await database.fetchval(LEASED_UNTIL)
        if seen is not None and until is not None and until > seen:
            raise MigrationError(
                "Another memoryd reembed is at work on this database. To see how far it is: memoryd reembed --status"
            )
        seen = until or seen
        await asyncio.sleep(LOOK_SECONDS)


async def count_passages(database: Database) -> tuple[int, int]:
    """Passages in all, and those that have an embedding in the spare generation."""
    row = await database.fetchrow(COUNT)
    assert row is not None
    return row[0], row[1]


async def begin(database: Database, model: Model) -> None:
    """Makes an empty generation for a model. Raises MigrationError where open transactions are in the way."""
    await _in_one_moment(
        database, BEGIN, model.embedder, model.dimensions, json.dumps(asdict(model.instructions))
    )


async def drop(database: Database) -> None:
    """Deletes the spare generation. Raises MigrationError as `begin`."""
    await _in_one_moment(database, DROP)


async def drop_outdated(database: Database, logger: FilteringBoundLogger) -> int:
    """Deletes the embeddings of the model before, when they have been kept for long. Returns 1 where there were such."""
    if not await database.fetchval(OUTDATED, PREVIOUS_DAYS):
        return 0
    try:
        async with lease(database):
            if not await database.fetchval(OUTDATED, PREVIOUS_DAYS):
                return 0  # somebody was quicker, or went back to it
            await drop(database)
    except MigrationError as error:
        logger.info("previous_embeddings_kept", reason=str(error))
    else:
        logger.info("previous_embeddings_dropped", days=PREVIOUS_DAYS)
    return 1


async def swap(database: Database) -> int:
    """Lets recall use the spare generation, and keeps the other; returns how many rows are queued to be embedded.

    Raises MigrationError as `begin`.
    """
    return int(await _in_one_moment(database, SWAP))


async def prepare_swap(database: Database) -> None:
    """Does beforehand what needs no lock: what transactions left behind, and what the planner must know of the table."""
    async with database.transaction() as connection:
        await connection.execute(RECONCILE, timeout=A_DAY)
    async with connected(database.url, pooled=database.pooled, application="memoryd reembed") as connection:
        await connection.execute("vacuum (analyze) memoryd.spare_entries", timeout=A_DAY)


async def _in_one_moment(database: Database, sql: str, *args: object) -> Any:
    patience = Patience()
    while True:
        try:
            async with database.transaction() as connection:
                await connection.execute(f"set local lock_timeout = {LOCK_MILLISECONDS}")
                return await connection.fetchval(sql, *args, timeout=A_DAY)
        except (*IN_THE_WAY, asyncpg.SerializationError) as error:
            await patience.wait(error)
