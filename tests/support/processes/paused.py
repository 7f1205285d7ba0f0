"""Daemons that stop in the middle: with nothing written yet, or with all written and nothing committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import asyncpg

from tests.support.waiting import awaited, until

GATE = 4711
Moment = Literal["before", "after"]

# Only of daemons, by the name that their connections have. A job is deleted before its effects are written; deferred, the
# trigger waits at the commit.
TRIGGERS = f"""
create function public.pause() returns trigger language plpgsql as $$
begin
    if current_setting('application_name') = 'memoryd' then
        perform pg_advisory_xact_lock_shared({GATE});
    end if;
    return coalesce(new, old);
end $$;
alter function public.pause() security definer;
"""
AT = {
    "before": "create trigger pause before delete on memoryd.jobs for each statement execute function public.pause()",
    "after": (
        "create constraint trigger pause after delete on memoryd.jobs deferrable initially deferred "
        "for each row execute function public.pause()"
    ),
}
PAUSED = awaited(f"l.locktype = 'advisory' and l.objid = {GATE}")
WAITING = "select wait_event_type in ('Lock', 'Timeout') from pg_stat_activity where pid = $1"


async def pausing(connection: asyncpg.Connection, moment: Moment | str) -> None:
    """From now on daemons stop at this moment of every job, or where this trigger says, while the gate is locked."""
    await connection.execute(TRIGGERS)
    await connection.execute(AT.get(moment, moment))


@asynccontextmanager
async def gate_closed(owner: asyncpg.Connection) -> AsyncIterator[None]:
    """While this lasts daemons stop."""
    await owner.execute(f"select pg_advisory_lock({GATE})")
    try:
        yield
    finally:
        await owner.execute(f"select pg_advisory_unlock({GATE})")


async def meanwhile(
    connection: asyncpg.Connection, watcher: asyncpg.Connection, sql: str, *args: object
) -> asyncio.Task[str]:
    """Begins a statement; returns once it is done, or waits for a lock."""
    pid = connection.get_server_pid()
    task = asyncio.create_task(connection.execute(sql, *args))
    await asyncio.sleep(0)
    while not task.done() and not await watcher.fetchval(WAITING, pid):
        await asyncio.sleep(0.01)
    return task


async def paused(watcher: asyncpg.Connection) -> None:
    """Waits until a daemon has stopped."""
    await until(watcher, PAUSED)


OUTCOME = """
insert into agent_commands (agent_id, message, status, output, exit_code)
values ('alice', 'deploy the server', 'completed', 'deployed', 0)
"""

COMMIT_WAITS = """
select exists (select from pg_stat_activity
               where datname = current_database() and application_name = 'memoryd' and wait_event_type = 'Lock')
"""


@asynccontextmanager
async def commit_held_up(url: str, connection: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """An outcome whose capture cannot be committed until the block is left, or the connection it yields closed."""
    blocker = await asyncpg.connect(url)
    try:
        await blocker.execute("begin; lock table agent_memory in share mode")
        await connection.execute(OUTCOME)
        await until(connection, COMMIT_WAITS)
        yield blocker
    finally:
        await blocker.close()
