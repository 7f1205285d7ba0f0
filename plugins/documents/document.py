"""A document was written, or its text changed: cut it into chunks, which are then indexed like any other row.

Promise: of a document that changes only the chunks that changed are new rows. Until its first chunks stand, a document is
`processing` and found by nobody; from then on the old chunks are found until the new ones take their place, in one moment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from hashlib import sha256
from uuid import UUID

from handlers.shared.ports import AnyConnection, Commit, Job, Reader
from plugins.documents.chunks import chunks

READ = """
select d.id, d.title, d.content
from public.documents d
where d.id = any($1) and d.content is not null and d.status <> 'deleted'
  and (d.status = 'processing' or d.chunked_at is not null or d.content_hash is null)
"""

WRITE = "select memoryd.write_chunks($1, $2, $3, $4::jsonb)"

SITUATE = "insert into memoryd.jobs (topic, ref) select 'situate', u.id from unnest($1::uuid[]) as u(id)"
WAKE = "select memoryd.wake('situate')"


class DocumentHandler:
    """processing -> active, with chunks. `situate`: a language model then says where these stand."""

    def __init__(self, *, reader: Reader, situate: bool = False) -> None:
        self._reader = reader
        self._situate = situate

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        read = await self._reader.fetch(READ, list({j.ref for j in jobs}))
        made: dict[UUID, tuple[str, bytes, str]] = {
            r["id"]: (
                r["title"],
                sha256(r["content"].encode()).digest(),
                await asyncio.to_thread(_chunks, r["content"], r["title"]),
            )
            for r in read
        }

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            # In one order, since each is locked until the end.
            cut = sorted({j.ref for j in ours if j.ref is not None and j.ref in made})
            changed = [i for i in cut if await connection.fetchval(WRITE, i, *made[i])]
            if changed and self._situate:
                await connection.execute(SITUATE, changed)
                await connection.execute(WAKE)

        return commit


def _chunks(text: str, title: str) -> str:
    found = chunks(text, title=title)
    return json.dumps([{"chunk_text": c.text, "heading": c.heading, "headings": c.headings} for c in found])
