"""The queue in Postgres: one function for each step in the life of a job, with its statement.

    waiting --claim--> claimed --complete---> deleted, in the transaction that writes its effects
                          |  \\--snooze-----> waiting, the attempt not counted: a provider is down, rows are locked by another
                          |  |               transaction, the database has an outage, the daemon stops
                          |  \\--retry------> waiting for a backoff, the attempt counted: the job failed
                          |  \\--hand_back--> waiting, the attempt counted: the connection was lost, or a provider fails for
                          |  |               this job and not for others
                          |  \\--discard----> a dead letter --requeue--> waiting, as a new job
                          \\--(its worker dies; the claim expires or is taken over)--> waiting, the attempt counted

Promise: a job's effects are written once. A job is completed only by the worker that still has its fencing tokens: (id,
attempt), and in a lane the token of the lane's lease. A worker that lost them deletes nothing, and so may write nothing. All
times are the database's now().
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from daemon.db.pool import Database
from handlers.shared.ports import AnyConnection, Job

MAX_ERROR_LENGTH = 2000
"""Characters of an error that are kept."""

# Suspects are never in one batch with fresh jobs, nor with suspects that have seen more deaths.
CLAIM = """
with due as materialized (
    select id, attempt - snoozes as deaths from memoryd.jobs
    where topic = $1 and lane is null and visible_at <= now() and attempt > snoozes
    order by fair_at, id
    limit $2::integer
    for update skip locked
), suspects as materialized (
    select d.id from due d
    where d.deaths = (select min(deaths) from due)
    order by d.id
    limit (select memoryd.suspects_to_try(min(deaths), $2::integer, $4::integer) from due)
), fresh as materialized (
    select id from memoryd.jobs
    where topic = $1 and lane is null and visible_at <= now() and attempt = snoozes
    order by fair_at, id
    limit $2::integer
    for update skip locked
)
update memoryd.jobs j
set visible_at = now() + make_interval(secs => $3), attempt = j.attempt + 1, claimed_by = coalesce($5, 0)
from (select id from fresh union all select id from suspects) due
where j.id = due.id
returning j.id, j.lane, j.ref, j.payload, j.attempt, j.snoozes, j.solo_attempts, j.created_at,
          extract(epoch from clock_timestamp() - j.created_at)::double precision as age
"""

CLAIM_LANES = """
select id, lane, ref, payload, attempt, snoozes, solo_attempts, created_at, token,
       extract(epoch from clock_timestamp() - created_at)::double precision as age
from memoryd.claim_lanes($1, $2, $3, make_interval(secs => $4), $5, $6)
"""

# Written before the attempt begins. Only this shows whether the worker died of this job, or of another one of its batch.
BEGIN_SOLO_ATTEMPT = (
    "update memoryd.jobs set solo_attempts = solo_attempts + 1 where id = $1 and attempt = $2"
)

# An upgrade locks memoryd.logins first: a transaction of effects comes to it first, too, so that neither waits for the other.
_GATE = "gate as (select from memoryd.logins limit 0)"

COMPLETE = f"""
with {_GATE}, done as (
    delete from memoryd.jobs j
    using unnest($1::bigint[], $2::integer[]) as s(id, attempt)
    where j.id = s.id and j.attempt = s.attempt
    returning j.id
)
select id from done
"""  # noqa: S608 - a constant of ours

# The lane is returned in the same transaction: the next worker can only begin once these effects are visible.
COMPLETE_LANES = f"""
with {_GATE}, leased as (
    update memoryd.lanes l
    set leased_until = case when $6 then '-infinity' else l.leased_until end
    from unnest($3::text[], $4::bigint[]) as h(lane, token)
    where l.topic = $5 and l.lane = h.lane and l.token = h.token
    returning l.lane
), done as (
    delete from memoryd.jobs j
    using unnest($1::bigint[], $2::integer[]) as s(id, attempt), leased
    where j.id = s.id and j.attempt = s.attempt and j.lane = leased.lane
    returning j.id
)
select id from done
"""  # noqa: S608 - a constant of ours

# After one of these two: the commit does not wait for the disk.
_SOON = "cross join set_config('synchronous_commit', 'off', true)"

# Only what is still claimed (claimed_by): a batch that ends hands all its jobs back, also those that it has handed back before,
# and one attempt must not be snoozed twice. $4 is 1 where the attempt is not counted (a snooze), else 0.
HAND_BACK = """
update memoryd.jobs j
set visible_at = now() + make_interval(secs => $3), snoozes = j.snoozes + $4::integer,
    solo_attempts = case when $4::integer > 0 then 0 else j.solo_attempts end, claimed_by = null,
    last_error = coalesce($5, j.last_error)
