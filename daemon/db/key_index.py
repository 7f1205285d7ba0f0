"""The index of the keys of memories, in a database that had memories before these could have keys.

Promise: built after the upgrade was committed, while others read and write, however many migrate at once. A build that a kill
has left is made again by the next `memoryd migrate`. Until the index is there, a memory with a key is refused.
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
select case when exists (select from pg_attribute where attrelid = to_regclass('public.agent_memory') and attname = 'key')
            then (select indisvalid from pg_index where indexrelid = to_regclass('public.agent_memory_key'))
            else true end
"""
"""Whether it is there and finished; null: it is missing. There is nothing to build for a memory without keys."""
BUILD = """
create unique index concurrently if not exists agent_memory_key on public.agent_memory (scope, agent_id, key)
    where key is not null
"""
BUILD_AGAIN = "reindex index concurrently public.agent_memory_key"
"""It waits for a build that goes on elsewhere. To drop it first would drop what that one has built."""


async def build_key_index(connection: asyncpg.Connection) -> None:
    """Builds the index where it is missing or unfinished; two builds at once may need to try again. Raises MigrationError."""
    if await connection.fetchval(STATE):
        return
    fault: Exception | None = None
    await connection.execute("set statement_timeout = 0")
    try:
        for _ in range(TRIES):
            valid = await connection.fetchval(STATE)
            if valid:
                return
            try:
                await connection.execute(BUILD if valid is None else BUILD_AGAIN, timeout=A_DAY)
            except IN_THE_WAY as error:
                fault = error
                await asyncio.sleep(random.uniform(0.1, 1))
    finally:
        await connection.execute("reset statement_timeout")
    raise MigrationError(
        f"The upgrade is done, but the index of keys could not be built yet ({fault}). Run again: memoryd migrate"
    )
