"""Memories that say the same: of the same agent, user, kind and project.

All pairs are never compared: only memories with the same keywords are, which each has in a column. What says "today" is the
same only on the same day.
"""

from __future__ import annotations

from daemon.audit.rule import CURRENT, WITHIN, WRITTEN_BY_HAND, Repair, SqlRule

# What a person wrote stays, then what was not imported, then what is anchored, then the oldest.
FIRST = """
m.last_modified_human is null, m.metadata ? 'imported_from',
    not exists (select from public.memory_anchors a where a.memory_id = m.id), m.created_at, m.id
"""

EXACT = f"""
with alike as materialized (
    select m.scope, m.agent_id, m.kind, m.keywords
    from public.agent_memory m
    where {CURRENT} and {WRITTEN_BY_HAND}
    group by m.scope, m.agent_id, m.kind, m.keywords
    having count(*) > 1 and bool_or({WITHIN})
), said as (
    select m.id, m.agent_id, m.user_id, {WITHIN} as within,
           memoryd.said_key(m.kind, m.metadata ->> 'project', m.content) as said,
           case when memoryd.depends_on_day(m.content) then m.created_at::date end as day,
           row_number() over (partition by m.scope, m.agent_id order by {FIRST}) as nth, m.scope
    from alike a
    join public.agent_memory m using (scope, agent_id, kind, keywords)
    where {CURRENT} and {WRITTEN_BY_HAND}
), numbered as (
    select s.*, first_value(s.id) over w as kept, row_number() over w as copy
    from said s
    window w as (partition by s.scope, s.agent_id, s.said, s.day order by s.nth)
)
select array_agg(n.id order by n.nth) as ids, n.kept, null::timestamptz as until,
       'says the same as ' || n.kept as reason,
       n.agent_id, n.user_id, count(*) as rank
from numbered n
where n.copy > 1 and n.within
group by n.kept, n.agent_id, n.user_id
"""

NEAR = f"""
with told as materialized (
    select m.id, m.scope, m.agent_id, m.kind,
           array(select k from unnest(m.keywords) k order by k) as words, {WITHIN} as within
    from public.agent_memory m
    where {CURRENT} and {WRITTEN_BY_HAND} and cardinality(m.keywords) between 4 and 19
), alike as materialized (
    select t.scope, t.agent_id, t.kind, t.words, array_agg(t.id) as ids
    from told t
    group by t.scope, t.agent_id, t.kind, t.words
    having count(*) between 2 and 100 and bool_or(t.within)
), said as materialized (
    select distinct on (a.scope, a.agent_id, a.words, x.said, x.project) a.scope, a.words, x.*
    from alike a
    cross join lateral (
        select m.id, m.agent_id, m.user_id, m.content, m.keywords, {WITHIN} as within, m.created_at,
               m.metadata ->> 'project' as project,
               memoryd.said_key(m.kind, m.metadata ->> 'project', m.content) as said,
               m.last_modified_human is not null as by_hand,
               case when memoryd.depends_on_day(m.content) then m.created_at::date end as day
        from public.agent_memory m where m.id = any(a.ids) and length(m.content) <= 1000) x
    order by a.scope, a.agent_id, a.words, x.said, x.project, x.created_at desc
), older as (
    select o.id, n.id as kept, o.agent_id, o.user_id,
           row_number() over (partition by o.id order by n.created_at desc, n.id desc) as nth
    from said o
    join said n on n.scope = o.scope and n.agent_id = o.agent_id and n.words = o.words and n.said <> o.said
        and n.project is not distinct from o.project and n.day is not distinct from o.day
        and (n.created_at, n.id) > (o.created_at, o.id)
    where o.within and not o.by_hand
      and memoryd.says_the_same(o.content, n.content, o.keywords = n.keywords)
)
select array[o.id] as ids, o.kept, null::timestamptz as until,
       'says in almost the same words what the newer ' || o.kept || ' says' as reason,
       o.agent_id, o.user_id, 0 as rank
from older o
where o.nth = 1
"""

DUPLICATES = SqlRule(
    name="duplicates",
    says="The same text, but for capital letters, white space and punctuation, is remembered more than once.",
    repairs="The copies are forgotten; one stays: what a person wrote, then what was not imported, then the oldest.",
    repair=Repair.FORGET,
    sql=EXACT,
)
NEAR_DUPLICATES = SqlRule(
    name="near-duplicates",
    says="A newer memory says in the same keywords the same thing, with no other number, name or denial.",
    repairs="The older one is replaced by the newer one (superseded_by): it stays as history, and is in no recall.",
    repair=Repair.SUPERSEDE,
    sql=NEAR,
)
