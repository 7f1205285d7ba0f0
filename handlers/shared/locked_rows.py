"""Rows that somebody's transaction holds: they are asked for again, each alone, and the others of the batch do not wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from handlers.shared.ports import AnyConnection, Job

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 10.0
"""Seconds after which such a row is asked for again."""

# The age is kept, so that `memoryd status` tells of rows that have long been held.
ASK_AGAIN = """
insert into memoryd.jobs (topic, ref, payload, created_at, visible_at, fair_at, tenant)
select $1, h.id, $2::jsonb, h.since, now() + make_interval(secs => h.pause), clock_timestamp() + make_interval(secs => h.pause),
       case when $1 = 'context' then (select memoryd.tenant_of(c.user_id) from public.agent_commands c where c.id = h.id) end
from unnest($3::uuid[], $4::timestamptz[], $5::double precision[]) as h(id, since, pause)
"""


async def ask_again(
    connection: AnyConnection, topic: str, held: Sequence[UUID], jobs: Sequence[Job], *, payload: str | None
) -> set[float]:
    """Makes new jobs for the rows `held` of these `jobs`, later the longer one has waited. Returns the pauses, in seconds."""
    now = datetime.now(UTC)
    since = dict.fromkeys(held, now)
    for job in jobs:
        if job.ref in since:
            since[job.ref] = min(since[job.ref], job.created_at)
    pauses = [
        min(LONGEST_PAUSE, max(SHORTEST_PAUSE, round((now - one).total_seconds() / 4)))
        for one in since.values()
    ]
    await connection.execute(ASK_AGAIN, topic, payload, list(since), list(since.values()), pauses)
    return set(pauses)
