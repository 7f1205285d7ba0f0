"""Which dream runs, and its figures: a row of dream_sessions under a unique index, with a lease.

Promise: one dream at a time across daemons, also behind a pooler and after a kill -9. An idle dream ends when
anybody asks or writes anything, or a load arrives; an overdue one only when a load arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from handlers.shared.ports import Store

MIN_MEMORIES = 3
LEASE_SECONDS = 20.0
"""Shorter than a claim: when a killed daemon's request is taken up again, its dream has ended."""
RENEW_SECONDS = 1.0

Start = Literal["idle", "manual"]
"""Causes of a dream. An idle dream may turn out to be overdue: the fleet was never idle for that long."""


def _active_since(moment: str) -> str:
    """SQL: whether after `moment` anybody asked, told or wrote anything, or the fleet was not there yet.

    Each line reads the newest row of an index. Reads that leave no row in memory_queries, and changes of users' rows, are
    seen in the audit trail. What memoryd deletes, archives or notes by itself is no activity, nor is support that looks.
    """
    return f"""
(exists (select from public.agent_commands c where c.status = 'running')
 or greatest(
    (select min(i.applied_at) from memoryd.migrations i),
    (select max(c.created_at) from public.agent_commands c where c.created_at <= now()),
    (select max(m.created_at) from public.conversation_messages m where m.created_at <= now()),
    (select max(r.created_at) from public.memory_requests r where r.created_at <= now() and r.kind <> 'dream'),
    (select max(q.query_time) from public.memory_queries q where q.query_time <= now()),
    (select max(m.created_at at time zone 'utc') from public.agent_memory m
     where m.created_at at time zone 'utc' <= now() at time zone 'utc'
       and m.source is distinct from 'anchor') at time zone 'utc',
    (select max(d.updated_at) from public.documents d where d.updated_at <= now()),
    (select max(k.updated_at) from public.shared_knowledge k where k.updated_at <= now() and k.status <> 'archived'),
    (select max(l.created_at) from public.agent_execution_logs l
     where l.created_at > {moment} and l.created_at <= now()
       and l.action_type <> 'admin_read' and (l.action_type <> 'memory_write' or l.step_name like 'update %'))
 ) > {moment})"""


_QUIET = f"""
       not exists (select from public.dream_sessions d where d.status = 'completed'
                   and d.finished_at > now() - make_interval(secs => $2))
   and {_active_since("now() - make_interval(secs => $1)")} is not true
"""

# The last dream is too long ago; before the first one, the installation.
_OVERDUE = """
       not exists (select from public.dream_sessions d where d.status = 'completed'
                   and d.finished_at > now() - make_interval(secs => $5))
   and exists (select from memoryd.migrations m where m.applied_at <= now() - make_interval(secs => $5))
"""

_POSSIBLE = """
       not exists (select from public.dream_sessions d where d.status = 'running' and d.lease_until > now())
   and (select count(*) from (select from public.agent_memory m
                              where m.created_at at time zone 'utc'
                                    > (now() - make_interval(secs => $3)) at time zone 'utc'
                              limit $4) m) = $4
   and not memoryd.is_busy()
"""
DUE = f"select ({_QUIET} or {_OVERDUE}) and {_POSSIBLE}"

# Begins and ends of dreams take this lock and then read the clock, so a dream that begins after another one has a later time.
LOCK = "select memoryd.lock('dream_sessions')"

END_DEAD = """
update public.dream_sessions
set status = 'interrupted', finished_at = clock_timestamp()
where status = 'running' and lease_until < now()
"""
FIND_DEAD = (
    "select exists (select from public.dream_sessions where status = 'running' and lease_until < now())"
)

BEGIN = """
insert into public.dream_sessions (started_by, started_at, lease_until)
values ('manual', clock_timestamp(), now() + make_interval(secs => $1))
on conflict do nothing
returning id
"""

