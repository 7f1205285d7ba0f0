"""Memories that nothing has recalled, those whose time has passed, and facts that rules found."""

from __future__ import annotations

from plugins.audit.rule import CURRENT, WITHIN, Repair, SqlRule

# Where nobody asks, nothing is recalled: so a memory counts only if retrievals of the same agent and user have brought
# others, 30 days and more after it was written, changed or imported. Retrievals that no dream has counted yet are in the log.
NEVER_RECALLED = f"""
with used as materialized (
    select r.memory_id, r.used_at from memoryd.retrieved_memories() r
    union all
    select i.id, q.query_time from public.memory_queries q cross join lateral unnest(q.retrieved_memory_ids) as i(id)
), asked as materialized (
    select m.scope, m.agent_id, max(u.used_at) as last_used
    from used u join public.agent_memory m on m.id = u.memory_id
    group by m.scope, m.agent_id
)
select array[m.id] as ids, null::uuid as kept, null::timestamptz as until,
       format('in %s days no retrieval has brought it', extract(day from now() - k.since)) as reason,
       m.agent_id, m.user_id, extract(epoch from now() - k.since) as rank
from public.agent_memory m
cross join lateral (select greatest(m.created_at, m.updated_at) as since) k
join asked a on a.scope = m.scope and a.agent_id = m.agent_id
where {CURRENT} and {WITHIN} and m.expires_at is null and m.last_modified_human is null and m.key is null
  and k.since < now() - interval '30 days' and a.last_used > k.since + interval '30 days'
  and not exists (select from used u where u.memory_id = m.id)
  and not exists (select from public.memory_anchors n where n.memory_id = m.id)
"""

STALE = f"""
with told as (
    select m.id, m.agent_id, m.user_id, m.created_at, memoryd.day_to_come(m.content) as words,
           case when m.metadata ->> 'from' = 'conversation' and m.metadata ->> 'date' ~ '^\\d{{4}}-\\d\\d-\\d\\d'
                then left(m.metadata ->> 'date', 10) end as day
    from public.agent_memory m
    where {CURRENT} and {WITHIN} and m.created_at < now() - interval '30 days'
      and m.last_modified_human is null and m.kind in ('fact', 'note', 'goal') and length(m.content) <= 160
      and (m.metadata ? 'date' or m.keywords && '{{tomorrow,tonight,later,next,weekend,evening}}')
), passed as (
    select t.*, case
        when t.day < to_char(now() - interval '30 days', 'YYYY-MM-DD') then format('its day, %s, has passed', t.day)
        when t.words is not null
            then format('says %L, and was written %s days ago', t.words, extract(day from now() - t.created_at))
        end as reason
    from told t
)
select array[p.id] as ids, null::uuid as kept, p.created_at + interval '14 days' as until, p.reason,
       p.agent_id, p.user_id, extract(epoch from now() - p.created_at) as rank
from passed p
where p.reason is not null
"""

# Rules found facts in messages before a language model did. By their own confidence those from 0.9 on had a clear sentence.
BY_RULES = f"""
select array[m.id] as ids, null::uuid as kept, greatest(m.valid_from, now()) as until,
       format('found by the rule %L with confidence %s', left(m.metadata ->> 'rule', 40), f.confidence) as reason,
       m.agent_id, m.user_id, 1 - f.confidence as rank
from public.agent_memory m
cross join lateral (
    select (m.metadata ->> 'confidence')::double precision as confidence
    where jsonb_typeof(m.metadata -> 'confidence') = 'number') f
where {CURRENT} and {WITHIN} and m.metadata ->> 'from' = 'conversation' and m.metadata ->> 'rule' <> 'model'
  and m.last_modified_human is null and f.confidence < 0.9
"""

NEVER_USED = SqlRule(
    name="never-recalled",
    says="Older than 30 days, and no retrieval has brought it, while others of the same agent and user were brought.",
    repairs="It expires in 30 days (expires_at), unless it is recalled and somebody sets expires_at to null.",
    repair=Repair.EXPIRE,
    sql=NEVER_RECALLED,
)
FOUND_BY_RULES = SqlRule(
    name="by-rules",
    says="A fact that a rule found in a message, and was not sure of; facts are found by a language model now.",
    repairs="It ends now (valid_to): it stays as history, and is in no recall.",
    repair=Repair.END,
    sql=BY_RULES,
)
OUT_OF_DATE = SqlRule(
    name="stale",
    says='A plan whose day has passed, or a sentence with "tomorrow" or "next week" that was written over 30 days ago.',
    repairs="It ends 14 days after it was written (valid_to): it stays as history, and is in no recall.",
    repair=Repair.END,
    sql=STALE,
)