from unnest($1::bigint[], $2::integer[]) as s(id, attempt)
where j.id = s.id and j.attempt = s.attempt and j.claimed_by is not null
"""

RETRY = """
update memoryd.jobs j
set visible_at = now() + make_interval(secs => $3), solo_attempts = 0, claimed_by = null,
    last_error = coalesce($4, j.last_error)
where j.id = $1 and j.attempt = $2 and j.claimed_by is not null
"""

RETURN_LANES = """
update memoryd.lanes l
set leased_until = '-infinity', not_before = greatest(l.not_before, now() + make_interval(secs => $4))
from unnest($2::text[], $3::bigint[]) as h(lane, token)
where l.topic = $1 and l.lane = h.lane and l.token = h.token
"""

# A job that was handed back waits for its own time. A row that is locked is being completed or erased just now: it needs no
# renewal, and to wait for it could be a deadlock, since the other transaction may lock in another order.
RENEW = """
update memoryd.jobs j
set visible_at = now() + make_interval(secs => $3)
from (select k.id from unnest($1::bigint[], $2::integer[]) as s(id, attempt)
      join memoryd.jobs k on k.id = s.id and k.attempt = s.attempt
      where k.lane is null and k.claimed_by is not null
      for update of k skip locked) mine
where j.id = mine.id
"""

RENEW_LANES = """
update memoryd.lanes l
set leased_until = now() + make_interval(secs => $4)
from (select k.topic, k.lane from unnest($2::text[], $3::bigint[]) as h(lane, token)
      join memoryd.lanes k on k.topic = $1 and k.lane = h.lane and k.token = h.token
      where k.leased_until > now()
      for update of k skip locked) mine
where l.topic = mine.topic and l.lane = mine.lane
"""

RELEASE = """
with jobs as (
    update memoryd.jobs j set visible_at = now()
    where j.topic = $1 and j.claimed_by = $2 and j.lane is null and j.visible_at > now() and j.id <> all($3::bigint[])
    returning 1
), lanes as (
    update memoryd.lanes l set leased_until = '-infinity', leased_by = null
    where l.topic = $1 and l.leased_by = $2 and l.leased_until > now() and l.lane <> all($4::text[])
    returning 1
)
select (select count(*) from jobs) as jobs, (select count(*) from lanes) as lanes
"""

DISCARD = """
with gone as (
    delete from memoryd.jobs j
    where j.id = $1 and j.attempt = $2
    returning *
)
insert into memoryd.dead_letters (id, topic, lane, ref, payload, attempts, error, created_at)
select id, topic, lane, ref, payload, attempt - snoozes, coalesce($4 || last_error, $3), created_at from gone
"""

# Ordered, so that the indexes are used: `exists` without an order would read a whole backlog to find that a topic has no job in
# it.
TOPICS_WITH_WORK = """
select t.topic
from unnest($1::text[]) as t(topic)
where (select true from memoryd.jobs j
       where j.topic = t.topic and j.lane is null and j.visible_at <= now()
       order by j.fair_at, j.id
       limit 1)
   or (select true from memoryd.jobs j
       where j.topic = t.topic and j.lane is not null
       order by j.lane, j.id
       limit 1)
