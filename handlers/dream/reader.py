"""What a dream reads: the memories of its window in pages, and the insights of the last month.

Promise: nothing of a user who has turned memory off, and nothing that has expired.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from handlers.shared.embedding import embedding_of
from handlers.shared.ports import Reader, Store
from memory.clustering import Dreamable
from memory.insights import KnownInsight, KnownInsights
from memory.vectors import Vectors, stacked

PAGE = 5000

SINCE = "select now() - make_interval(secs => $1)"

READ_PAGE = f"""
select m.id, m.agent_id, m.user_id, m.kind, left(m.content, 600) as content, m.keywords, m.created_at, e.embedding
from public.agent_memory m
left join lateral {embedding_of("m")} e on true
where m.created_at at time zone 'utc' > $1::timestamptz at time zone 'utc'
  and (m.created_at at time zone 'utc', m.id) > ($2::timestamptz at time zone 'utc', $3)
  and (m.expires_at is null or m.expires_at > now())
  and not exists (select from public.memory_settings s where s.user_id = m.user_id and not s.memory_enabled)
order by m.created_at at time zone 'utc', m.id
limit $4
"""  # noqa: S608 - our own words

READ_KNOWN = """
select id, category, user_id, source_memories
from public.dream_insights
where generated_at > now() - interval '30 days'
"""


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
    """The insights that this dream's may continue."""
    return KnownInsights(
        KnownInsight(r["id"], r["category"], r["user_id"], frozenset(r["source_memories"]))
        for r in await reader.fetch(READ_KNOWN)
    )


def _dreamable(row: Any) -> Dreamable:
    return Dreamable(
        id=row["id"],
        agent_id=row["agent_id"],
        user_id=row["user_id"],
        kind=row["kind"],
        content=row["content"],
        keywords=tuple(row["keywords"]),
        created_at=row["created_at"],
    )
