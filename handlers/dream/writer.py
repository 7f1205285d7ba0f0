"""The writes of a dream: insights with their embeddings, causes that a model named, verdicts, and the rows that it forgets.

Promise: the same cluster seen again updates its insight; the insights of a chunk and their causes are written together. Nothing
that a person wrote into an insight is changed, and no insight that a person wrote into is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pgvector import Vector

from handlers.dream.model import Cause
from handlers.shared.ports import AnyConnection, Store
from memory.insights import Insight
from memory.judging import Verdict

# What a person wrote into an insight stays.
WRITE_INSIGHTS = """
insert into public.dream_insights as i
    (id, agent_id, user_id, insight, source_memories, category, confidence, embedding, dream_id, topic, written_by,
     sources_hash, evidence_until, judged_until, resolved_at)
select n.id, n.agent_id, n.user_id, n.insight,
       array(select jsonb_array_elements_text(n.sources)::uuid), n.category, n.confidence, memoryd.comparable(n.embedding), $9,
       array(select jsonb_array_elements_text(n.topic)), n.written_by, n.sources_hash, n.evidence_until, n.evidence_until,
       n.resolved_at
from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::jsonb[], $6::text[], $7::double precision[], $8::vector[],
            $10::jsonb[], $11::text[], $12::bytea[], $13::timestamptz[], $14::timestamptz[])
     as n(id, agent_id, user_id, insight, sources, category, confidence, embedding, topic, written_by, sources_hash,
          evidence_until, resolved_at)
order by n.id
on conflict (id) do update
set agent_id = excluded.agent_id,
    insight = case when i.last_modified_human is null then excluded.insight else i.insight end,
    category = case when i.last_modified_human is null then excluded.category else i.category end,
    source_memories = excluded.source_memories,
    confidence = excluded.confidence,
    embedding = case when i.last_modified_human is null then excluded.embedding else i.embedding end,
    generated_at = now(),
    dream_id = excluded.dream_id,
    topic = excluded.topic,
    written_by = excluded.written_by,
    sources_hash = excluded.sources_hash,
    evidence_until = excluded.evidence_until,
    judged_until = excluded.judged_until,
    resolved_at = excluded.resolved_at,
    stale = false
where i.user_id is not distinct from excluded.user_id
"""

# Memories that were deleted or changed since the dream read them.
RECHECK = "select memoryd.recheck_insights($1, $2)"

# Insights $1 were drawn again, by dream $2, from the very same memories: the model has written about these before.
CONFIRM = """
with locked as materialized (
    select i.id from public.dream_insights i where i.id = any($1) order by i.id for no key update
)
update public.dream_insights i set generated_at = now(), dream_id = $2 from locked l where i.id = l.id
"""

# Insights that say nothing without the memories that are gone.
DROP_STALE = """
with locked as materialized (
    select i.id from public.dream_insights i
    where i.id = any($1) and i.stale and i.last_modified_human is null
    order by i.id
    for update
), gone as (
    delete from public.dream_insights i using locked l where i.id = l.id returning 1
)
select count(*) from gone
"""

# An insight that another transaction has locked is judged by the next dream, so that none waits for the other.
JUDGE = """
with free as materialized (
    select i.id from public.dream_insights i where i.id = any($1::uuid[]) for no key update skip locked
)
update public.dream_insights i
set confidence = n.confidence, resolved_at = n.resolved_at, judged_until = n.judged_until,
    insight = case when i.last_modified_human is null then coalesce(n.insight, i.insight) else i.insight end
from unnest($1::uuid[], $2::double precision[], $3::timestamptz[], $4::timestamptz[], $5::text[])
     as n(id, confidence, resolved_at, judged_until, insight)
join free f using (id)
where i.id = n.id and not i.stale
"""

# Locked, so that none of them is gone when the links' foreign keys are checked, and then the links that there are. These links
# are from a model, so not `automatic`. Both ends belong to one user: a model names numbers in a list that is one user's, and
# this asks once more.
LOCK_CAUSES = """
with memories as materialized (
    select m.id from public.agent_memory m where m.id = any($1::uuid[] || $2::uuid[]) order by m.id for key share
)
select a.id from public.memory_associations a
where a.memory_id = any(array(select m.id from memories m))
  and (a.memory_id, a.related_memory_id) in (select * from unnest($1::uuid[], $2::uuid[]))