"""

# Claimed by any daemon, or to be claimed within two seconds: of a lane its first job.
WORK_LEFT = """
select exists (
    select from memoryd.jobs j
    where j.topic = any($1) and j.lane is null
      and (j.visible_at <= now() + interval '2 seconds' or j.claimed_by is not null))
or exists (
    select from (select j.topic, j.lane, min(j.id) as id from memoryd.jobs j
                 where j.topic = any($1) and j.lane is not null group by j.topic, j.lane) f
    join memoryd.jobs j on j.id = f.id
    left join memoryd.lanes l on l.topic = f.topic and l.lane = f.lane
    where coalesce(l.leased_until > now(), false)
       or greatest(j.visible_at, l.not_before) <= now() + interval '2 seconds')
"""

REQUEUE = """
with back as (
    delete from memoryd.dead_letters d
    where ($1::bigint[] is null or d.id = any($1)) and ($2::text is null or d.topic = $2)
    returning topic, lane, ref, payload, id
), queued as (
    insert into memoryd.jobs (topic, lane, ref, payload, fair_at)
    select topic, lane, ref, payload, clock_timestamp() from back order by id
    returning topic
), asked_again as (
    -- These requests were answered with the failure.
    update public.memory_requests r
    set status = 'pending', error = null, finished_at = null
    from back b
    where b.topic in ('request', 'user_data', 'dream') and r.id = b.ref and r.status = 'failed'
)
select count(*) as jobs, count(memoryd.wake(q.topic)) from queued q
"""


async def claim(
    database: Database,
    topic: str,
    *,
    limit: int,
    seconds: float,
    max_attempts: int = 5,
    daemon: int | None = None,
) -> list[Job]:
    """Up to `limit` fresh jobs and one batch of suspects, of a topic without lanes. Claimed by fair turn, returned by id."""
    return _jobs(topic, await database.fetch(CLAIM, topic, limit, seconds, max_attempts, daemon))


async def claim_lanes(
    database: Database,
    topic: str,
    *,
    lanes: int,
    limit: int,
    seconds: float,
    max_attempts: int = 5,
    daemon: int | None = None,
) -> list[Job]:
    """The first jobs of lanes, now leased: about `limit` fresh jobs, and one batch of suspects; ordered by lane and id.

    Up to `lanes` lanes that begin with a fresh job, and up to as many that begin with a suspect.
    """
    rows = await database.fetch(CLAIM_LANES, topic, lanes, limit, seconds, max_attempts, daemon)
    return _jobs(topic, rows)


async def begin_solo_attempt(database: Database, job: Job) -> None:
    """Notes that from here on, until it is handed back, a suspect runs in a batch of its own."""
    await database.execute(BEGIN_SOLO_ATTEMPT, job.id, job.attempt)


async def complete(
    connection: AnyConnection, jobs: Sequence[Job], *, return_lanes: bool = True, durable: bool = True
) -> list[Job]:
    """Deletes the jobs whose claim is still ours, in the transaction of their effects; returns those, in the order given.

    Not `durable`: a crash of the server may take the transaction back, jobs and effects, up to a second after its commit.
    """
    ids, attempts = [j.id for j in jobs], [j.attempt for j in jobs]
    soon = "" if durable else _SOON
    if jobs[0].lane is None:
        rows = await connection.fetch(COMPLETE + soon, ids, attempts)
    else:
        lanes = leases(jobs)
        arguments = ids, attempts, list(lanes), list(lanes.values()), jobs[0].topic, return_lanes
        rows = await connection.fetch(COMPLETE_LANES + soon, *arguments)
    ours = {r["id"] for r in rows}
    return [j for j in jobs if j.id in ours]


async def snooze(database: Database, jobs: Sequence[Job], *, seconds: float = 0.0) -> None:
    """Hands jobs back without counting the attempt: they can be claimed again after `seconds`."""
    await hand_back(database, jobs, counted=False, seconds=seconds)


async def hand_back(
    database: Database,
    jobs: Sequence[Job],
    *,
    counted: bool,
    seconds: float = 0.0,
    error: str | None = None,
) -> None:
    """Hands jobs back: they can be claimed again after `seconds`. Their lanes stay leased: see `return_lanes`.

    `counted`: the attempt counts, as if the worker had died in it. `error` is why it failed, where it did.
    """
    said = None if error is None else error[:MAX_ERROR_LENGTH]
    await database.execute(
        HAND_BACK, [j.id for j in jobs], [j.attempt for j in jobs], seconds, int(not counted), said
    )


async def retry(database: Database, job: Job, *, seconds: float, error: str | None = None) -> None:
    """Hands a failed job back, the attempt counted: it can be claimed again after `seconds`. `error` is kept with it."""
    said = None if error is None else error[:MAX_ERROR_LENGTH]
    await database.execute(RETRY, job.id, job.attempt, seconds, said)


async def return_lanes(database: Database, jobs: Sequence[Job], *, seconds: float = 0.0) -> None:
    """Ends the leases of these jobs' lanes: the lanes can be leased again after `seconds`."""
    lanes = leases(jobs)
    if lanes:
        await database.execute(RETURN_LANES, jobs[0].topic, list(lanes), list(lanes.values()), seconds)


