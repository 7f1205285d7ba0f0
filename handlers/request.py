"""Somebody asked by inserting a row into memory_requests: answer recall and context with the query's embedding.

A request that cannot be answered is failed with the reason in its row, which is where the asker looks; it is no dead job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from handlers.embedding import Embedding
from handlers.ports import AnyConnection, Commit, Job, Reader

MOST_MATCHES = 2**31 - 1

READ = """
select r.id, left(r.query, 32768) as query, case when r.kind = 'recall' then r.options else '{}' end as options
from public.memory_requests r
where r.id = any($1) and r.status = 'pending'
"""

ANSWER = """
update memory_requests r
set status = 'done', finished_at = clock_timestamp(), result = case r.kind
    when 'context' then to_jsonb(memoryd.compose_context(
        r.agent_id, r.query, r.user_id, r.user_id is not null, n.embedding, null))
    when 'recall' then (
        select coalesce(jsonb_agg(to_jsonb(f) order by f.score desc), '[]')
        from recall(
            r.query, r.agent_id, r.user_id, n.embedding,
            coalesce((r.options ->> 'match_count')::integer, 10),
            case when jsonb_typeof(r.options -> 'sources') = 'array'
                 then array(select jsonb_array_elements_text(r.options -> 'sources')) end,
            coalesce(nullif(r.options -> 'filter', 'null'), '{}')
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
        complaints = {r["id"]: said for r in rows if (said := _complaint(json.loads(r["options"])))}
        queries = {r["id"]: r["query"] for r in rows if r["id"] not in complaints}
        embeddings = await self._embedding.if_possible(queries)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            for refused in (j.ref for j in ours if j.ref in complaints):
                await connection.execute(FAIL, refused, complaints[refused])
            ids = [j.ref for j in ours if j.ref in queries]
            if not ids:
                return
            try:
                async with connection.transaction():
                    await connection.execute(ANSWER, ids, [embeddings.get(i) for i in ids])
            except (
                asyncpg.DataError,
                asyncpg.InvalidParameterValueError,
                asyncpg.ProgramLimitExceededError,
            ) as error:
                # Of several, the worker finds the one; alone, it is the asker's to mend.
                if len(ids) > 1:
                    raise
                hint = getattr(error, "hint", None)
                await connection.execute(
                    FAIL, ids[0], f"{error.args[0]}. {hint}" if hint else str(error.args[0])
                )

        return commit


def _complaint(options: Mapping[str, Any]) -> str | None:
    """What is wrong with a recall's options, null meaning not given; which sources there are is for recall() to say."""
    count, sources, condition = (options.get(name) for name in ("match_count", "sources", "filter"))
    if isinstance(count, str) and count.isascii() and count.isdigit():
        count = int(count)
    if count is not None and (type(count) is not int or not 0 <= count <= MOST_MATCHES):
        return (
            f"match_count is {json.dumps(count)}. Give how many results you want, a whole number, 0 or more."
        )
    if sources is not None and not (isinstance(sources, list) and all(isinstance(s, str) for s in sources)):
        return f'sources is {json.dumps(sources)}. Give an array of names, such as ["memory", "insight"].'
    if condition is not None and not isinstance(condition, dict):
        return f'filter is {json.dumps(condition)}. Give an object that the metadata contain, such as {{"kind": "fact"}}.'
    return None
