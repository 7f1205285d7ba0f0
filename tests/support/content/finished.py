"""What must be true of a database once its daemons have done all there was to do."""

from __future__ import annotations

import asyncio

import asyncpg

from tests.support.content.index import STALE, UNINDEXED, stale
from tests.support.database.statistics import miscounted
from tests.support.rows import column
from tests.support.waiting import IDLE, until

# Nothing waits, nothing is claimed, nothing is dead, nothing is half done: one row of zeros.
LEFT_OVER = f"""
select (select count(*) from memoryd.jobs) as jobs,
       (select count(*) from memoryd.lanes where leased_until > now()) as leases,
       (select count(*) from memoryd.dead_letters) as dead_letters,
       (select count(*) from memoryd.executions) as executions,
       (select count(*) from agent_commands where status in ('pending', 'ready', 'running')) as unfinished,
       (select count(*) from memoryd.unindexed) as unindexed,
       (select count(*) from ({STALE}) s) as stale
"""

# One statement, so that nothing slips through between a command's end and the job that this makes.
QUIET = """
select not exists (select from memoryd.jobs)
   and not exists (select from agent_commands where status in ('pending', 'ready', 'running'))
"""

NOT_REMEMBERED_ONCE = """
select c.id, c.status, count(m.id) as memories
from agent_commands c
left join agent_memory m on m.command_id = c.id
where c.status in ('completed', 'failed')
group by c.id
having count(m.id) <> 1
"""

# Links lead to what was there before: both ways between two would be one too many.
LINKED_TWICE = """
select least(memory_id, related_memory_id), greatest(memory_id, related_memory_id)
from memory_associations
group by 1, 2
having count(*) > 1
"""


async def all_done(connection: asyncpg.Connection, *, timeout: float = 60.0) -> None:
    """Waits until no command and no job is left, and asserts that all was done, once."""
    await until(connection, QUIET, timeout=timeout)
    # A daemon that finds itself idle may dream, and an insight is work again.
    left: dict[str, int] = {}
    for _ in range(round(timeout / 0.1)):
        left = dict(await connection.fetchrow(LEFT_OVER) or {"nothing was read": 1})
        if not any(left.values()):
            break
        await asyncio.sleep(0.1)
    assert not any(left.values()), left
    assert await connection.fetch(NOT_REMEMBERED_ONCE) == []
    assert await connection.fetch(LINKED_TWICE) == []


async def all_indexed(connection: asyncpg.Connection) -> None:
    """Once the daemon has done all, entries and statistics are what they should be."""
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    assert await connection.fetchval("select count(*) from memoryd.unindexed") == 0
    assert await column(connection, UNINDEXED, None) == []
    assert await stale(connection) == []
    assert await miscounted(connection) == []
