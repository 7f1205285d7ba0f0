"""Facts of one person that cannot both be true now: where they live, for whom they work, their name, age, favourites.

Only attributes with one value at a time are compared, in sentences of a few forms; other wordings are not found. memoryd's own
facts replace each other (facts.md); memories that agents write or import do not.
"""

from __future__ import annotations

from plugins.audit.rule import CURRENT, WITHIN, Repair, SqlRule

# Two memories of the same time are left alone: neither is newer.
# A reworded memory is read from its text; a fact of memoryd has its attribute in its metadata.
SQL = f"""
with facts as materialized (
    select m.id, m.scope, m.agent_id, m.user_id, {WITHIN} as within, m.content,
           coalesce(m.valid_from, m.created_at) as begins, m.last_modified_human is not null as by_hand,
           m.metadata ->> 'project' as project, coalesce(m.metadata ->> 'speaker', '') as speaker,
           case when m.metadata ->> 'from' = 'conversation' and m.text_changed_at is null
                then m.metadata ->> 'slot' end as slot, m.metadata ->> 'value' as value
    from public.agent_memory m
    where {CURRENT} and m.command_id is null and m.kind in ('fact', 'note', 'observation')
      and length(m.content) between 8 and 300
      and (memoryd.may_state(m.keywords) or m.metadata ->> 'from' = 'conversation')
), stated as materialized (
    select f.*, s.attribute, f.speaker || s.person as who, s.value as said
    from facts f
    cross join lateral (
        select * from memoryd.statement_in(f.content)
        union all
        select replace(f.slot, 'favourite:', 'favourite '), '', f.value
        where f.slot ~ '^(?:home|employer|name|age|birthday|marital status|diet|favourite:.*)$'
        limit 1) s
), newest as (
    select distinct on (s.scope, s.project, s.who, s.attribute) s.*
    from stated s
    order by s.scope, s.project, s.who, s.attribute, s.by_hand desc, s.begins desc, s.id desc
)
select array_agg(o.id order by o.begins, o.id) as ids, n.id as kept, null::timestamptz as until,
       format('says another %s than the newer %s', n.attribute, n.id) as reason, n.agent_id, n.user_id, count(*) as rank
from newest n
join stated o on o.scope = n.scope and o.who = n.who and o.attribute = n.attribute and o.id <> n.id
    and o.project is not distinct from n.project
where o.within and not o.by_hand and (o.begins < n.begins or n.by_hand)
  and position(o.said in n.said) = 0 and position(n.said in o.said) = 0
group by n.id, n.attribute, n.agent_id, n.user_id
"""

CONTRADICTIONS = SqlRule(
    name="contradictions",
    says="Two current memories give one person different values of home, employer, name, age or a favourite.",
    repairs="The older ones are replaced by the newest one (superseded_by): they stay as history, and are in no recall.",
    repair=Repair.SUPERSEDE,
    sql=SQL,
)
