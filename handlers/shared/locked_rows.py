"""Rows that another transaction has locked: each gets a new job for later, so that the rest of the batch does not wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from handlers.shared.ports import AnyConnection, Job

MIN_PAUSE, MAX_PAUSE = 1.0, 10.0
"""Seconds until the job for such a row may be claimed."""

# created_at is kept, so that `memoryd status` shows for how long rows have been waiting.
ASK_AGAIN = """
insert into memoryd.jobs (topic, ref, payload, created_at, visible_at, fair_at, tenant)
select $1, r.id, $2::jsonb, r.since, now() + make_interval(secs => r.pause), clock_timestamp() + make_interval(secs => r.pause),
       case when $1 = 'context' then (select memoryd.tenant_of(c.user_id) from public.agent_commands c where c.id = r.id) end
from unnest($3::uuid[], $4::timestamptz[], $5::double precision[]) as r(id, since, pause)
"""


async def enqueue_for_later(
    connection: AnyConnection, topic: str, locked: Sequence[UUID], jobs: Sequence[Job], *, payload: str | None
) -> set[float]:
    """Makes new jobs for the `locked` rows of these `jobs`, after pauses that grow with the time waited. Returns the pauses."""
    now = datetime.now(UTC)
    since = dict.fromkeys(locked, now)
    for job in jobs:
        if job.ref in since:
            since[job.ref] = min(since[job.ref], job.created_at)
    pauses = [
        min(MAX_PAUSE, max(MIN_PAUSE, round((now - one).total_seconds() / 4))) for one in since.values()
    ]
    await connection.execute(ASK_AGAIN, topic, payload, list(since), list(since.values()), pauses)
    return set(pauses)
