"""The query for the number of jobs in the queue, shared by status, doctor, metrics and pages.

Promise: it costs some milliseconds, also while a million jobs wait. Up to `EXACT` jobs of a topic are counted by its indexes;
of more a sample of the table is counted.
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
