"""Memories that say the same: of the same agent, user, kind and project.

Only memories with the same keywords, which stand in a column, are compared. Texts with "today" are the same only on the same
day.
"""

from __future__ import annotations

from plugins.audit.rule import CURRENT, WITHIN, WRITTEN_BY_HAND, Repair, SqlRule

# The copy to keep: one that a person wrote, then one that was not imported, then an anchored one, then the oldest.
FIRST = """
m.last_modified_human is null, m.metadata ? 'imported_from',
    not exists (select from public.memory_anchors a where a.memory_id = m.id), m.created_at, m.id
"""

EXACT = f"""
with told as (
    select m.id, count(*) over w as number, bool_or({WITHIN}) over w as within
    from public.agent_memory m
    where {CURRENT} and {WRITTEN_BY_HAND}
    window w as (partition by m.scope, m.agent_id, m.kind, hash_array_extended(m.keywords, 0))
), said as (
    select m.id, m.scope, m.agent_id, m.user_id, {WITHIN} as within,
           memoryd.said_key(m.kind, m.metadata ->> 'project', m.content) as said,
           case when memoryd.depends_on_day(m.content) then m.created_at::date end as day,
           row_number() over (partition by m.scope, m.agent_id order by {FIRST}) as nth
    from told t
    join public.agent_memory m on m.id = t.id
    where t.number > 1 and t.within
), numbered as (
    select s.*, first_value(s.id) over w as kept, row_number() over w as copy
    from said s
    window w as (partition by s.scope, s.agent_id, s.said, s.day order by s.nth)
)
select array_agg(n.id order by n.nth) as ids, n.kept, null::timestamptz as until,
       format('says the same as %s', n.kept) as reason, n.agent_id, n.user_id, count(*) as rank
from numbered n
where n.copy > 1 and n.within
group by n.kept, n.agent_id, n.user_id
"""

# More than a hundred memories with the same keywords are a filled-in form: all pairs would be compared.
NEAR = f"""
with sorted as (
    select m.id, m.scope, m.agent_id, m.kind, {WITHIN} as within,
           hash_array_extended(array(select k from unnest(m.keywords) k order by k), 0) as words
    from public.agent_memory m
    where {CURRENT} and {WRITTEN_BY_HAND} and cardinality(m.keywords) between 4 and 19
), told as (
    select s.id, s.words, count(*) over w as number, bool_or(s.within) over w as within
    from sorted s
    window w as (partition by s.scope, s.agent_id, s.kind, s.words)
), said as materialized (
    select distinct on (x.scope, x.agent_id, x.kind, x.words, x.said) x.*
    from (select m.id, m.scope, m.agent_id, m.user_id, m.kind, m.content, m.keywords, t.words, {WITHIN} as within,
                 m.created_at, m.metadata ->> 'project' as project, m.last_modified_human is not null as by_hand,
                 memoryd.said_key(m.kind, m.metadata ->> 'project', m.content) as said,
                 case when memoryd.depends_on_day(m.content) then m.created_at::date end as day
          from told t
          join public.agent_memory m on m.id = t.id
          where t.number between 2 and 100 and t.within and length(m.content) <= 1000) x
    order by x.scope, x.agent_id, x.kind, x.words, x.said, x.created_at desc
), older as (
    select o.id, n.id as kept, o.agent_id, o.user_id,
           row_number() over (partition by o.id order by n.created_at desc, n.id desc) as nth
    from said o
    join said n on n.scope = o.scope and n.agent_id = o.agent_id and n.kind = o.kind and n.words = o.words
        and n.said <> o.said and n.project is not distinct from o.project and n.day is not distinct from o.day
        and (n.created_at, n.id) > (o.created_at, o.id)
    where o.within and not o.by_hand
      and memoryd.says_the_same(o.content, n.content, o.keywords = n.keywords)
)
select array[o.id] as ids, o.kept, null::timestamptz as until,
       format('says in almost the same words what the newer %s says', o.kept) as reason,
       o.agent_id, o.user_id, 0 as rank
from older o
where o.nth = 1
"""

DUPLICATES = SqlRule(
    name="duplicates",
    says="Several memories have the same text, apart from capital letters, white space and punctuation.",
    repairs="The copies are forgotten; one stays: what a person wrote, then what was not imported, then the oldest.",
    repair=Repair.FORGET,
    sql=EXACT,
)
NEAR_DUPLICATES = SqlRule(
    name="near-duplicates",
    says="A newer memory has the same keywords, and no other number, name or negation.",
    repairs="The older one is replaced by the newer one (superseded_by): it stays as history, and is in no recall.",
    repair=Repair.SUPERSEDE,
    sql=NEAR,
)
