"""A command ended: its outcome, or its error, becomes a memory, exactly once; a significant one is anchored.

With a local embedder the memory is embedded here already, and searchable the moment it exists. A remote one could delay
the memory: then it is embedded like any other inserted memory, by the index topic.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from handlers.shared.embedding import Embedding
from handlers.shared.indexing import RowToIndex, learn_words, unknown_words, write_rows
from handlers.shared.ports import AnyConnection, Commit, Job, Reader
from memory.outcome import category_of, summarise_outcome
from memory.passages import passages

# Only the tail of an output can matter to its summary.
READ = """
select c.id, c.agent_id, c.user_id, c.session_id, left(c.message, 2000) as message, right(c.output, 65536) as output,
       c.exit_code, c.status = 'failed' as failed, left(c.error, 2000) as error, c.finished_at
from public.agent_commands c
where c.id = any($1) and c.status in ('completed', 'failed')
"""

# Of a command that was erased meanwhile nothing is remembered: an erasure waits for this lock, then deletes command and memory.
WRITE = """
with commands as materialized (
    select c.id from public.agent_commands c where c.id = any($1) order by c.id for key share
)
insert into public.agent_memory
    (command_id, agent_id, user_id, session_id, kind, content, metadata, source, created_at)
select n.command_id, n.agent_id, n.user_id, n.session_id, n.kind, n.content, n.metadata, 'capture',
       least(n.created_at, now())
from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::jsonb[], $8::timestamptz[])
     as n(command_id, agent_id, user_id, session_id, kind, content, metadata, created_at)
join commands c on c.id = n.command_id
on conflict (command_id) where command_id is not null do nothing
returning id, content
"""

# The entries of these memories are written here too, so they need no job: see memoryd.rows_inserted().
INDEXING = "select set_config('memoryd.indexing', $1, true)"


ANCHOR = """
insert into public.memory_anchors (memory_id, category)
select n.memory_id, n.category from unnest($1::uuid[], $2::text[]) as n(memory_id, category)
"""


class CaptureHandler:
    """completed | failed -> a memory of kind outcome | error, anchored in the same transaction if it is significant."""

    def __init__(self, *, reader: Reader, embedding: Embedding) -> None:
        self._reader = reader
        self._embedding = embedding

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        rows = {r["id"]: r for r in await self._reader.fetch(READ, [j.ref for j in jobs])}
        summaries = {
            i: summarise_outcome(
                r["message"], r["output"], exit_code=r["exit_code"], failed=r["failed"], error=r["error"]
            )
            for i, r in rows.items()
        }
        categories = {s: c for s in summaries.values() if (c := category_of(s)) is not None}
        words = await unknown_words(self._reader, summaries.values())
        parts = {i: passages(summary) for i, summary in summaries.items()}
        embedder = self._embedding.name
        vectors = await self._embedding.if_local({p: p for own in parts.values() for p in own})

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            mine = [rows[j.ref] for j in ours if j.ref in rows]
            if not mine:
                return
            indexed_here = all(p in vectors for r in mine for p in parts[r["id"]])
            if indexed_here:
                await connection.execute(INDEXING, "on")
            captured = await connection.fetch(
                WRITE,
                [r["id"] for r in mine],
                [r["agent_id"] for r in mine],
                [r["user_id"] for r in mine],
                [r["session_id"] for r in mine],
                ["error" if r["failed"] else "outcome" for r in mine],
                [summaries[r["id"]] for r in mine],
                [json.dumps({} if r["exit_code"] is None else {"exit_code": r["exit_code"]}) for r in mine],
                [r["finished_at"] for r in mine],
            )
            anchored = [(r["id"], categories[r["content"]]) for r in captured if r["content"] in categories]
            if anchored:
                await connection.execute(ANCHOR, *map(list, zip(*anchored, strict=True)))
            if indexed_here:
                await connection.execute(INDEXING, "off")
                to_index = [RowToIndex(r["id"], passages(r["content"])) for r in captured]
                written = await write_rows(connection, "memory", to_index, vectors=vectors, embedder=embedder)
                await learn_words(connection, words, written.rows)

        return commit