order by a.id
for no key update
"""
WRITE_CAUSES = """
insert into public.memory_associations as a (memory_id, related_memory_id, association_type, strength)
select n.effect, n.cause, 'causal', n.strength
from unnest($1::uuid[], $2::uuid[], $3::double precision[]) as n(effect, cause, strength)
join public.agent_memory e on e.id = n.effect
join public.agent_memory c on c.id = n.cause and c.user_id is not distinct from e.user_id
order by n.effect, n.cause
on conflict (memory_id, related_memory_id) do update
set association_type = 'causal', automatic = false, strength = greatest(a.strength, excluded.strength), updated_at = now()
"""

# Retrievals since the last dream that counted any; at most as long as they are kept.
COUNT_USES = """
with until as materialized (
    update public.dream_sessions set queries_until = now() - interval '1 minute' where id = $1 returning queries_until
)
select memoryd.count_uses(
    coalesce((select max(d.queries_until) from public.dream_sessions d where d.id <> $1), '-infinity'), u.queries_until)
from until u
"""
FADE = "select memoryd.fade_links(now(), $1)"
WEIGH = "select memoryd.weigh_memories(now())"
FADED_AT_ONCE = 20_000

# Associations that are too weak to tell anything.
PRUNE = """
with pruned as (
    delete from public.memory_associations
    where id = any(array(
        select a.id from public.memory_associations a where a.strength < 0.15 for update skip locked))
    returning 1
)
select count(*) from pruned
"""


@dataclass(frozen=True, slots=True)
class NewInsight:
    """An insight to write. `by`: the model that wrote it; None: a rule."""

    id: UUID
    insight: Insight
    by: str | None
    sources_hash: bytes


async def write_insights(
    store: Store,
    dream_id: UUID,
    drawn: Sequence[NewInsight],
    *,
    causes: Sequence[Cause],
    embeddings: Mapping[int, Vector],
    read_at: datetime,
) -> None:
    """Writes the insights, each with its embedding by its index, and `causes`. `read_at`: when their memories were read."""
    insights = [one.insight for one in drawn]
    async with store.transaction() as connection:
        # Memories and links are locked before insights (migrations/functions/base/locks.sql).
        await _write_causes(connection, causes)
        await connection.execute(
            WRITE_INSIGHTS,
            [one.id for one in drawn],
            [i.agent_id for i in insights],
            [i.user_id for i in insights],
            [i.text for i in insights],
            [json.dumps([str(m) for m in i.source_memories]) for i in insights],
            [i.category for i in insights],
            [i.confidence for i in insights],
            [embeddings.get(n) for n in range(len(insights))],
            dream_id,
            [json.dumps(i.topic) for i in insights],
            [one.by for one in drawn],
            [one.sources_hash for one in drawn],
            [i.evidence_until for i in insights],
            [i.resolved_at for i in insights],
        )
        await connection.execute(RECHECK, [one.id for one in drawn], read_at)
    # Once more, for memories that went while this was committed.
    await store.execute(RECHECK, [one.id for one in drawn], read_at)


async def _write_causes(connection: AnyConnection, causes: Sequence[Cause]) -> None:
    if not causes:
        return
    surest = {(c.effect, c.cause): c.strength for c in sorted(causes, key=lambda c: c.strength)}
    effects, of = zip(*sorted(surest), strict=True)
    await connection.execute(LOCK_CAUSES, effects, of)
    await connection.execute(WRITE_CAUSES, effects, of, [surest[pair] for pair in sorted(surest)])


async def write_verdicts(store: Store, verdicts: Sequence[Verdict]) -> None:
    """Writes what later memories did to insights."""
    await store.execute(
        JUDGE,
        [v.id for v in verdicts],
        [v.confidence for v in verdicts],
        [v.resolved_at for v in verdicts],
        [v.judged_until for v in verdicts],
        [v.text for v in verdicts],
    )


async def count_uses(store: Store, dream_id: UUID) -> None:
    """Counts what was retrieved since the last dream, and writes what that does to the weights of memories."""
    await store.execute(COUNT_USES, dream_id)
    await store.execute(WEIGH)


async def fade(store: Store) -> int:
    """Lets links fade that nothing uses; how many. In transactions of bounded size."""
    total = 0
    while faded := int(await store.fetchval(FADE, FADED_AT_ONCE)):
        total += faded
        if faded < FADED_AT_ONCE:
            break
    return total
