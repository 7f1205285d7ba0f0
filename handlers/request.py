"""Somebody asked by inserting a row into memory_requests: answer recall and context with the query's embedding.

A request that cannot be answered is failed with the reason in its row, which is where the asker looks; it is no dead job.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from handlers.embedding import Embedding
from handlers.ports import AnyConnection, Commit, Job, Reader

READ = """
select r.id, left(r.query, 32768) as query
from public.memory_requests r
where r.id = any($1) and r.status = 'pending'
"""

ANSWER = """
update memory_requests r
set status = 'done', finished_at = clock_timestamp(), result = case r.kind
    when 'context' then to_jsonb(memoryd.compose_context(r.agent_id, r.query, r.user_id, r.user_id is not null, n.embedding, null))
    when 'recall' then (
        select coalesce(jsonb_agg(to_jsonb(f) order by f.score desc), '[]')
        from recall(
            r.query, r.agent_id, r.user_id, n.embedding,
            coalesce((r.options ->> 'match_count')::integer, 10),
            case when r.options ? 'sources'
                 then array(select jsonb_array_elements_text(r.options -> 'sources')) end,
            coalesce(r.options -> 'filter', '{}')
        ) f)
    end
from unnest($1::uuid[], $2::vector[]) as n(id, embedding)
where r.id = n.id and r.status = 'pending'
"""

FAIL = """
update memory_requests
set status = 'failed', error = $2, finished_at = clock_timestamp()
where id = $1 and status = 'pending'
"""


class RequestHandler:
    """pending -> done | failed."""

    def __init__(self, *, reader: Reader, embedding: Embedding) -> None:
        self._reader = reader
        self._embedding = embedding

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds the queries, where that is possible; by words alone is better than late."""
        rows = await self._reader.fetch(READ, [j.ref for j in jobs])
        queries = {r["id"]: r["query"] for r in rows}
        embeddings = await self._embedding.if_possible(queries)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            ids = [j.ref for j in ours if j.ref in queries]
            if not ids:
                return
            try:
                async with connection.transaction():
                    await connection.execute(ANSWER, ids, [embeddings.get(i) for i in ids])
            except (asyncpg.DataError, asyncpg.InvalidParameterValueError) as error:
                # Of several, the worker finds the one; alone, it is the asker's to mend.
                if len(ids) > 1:
                    raise
                hint = getattr(error, "hint", None)
                await connection.execute(FAIL, ids[0], f"{error}. {hint}" if hint else str(error))

        return commit
