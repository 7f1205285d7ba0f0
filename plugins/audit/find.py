"""The rules of the audit, and their findings.

Promise: nothing is locked or changed; a rule sees the rows that the role of the connection may read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

from plugins.audit.patterns import MissingExtraError
from plugins.audit.rule import (
    CURRENT,
    SECONDS,
    WITHIN,
    WRITTEN_BY_HAND,
    Extent,
    Findings,
    Repair,
    SqlRule,
)
from plugins.audit.scan import PERSONAL_DATA, SECRETS, Rule, ScanRule

if TYPE_CHECKING:
    from handlers.shared.ports import AnyConnection

# Only memories with the same keywords, which stand in a column, are compared. Texts with "today" are the same only on the same
# day. The copy to keep: one that a person wrote, then one that was not imported, then an anchored one, then the oldest.
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
select array_agg(n.id order by n.nth) as ids, n.kept,
       format('says the same as %s', n.kept) as reason, n.agent_id, n.user_id, count(*) as rank
from numbered n
where n.copy > 1 and n.within
group by n.kept, n.agent_id, n.user_id
"""

DUPLICATES = SqlRule(
    name="duplicates",
    says="Several memories have the same text, apart from capital letters, white space and punctuation.",
    repairs="The copies are forgotten; one stays: what a person wrote, then what was not imported, then the oldest.",
    repair=Repair.FORGET,
    sql=EXACT,
)

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
select array[m.id] as ids, null::uuid as kept,
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

NEVER_USED = SqlRule(
    name="never-recalled",
    says="Older than 30 days, and no retrieval has brought it, while others of the same agent and user were brought.",
    repairs="It expires in 30 days (expires_at), unless it is recalled and somebody sets expires_at to null.",
    repair=Repair.EXPIRE,
    sql=NEVER_RECALLED,
)

# The first condition is cheap and rarely true: a judgement costs as much as reading ten texts.
SAYING_NOTHING = f"""
with judged as materialized (
    select m.id, m.agent_id, m.user_id, m.created_at, memoryd.says_nothing(m.content) as reason
    from public.agent_memory m
    where {CURRENT} and {WITHIN} and {WRITTEN_BY_HAND} and m.last_modified_human is null
      and cardinality(m.keywords) <= 5 and length(m.content) <= 200
)
select array[j.id] as ids, null::uuid as kept, j.reason, j.agent_id, j.user_id,
       extract(epoch from j.created_at) as rank
from judged j
where j.reason is not null
"""

EMPTY = SqlRule(
    name="empty",
    says="A memory that says nothing: signs alone, a placeholder, an empty template, small talk, or that nothing was said.",
    repairs="It is forgotten.",
    repair=Repair.FORGET,
    sql=SAYING_NOTHING,
)

RULES: tuple[Rule, ...] = (DUPLICATES, NEVER_USED, EMPTY)
"""The rules that run by default, in the order of their repair."""
OPTIONAL: tuple[ScanRule, ...] = (SECRETS, PERSONAL_DATA)
"""The rules that read every text, and need the packages of an extra."""


def chosen(names: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of these names; RULES where there are none. Raises ValueError for another name, and for a missing extra."""
    known: dict[str, Rule] = {rule.name: rule for rule in (*RULES, *OPTIONAL)}
    for name in names:
        if name not in known:
            raise ValueError(f"There is no rule {name!r}. Rules: {', '.join(known)}")
    for each in OPTIONAL:
        if each.name in names:
            each.finder()
    return tuple(rule for rule in known.values() if rule.name in names) if names else RULES


def plain(rows: Sequence[Any]) -> dict[UUID, str]:
    """What rows said, by id, but for secrets and personal numbers, as far as the packages that find them are installed."""
    finders = []
    for rule in OPTIONAL:
        with suppress(MissingExtraError):
            finders.append(rule.finder())
    return {row["id"]: row["said"] for row in rows if not any(find(row["said"]) for find in finders)}


async def find(
    connection: AnyConnection, rules: Sequence[Rule], extent: Extent, *, limit: int
) -> AsyncIterator[tuple[Rule, Findings]]:
    """The findings of each rule, at most `limit` of each."""
    for rule in rules:
        yield rule, await rule.find(connection, extent, limit=limit)


LOOKED_AT = f"select count(*) from public.agent_memory m where {CURRENT} and {WITHIN}"


async def count_memories(connection: AnyConnection, extent: Extent) -> int:
    """How many memories are current within the extent."""
    count: int = await connection.fetchval(LOOKED_AT, *extent.arguments(None), timeout=SECONDS)
    return count
