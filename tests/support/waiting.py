"""Waiting for a state of the database that announces itself in no other way."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

POLL_SECONDS, MOST_SECONDS = 0.01, 0.1
PART = 0.1
"""Of the time that it has waited: what is awaited for long is asked for less often, and is seen a tenth later at most."""


async def until(connection: asyncpg.Connection, sql: str, *args: object, timeout: float = 90.0) -> Any:
    """The first value of the query once it is neither null nor false."""
    try:
        async with asyncio.timeout(timeout):
            begun = asyncio.get_running_loop().time()
            while not (value := await connection.fetchval(sql, *args)):
                waited = asyncio.get_running_loop().time() - begun
                await asyncio.sleep(min(max(waited * PART, POLL_SECONDS), MOST_SECONDS))
                if connection.is_in_transaction():
                    # Within one pg_stat_activity shows what it showed first.
                    await connection.execute("select pg_stat_clear_snapshot()")
            return value
    except TimeoutError:
        raise AssertionError(f"not within {timeout} s: {sql}; jobs: {await _jobs(connection)}") from None


async def _jobs(connection: asyncpg.Connection) -> list[dict[str, object]]:
    """What the queue still has, for the message of a failure."""
    if await connection.fetchval("select to_regclass('memoryd.jobs') is null"):
        return []
    return [
        dict(row)
        for row in await connection.fetch(
            "select topic, attempt, snoozes, claimed_by is not null as claimed, "
            "visible_at - now() as visible_in, last_error, count(*) from memoryd.jobs group by 1, 2, 3, 4, 5, 6 limit 20"
        )
    ]


async def beats(connection: asyncpg.Connection, times: int = 3) -> None:
    """Waits until every daemon's heart has beaten so often: each time it has asked itself whether to dream."""
    for _ in range(times):
        last = await until(connection, "select max(seen_at) from memoryd.daemons")
        await until(connection, "select min(seen_at) > $1 from memoryd.daemons", last)


def awaited(lock: str) -> str:
    """A query: somebody waits for a lock like this one, in this database. Other tests have databases in the same server, and
    copies of one template have the same oids."""
    return AWAITED.format(lock)


READY = "select status = 'ready' from agent_commands where id = $1"
"""A command has its context."""

FINISHED = "select status in ('completed', 'failed') from agent_commands where id = $1"
"""A command has its outcome."""

ANSWERED = "select status <> 'pending' from memory_requests where id = $1"
"""A request has its answer."""

IDLE = "select not exists (select from memoryd.jobs)"
"""Every job is completed or a dead letter."""

BLOCKED = """
select exists (
    select from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and cardinality(pg_blocking_pids(pid)) > 0)
"""
"""Another session of this database waits for a lock."""

AWAITED = """
select exists (select from pg_locks l join pg_database d on d.oid = l.database and d.datname = current_database()
               where not l.granted and {})
"""

RESCHEDULED = "select exists (select from memoryd.jobs where topic = 'index' and attempt = 0 and visible_at > created_at)"
"""The index met a row that another transaction has locked, and has a job for later."""

MUCH_WORK = "insert into memoryd.jobs (topic) select 'of nobody' from generate_series(1, 1000)"
"""So many jobs that what has time waits; no daemon takes them."""
