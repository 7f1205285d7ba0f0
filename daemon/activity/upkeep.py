"""What the sweep does for the history: old minutes become hours, sizes and judgements are noted day by day.

Promise: each is one statement, which two at once may run: nothing is added twice.
"""

from __future__ import annotations

import math

from daemon.activity.arrays import added, summed
from daemon.db.depth import ESTIMATED_ROWS
from daemon.db.pool import Database

DAYS_KEPT = 400

ROLL_UP = f"""
with a as (
    delete from memoryd.activity m
    where m.seconds = 60 and m.began_at < date_trunc('hour', now(), 'UTC') - interval '26 hours'
    returning m.*
), hours as (
    select date_trunc('hour', a.began_at, 'UTC') as began_at, a.topic, sum(a.done) as done, sum(a.failed) as failed,
           max(a.waiting) as waiting, max(a.oldest_seconds) as oldest_seconds,
           {summed("waited")} as waited, {summed("ran")} as ran
    from a
    group by 1, 2
)
insert into memoryd.activity as a (seconds, began_at, topic, done, failed, waiting, oldest_seconds, waited, ran)
select 3600, h.began_at, h.topic, h.done, h.failed, h.waiting, h.oldest_seconds, h.waited, h.ran
from hours h
order by h.began_at, h.topic
on conflict (seconds, began_at, topic) do update
set done = a.done + excluded.done, failed = a.failed + excluded.failed,
    waiting = greatest(a.waiting, excluded.waiting), oldest_seconds = greatest(a.oldest_seconds, excluded.oldest_seconds),
    waited = {added("waited")}, ran = {added("ran")}
"""  # noqa: S608 - a constant of ours

DROP_OLD = """
with hours as (
    delete from memoryd.activity a
    where a.seconds = 3600 and a.began_at < now() - make_interval(days => $1)
), writers as (
    delete from memoryd.activity_writers w where w.written_at < now() - interval '2 days'
), sizes as (
    delete from memoryd.daily_sizes s where s.day < current_date - $1::integer
)
delete from memoryd.daily_retrievals r where r.day < current_date - $1::integer
"""

# The first sweep of a day measures.
MEASURE_SIZE = f"""
insert into memoryd.daily_sizes (day, bytes, source_rows)
select current_date, pg_database_size(current_database()),
       (select json_object_agg(s.name, {ESTIMATED_ROWS}::bigint)
        from memoryd.sources() s
        join pg_class c on c.oid = to_regclass('public.' || quote_ident(s.table_name)))
where not exists (select from memoryd.daily_sizes s where s.day = current_date)
on conflict do nothing
returning true
"""  # noqa: S608 - a constant of ours

# A day that has lost retrievals, by the sweep or an erasure, stays as it was counted before.
COUNT_RETRIEVALS = """
insert into memoryd.daily_retrievals as d (day, asked, useful, not_useful)
select q.query_time::date, count(*), count(*) filter (where q.useful), count(*) filter (where not q.useful)
from public.memory_queries q
where q.query_time >= current_date - $1::integer and q.reason is null
group by 1
order by 1
on conflict (day) do update
set asked = excluded.asked, useful = excluded.useful, not_useful = excluded.not_useful
where excluded.asked >= d.asked
  and (d.asked, d.useful, d.not_useful) is distinct from (excluded.asked, excluded.useful, excluded.not_useful)
"""


async def keep_history(database: Database, *, query_log_days: float) -> None:
    """Brings it up to date. Before the sweep of memory_queries, which are kept for so many days."""
    is_first_today = await database.fetchval(MEASURE_SIZE)
    # Most are judged within a day; of all days the judgements are read once a day.
    await database.execute(COUNT_RETRIEVALS, math.ceil(query_log_days) if is_first_today else 1)
    await database.execute(ROLL_UP)
    await database.execute(DROP_OLD, DAYS_KEPT)
