"""Reads for a dream: the memories of its window in pages, and the insights of the last month.

Promise: nothing of a user who has turned memory off, and nothing that has expired.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from handlers.shared.embedding import embedding_of
from handlers.shared.ports import Reader, Store
from memory.clustering import Cluster, Dreamable
from memory.insights import KnownInsight, KnownInsights
from memory.vectors import Vectors, stacked

PAGE = 5000

SINCE = "select now() - make_interval(secs => $1)"

_READ = f"""
select m.id, m.agent_id, m.user_id, m.kind, left(m.content, 600) as content, m.keywords, m.created_at, e.embedding
from public.agent_memory m
left join lateral {embedding_of("m")} e on true
where (m.expires_at is null or m.expires_at > now()) and m.superseded_by is null
  -- That something is anchored teaches nothing.
  and m.source is distinct from 'anchor'
  and not exists (select from public.memory_settings s where s.user_id = m.user_id and not s.memory_enabled)
"""

READ_PAGE = f"""{_READ}
  and m.created_at at time zone 'utc' > $1::timestamptz at time zone 'utc'
  and (m.created_at at time zone 'utc', m.id) > ($2::timestamptz at time zone 'utc', $3)
order by m.created_at at time zone 'utc', m.id
limit $4
"""

READ_SOURCES = f"{_READ} and m.id = any($1)"

READ_KNOWN = """
select id, category, user_id, source_memories, agent_id, insight as text, confidence, topic, judged_until, resolved_at,
       written_by, sources_hash
from public.dream_insights
where generated_at > now() - interval '30 days'
"""

READ_STALE = """
select id, user_id, source_memories, category
from public.dream_insights
where stale and last_modified_human is null
order by generated_at
limit $1
"""


@dataclass(frozen=True, slots=True)
class StaleInsight:
    """An insight that must be drawn again, and the remaining memories that it was drawn from.

    None for a recommendation: a model writes it beside an insight, when that is drawn.
    """

    id: UUID
    cluster: Cluster | None


async def read_memories(
    store: Store, window_seconds: float, *, lost: asyncio.Event
) -> tuple[list[Dreamable], Vectors | None]:
    """The memories, in order of creation, and their embeddings, a row each; fewer where the dream was `lost` meanwhile."""
    since = await store.fetchval(SINCE, window_seconds)
    memories: list[Dreamable] = []
    vectors: list[Any] = []
    last_time, last_id = since, UUID(int=0)
    while not lost.is_set():
        page = await store.fetch(READ_PAGE, since, last_time, last_id, PAGE)
        memories += [_dreamable(r) for r in page]
        vectors += [None if r["embedding"] is None else r["embedding"].to_numpy() for r in page]
        if len(page) < PAGE:
            break
        last_time, last_id = page[-1]["created_at"], page[-1]["id"]
    return memories, stacked(vectors)


async def read_known(reader: Reader) -> KnownInsights:
    """The insights that this dream's may continue, and that it holds later memories against."""
    return KnownInsights(
        KnownInsight(
            **dict(r) | {"source_memories": frozenset(r["source_memories"]), "topic": tuple(r["topic"])}
        )
        for r in await reader.fetch(READ_KNOWN)
    )


async def read_stale(reader: Reader, limit: int) -> list[StaleInsight]:
    """Insights to draw again, the oldest first. Of their memories only those of the insight's own user count."""
    rows = await reader.fetch(READ_STALE, limit)
    sources = list({source for r in rows for source in r["source_memories"]})
    memories = {r["id"]: _dreamable(r) for r in await reader.fetch(READ_SOURCES, sources)} if sources else {}
    found: list[StaleInsight] = []
    for row in rows:
        left = [
            memories[one]
            for one in row["source_memories"]
            if one in memories and memories[one].user_id == row["user_id"]
        ]
        left.sort(key=lambda memory: (memory.created_at, memory.id.int))
        redrawable = left and row["category"] != "recommendation"
        found.append(
            StaleInsight(row["id"], Cluster(row["user_id"], tuple(left), frozenset()) if redrawable else None)
        )
    return found


def _dreamable(row: Any) -> Dreamable:
    keywords, created_at = tuple(row["keywords"]), row["created_at"]
    return Dreamable(
        row["id"], row["agent_id"], row["user_id"], row["kind"], row["content"], keywords, created_at
    )
