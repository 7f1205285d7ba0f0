"""A memory was inserted or its content changed, by whomever: give it its embedding, then have it associated.

A memory whose content changes once more while it is being embedded keeps no stale embedding: the update's own job
brings the right one.
"""

from __future__ import annotations

from collections.abc import Sequence

from handlers.embedding import Embedding
from handlers.ports import AnyConnection, Commit, Job, Reader

READ = """
select m.id, left(m.content, 32768) as content, m.updated_at
from public.agent_memory m
where m.id = any($1) and m.embedding is null
"""

WRITE = """
with indexed as (
    update public.agent_memory m
    set embedding = n.embedding
    from unnest($1::uuid[], $2::vector[], $3::timestamptz[]) as n(id, embedding, updated_at)
    where m.id = n.id and m.updated_at = n.updated_at and m.embedding is null
    returning m.id, m.agent_id, m.created_at
), queued as (
    insert into memoryd.jobs (topic, lane, ref)
    select 'associate', agent_id, id from indexed order by created_at, id
    returning 1
)
select memoryd.ring('associate') where exists (select from queued)
"""


class IndexHandler:
    """A memory without an embedding gets one."""

    def __init__(self, *, reader: Reader, embedding: Embedding) -> None:
        self._reader = reader
        self._embedding = embedding

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds the contents. Raises Unavailable or Rejected."""
        rows = {r["id"]: r for r in await self._reader.fetch(READ, [j.ref for j in jobs])}
        embeddings = await self._embedding.by_key({i: r["content"] for i, r in rows.items()})

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            # Two updates of one memory are two jobs for it: it is written once.
            ids = list(dict.fromkeys(j.ref for j in ours if j.ref in rows))
            if ids:
                await connection.execute(
                    WRITE, ids, [embeddings[i] for i in ids], [rows[i]["updated_at"] for i in ids]
                )

        return commit