async def renew(database: Database, jobs: Sequence[Job], *, seconds: float) -> None:
    """Renews claims of one topic: they expire in `seconds`."""
    lanes = leases(jobs)
    if lanes:
        await database.execute(RENEW_LANES, jobs[0].topic, list(lanes), list(lanes.values()), seconds)
    else:
        await database.execute(RENEW, [j.id for j in jobs], [j.attempt for j in jobs], seconds)


async def release(database: Database, topic: str, *, daemon: int, jobs: Sequence[Job]) -> dict[str, int]:
    """Ends a daemon's claims of a topic but those of these jobs; how many jobs and lanes that were."""
    row = await database.fetchrow(RELEASE, topic, daemon, [j.id for j in jobs], list(leases(jobs)))
    return dict(row or {})


async def discard(database: Database, job: Job, *, error: str, before_last: str | None = None) -> None:
    """Makes a job a dead letter, with `error`; or with `before_last` and its last error, where it has both."""
    await database.execute(DISCARD, job.id, job.attempt, error[:MAX_ERROR_LENGTH], before_last)


async def topics_with_work(database: Database, topics: Sequence[str]) -> list[str]:
    """Those topics that have a job to claim now."""
    return [r["topic"] for r in await database.fetch(TOPICS_WITH_WORK, list(topics))]


async def is_work_left(database: Database, topics: Sequence[str]) -> bool:
    """Whether these topics have a job that somebody does now, or will within two seconds."""
    return bool(await database.fetchval(WORK_LEFT, list(topics)))


async def requeue(database: Database, *, ids: Sequence[int] | None = None, topic: str | None = None) -> int:
    """Makes jobs of dead letters again; returns how many."""
    return int(await database.fetchval(REQUEUE, None if ids is None else list(ids), topic))


def leases(jobs: Sequence[Job]) -> dict[str, int]:
    """Lane -> token of its lease, of the jobs that are in lanes."""
    return {j.lane: j.token for j in jobs if j.lane is not None and j.token is not None}


def _jobs(topic: str, rows: Sequence[Any]) -> list[Job]:
    now = time.monotonic()
    jobs = []
    for row in rows:
        given = dict(row)
        payload, age = given.pop("payload"), given.pop("age")
        made = {"payload": None if payload is None else json.loads(payload), "made_at": now - age}
        jobs.append(Job(topic=topic, claimed_at=now, **given, **made))
    return sorted(jobs, key=lambda j: (j.lane or "", j.id))
