"""Memories that say nothing, each with the reason."""

from __future__ import annotations

from plugins.audit.rule import CURRENT, WITHIN, WRITTEN_BY_HAND, Repair, SqlRule

# The first condition is cheap and rarely true: a judgement costs as much as reading ten texts.
SQL = f"""
with judged as materialized (
    select m.id, m.agent_id, m.user_id, m.created_at, memoryd.says_nothing(m.content) as reason
    from public.agent_memory m
    where {CURRENT} and {WITHIN} and {WRITTEN_BY_HAND} and m.last_modified_human is null
      and cardinality(m.keywords) <= 5 and length(m.content) <= 200
)
select array[j.id] as ids, null::uuid as kept, null::timestamptz as until, j.reason, j.agent_id, j.user_id,
       extract(epoch from j.created_at) as rank
from judged j
where j.reason is not null
"""

EMPTY = SqlRule(
    name="empty",
    says="A memory that says nothing: signs alone, a placeholder, an empty template, small talk, or that nothing was said.",
    repairs="It is forgotten.",
    repair=Repair.FORGET,
    sql=SQL,
)
