"""The query for how long claimable jobs have waited, shared by status, doctor, metrics and pages.

Promise: it takes steps of indexes, also while many jobs wait; it reads through those that wait for the end of a pause.
"""

from __future__ import annotations

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
