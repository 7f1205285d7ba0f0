"""Indexes of memories that an existing database lacks: of their keys, and of the memories that replaced them.

Promise: built after the upgrade was committed, while others read and write, however many migrate at once. A build that a kill
has left is made again by the next `memoryd migrate`. Until the index of keys is there, a memory with a key is refused; until
the other one is, the history of a memory is found slowly.
"""

from __future__ import annotations

import asyncio
import random

import asyncpg

from daemon.db.apply import IN_THE_WAY
from daemon.db.plan import MigrationError

TRIES = 20
A_DAY = 86_400.0
"""In seconds: more than the build takes."""

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
        if not await connection.fetchval(STATE, name, column):
            await _build(connection, name, column, build)


async def _build(connection: asyncpg.Connection, name: str, column: str, build: str) -> None:
    fault: Exception | None = None
    await connection.execute("set statement_timeout = 0")
    try:
        for _ in range(TRIES):
            valid = await connection.fetchval(STATE, name, column)
            if valid:
                return
            try:
                await connection.execute(build if valid is None else BUILD_AGAIN.format(name), timeout=A_DAY)
            except IN_THE_WAY as error:
                fault = error
                await asyncio.sleep(random.uniform(0.1, 1))
    finally:
        await connection.execute("reset statement_timeout")
    raise MigrationError(
        f"The upgrade is done, but the index {name} could not be built yet ({fault}). Run again: memoryd migrate"
    )
