"""What a dream writes: insights with their embeddings, the causes that a model named; and what it prunes.

Promise: the same cluster seen again updates its insight; the insights of a chunk and their causes are written together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from pgvector import Vector

from handlers.shared.ports import Store
from memory.insights import Insight, KnownInsights

# What a person wrote into an insight stays.
WRITE_INSIGHTS = """
insert into public.dream_insights as i
    (id, agent_id, user_id, insight, source_memories, category, confidence, embedding, dream_id)
select coalesce(n.id, gen_random_uuid()), n.agent_id, n.user_id, n.insight,
       array(select jsonb_array_elements_text(n.sources)::uuid), n.category, n.confidence, memoryd.comparable(n.embedding), $9
from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::jsonb[], $6::text[], $7::double precision[], $8::vector[])
     as n(id, agent_id, user_id, insight, sources, category, confidence, embedding)
on conflict (id) do update
set agent_id = excluded.agent_id,
    insight = case when i.last_modified_human is null then excluded.insight else i.insight end,
    category = case when i.last_modified_human is null then excluded.category else i.category end,
    source_memories = excluded.source_memories,
    confidence = excluded.confidence,
    embedding = case when i.last_modified_human is null then excluded.embedding else i.embedding end,
    generated_at = now(),
    dream_id = excluded.dream_id
"""

# Locked, so that none of them is gone when the links' foreign keys are checked. These links are from a model, so not
# `automatic`.
WRITE_CAUSES = """
with memories as materialized (
    select m.id from public.agent_memory m where m.id = any($1::uuid[] || $2::uuid[]) order by m.id for key share
)
insert into public.memory_associations (memory_id, related_memory_id, association_type, strength)
select n.effect, n.cause, 'causal', 0.5
from unnest($1::uuid[], $2::uuid[]) as n(effect, cause)
where n.effect in (select m.id from memories m)
  and n.cause in (select m.id from memories m)
order by n.effect, n.cause
on conflict (memory_id, related_memory_id) do update
set association_type = 'causal', automatic = false, updated_at = now()
"""

PRUNE = """
with pruned as (
    delete from public.memory_associations
    where id = any(array(
        select a.id from public.memory_associations a where a.strength < 0.15 for update skip locked))
    returning 1
)
select count(*) from pruned
"""


async def write_insights(
    store: Store,
    dream_id: UUID,
    insights: Sequence[Insight],
    *,
    causes: Sequence[tuple[UUID, UUID]],
    embeddings: Mapping[int, Vector],
    known: KnownInsights,
) -> None:
    """Writes the insights, each with its embedding by its place, and `causes`: pairs (effect, cause) of memories."""
    async with store.transaction() as connection:
        await connection.execute(
            WRITE_INSIGHTS,
            [known.find(i) for i in insights],
            [i.agent_id for i in insights],
            [i.user_id for i in insights],
            [i.text for i in insights],
            ["[" + ",".join(f'"{m}"' for m in i.source_memories) + "]" for i in insights],
            [i.category for i in insights],
            [i.confidence for i in insights],
            [embeddings.get(n) for n in range(len(insights))],
            dream_id,
        )
        if causes:
            unique = sorted(set(causes))
            await connection.execute(WRITE_CAUSES, [e for e, _ in unique], [c for _, c in unique])


async def prune(store: Store) -> int:
    """Deletes associations that are too weak to tell anything; how many."""
    return int(await store.fetchval(PRUNE))
