"""How many jobs wait, and for how long: two queries for status, doctor, metrics and pages.

Promise: each costs some milliseconds, also while a million jobs wait. Up to `EXACT` jobs of a topic are counted by its
indexes; of more a sample of the table is counted. The lag takes steps of indexes; it reads through the jobs that wait for the
end of a pause.
"""

from __future__ import annotations

EXACT = 5000
SAMPLED_PAGES = 1000

_STATE = """case when j.lane is not null then case when j.claimed_by is null then 'ready' else 'claimed' end
                 when j.visible_at <= now() then 'ready' when j.claimed_by is null then 'waiting' else 'claimed' end"""

# By topic and state (ready, claimed, waiting) the jobs, where there are any. $1: topics.
DEPTH = f"""
with counted as materialized (
    select t.topic, s.state, s.jobs, sum(s.jobs) over (partition by t.topic) as all_jobs
    from unnest($1::text[]) as t(topic)
    cross join lateral (
        select o.state, count(*) as jobs
        from (
            (select {_STATE} as state from memoryd.jobs j
             where j.topic = t.topic and j.lane is null order by j.fair_at, j.id limit {EXACT})
            union all
            (select {_STATE} from memoryd.jobs j
             where j.topic = t.topic and j.lane is not null order by j.lane, j.id limit {EXACT})) o
        group by o.state) s
), pages as (
    select least(100, 100.0 * {SAMPLED_PAGES} / greatest(1, pg_relation_size('memoryd.jobs') / 8192)) as percent
), sampled as (
    select j.topic, {_STATE} as state, round(count(*) * 100 / (select percent from pages)) as jobs
    from memoryd.jobs j tablesample system ((select percent from pages))
    where exists (select from counted c where c.all_jobs >= {EXACT})
    group by 1, 2
)
select c.topic, c.state, greatest(c.jobs, s.jobs) as jobs
from counted c
left join sampled s on s.topic = c.topic and s.state = c.state and c.all_jobs >= {EXACT}
"""  # noqa: S608 - a constant of ours

# Of source `s`, a row of memoryd.sources(), whose table is `c` in pg_class.
ESTIMATED_ROWS = "greatest(0, coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0), c.reltuples))"
"""The number of rows from the server's statistics: no table is read."""


LAG_SECONDS = 60.0
"""A job that waits for longer makes its daemon not ready."""
LANES = 1000
"""Lanes of a topic whose first jobs are read."""

# By topic the longest wait of the jobs whose turn it is: of those without a lane the first one that can be claimed, and the
# first ones of lanes that can be leased.
LAG = f"""
select t.topic, max(extract(epoch from now() - f.since))::double precision as seconds
from unnest($1::text[]) as t(topic)
cross join lateral (
    (select greatest(j.created_at, j.visible_at) as since
     from memoryd.jobs j
     where j.topic = t.topic and j.lane is null and j.visible_at <= now()
     order by j.fair_at, j.id
     limit 1)
    union all
    (with recursive first(lane, made_at) as (
        (select j.lane, j.created_at from memoryd.jobs j
         where j.topic = t.topic and j.lane is not null
         order by j.lane, j.id limit 1)
        union all
        select n.lane, n.created_at
        from first p
        cross join lateral (
            select j.lane, j.created_at from memoryd.jobs j
            where j.topic = t.topic and j.lane > p.lane
            order by j.lane, j.id limit 1) n
     )
     select greatest(p.made_at, l.not_before)
     from (select * from first limit {LANES}) p
     left join memoryd.lanes l on l.topic = t.topic and l.lane = p.lane
     where l.lane is null or (l.leased_until <= now() and l.not_before <= now()))
) f
group by t.topic
"""  # noqa: S608 - a constant of ours