# Asked once more: since this daemon found a dream due, another may have dreamt it from beginning to end.
BEGIN_IDLE = f"""
insert into public.dream_sessions (started_by, started_at, lease_until)
select case when {_QUIET} then 'idle' else 'overdue' end, clock_timestamp(), now() + make_interval(secs => $6)
where ({_QUIET} or {_OVERDUE}) and {_POSSIBLE}
on conflict do nothing
returning id
"""

# No row when the dream is no longer ours, or gives way: an idle one to any activity, an overdue one to a load.
RENEW = f"""
update public.dream_sessions d
set lease_until = now() + make_interval(secs => $2)
where d.id = $1
  and d.status = 'running'
  and (d.started_by = 'manual'
       or not memoryd.is_busy()
          and (d.started_by = 'overdue'
               or {_active_since("d.started_at")} is not true))
returning 1
"""

FINISH = """
update public.dream_sessions
set status = $2, finished_at = clock_timestamp(), memories_scanned = $3, clusters_found = $4, insights_generated = $5,
    associations_pruned = $6, insights_judged = $7, insights_redrawn = $8, links_faded = $9
where id = $1 and status = 'running'
"""


@dataclass(frozen=True, slots=True)
class DreamReport:
    dream_id: UUID
    status: Literal["completed", "interrupted"]
    memories_scanned: int = 0
    clusters_found: int = 0
    insights_generated: int = 0
    insights_judged: int = 0
    """Insights of earlier dreams whose confidence changed by what happened since."""
    insights_redrawn: int = 0
    """Insights that were drawn again, or deleted, because memories that they were drawn from changed or went."""
    links_faded: int = 0
    associations_pruned: int = 0


@dataclass(frozen=True, slots=True)
class DreamTimes:
    """When a dream is due: the fleet is quiet for so long and the last dream so long ago, or the last dream is overdue; and in
    the window are memories."""

    idle_seconds: float
    every_seconds: float
    window_seconds: float
    overdue_seconds: float

    @property
    def arguments(self) -> tuple[float, float, float, int, float]:
        """The arguments of the statements that decide whether a dream is due."""
        return (
            self.idle_seconds,
            self.every_seconds,
            self.window_seconds,
            MIN_MEMORIES,
            self.overdue_seconds,
        )


async def end_dead(store: Store) -> bool:
    """Ends a dream whose daemon died: until then its row says running. Whether there was one."""
    if not await store.fetchval(FIND_DEAD):
        return False
    async with store.transaction() as connection:
        await connection.execute(LOCK)
        return bool(await connection.fetch(f"{END_DEAD} returning id"))


async def begin(store: Store, start: Start, when: DreamTimes) -> UUID | None:
    """The id of a dream that is ours now; None when another dream is running, or an idle one is not due."""
    async with store.transaction() as connection:
        await connection.execute(LOCK)
        await connection.execute(END_DEAD)
        if start == "manual":
            dream_id: UUID | None = await connection.fetchval(BEGIN, LEASE_SECONDS)
        else:
            dream_id = await connection.fetchval(BEGIN_IDLE, *when.arguments, LEASE_SECONDS)
        return dream_id


@asynccontextmanager
async def renewed(store: Store, dream_id: UUID) -> AsyncIterator[asyncio.Event]:
    """Renews the lease; the event is set when the dream must end."""
    lost = asyncio.Event()

    async def renew() -> None:
        while await store.fetchval(RENEW, dream_id, LEASE_SECONDS):
            await asyncio.sleep(RENEW_SECONDS)
        lost.set()

    renewing = asyncio.create_task(renew())
    renewing.add_done_callback(lambda _task: lost.set())
    try:
        yield lost
    finally:
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing


async def finish(store: Store, report: DreamReport) -> None:
    """Writes how a dream ended, unless it was ended before."""
    async with store.transaction() as connection:
        await connection.execute(LOCK)
        await connection.execute(
            FINISH,
            report.dream_id,
            report.status,
            report.memories_scanned,
            report.clusters_found,
            report.insights_generated,
            report.associations_pruned,
            report.insights_judged,
            report.insights_redrawn,
            report.links_faded,
        )
