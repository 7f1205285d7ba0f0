"""Indexing messages of conversations: each with those around it, since what a turn is about is often said beside it.

A message's window is the three before it and the two after it in its session (memoryd.windows). Its embedding is the mean of
theirs, its weights are reckoned from all their words. A message that arrives, changes or goes is in the windows of others,
and those are indexed again with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pgvector import Vector

from handlers.ports import Reader

# Of a session the messages in whose windows one of $1 stands: it, two before it and three after it.
WINDOWS = """
with refs as (
    select m.id, m.session_id, m.message_index from public.conversation_messages m where m.id = any($1)
), targets as (
    select r.id, r.id as ref from refs r
    union
    select b.id, r.id
    from refs r
    cross join lateral (
        (select m.id, m.lexemes from public.conversation_messages m
         where m.session_id = r.session_id and m.message_index < r.message_index
         order by m.message_index desc limit 2)
        union all
        (select m.id, m.lexemes from public.conversation_messages m
         where m.session_id = r.session_id and m.message_index > r.message_index
         order by m.message_index limit 3)
    ) b
    -- What has no index yet has a job of its own.
    where b.lexemes is not null
)
select w.id, array_agg(w.neighbour) as neighbours, array_agg(w.weight) as weights,
       sum(hashtextextended(m.content, (w.weight * 2)::bigint)::numeric)::text as version,
       (select array_agg(t.ref) from targets t where t.id = w.id) as refs
from memoryd.windows(array(select distinct t.id from targets t)) w
cross join lateral (select n.content from public.conversation_messages n where n.id = w.neighbour offset 0) m
group by w.id
"""

TEXTS = """
select m.id, left(m.content, 32768) as text from public.conversation_messages m where m.id = any($1)
"""

# Of one session one index at a time is written, each seeing the last one's messages: no older view of a window ever
# overwrites a newer one.
LOCK = """
select pg_advisory_xact_lock(s.key)
from (select distinct hashtextextended('memoryd.window:' || m.session_id::text, 0) as key
      from public.conversation_messages m where m.id = any($1) order by 1) s
"""

# A window that has changed since it was read gets its index by a job of its own.
WRITE = """
with given as materialized (
    select * from unnest($1::uuid[], $2::vector[], $3::text[]) as n(id, embedding, version)
), current as materialized (
    select w.id, sum(hashtextextended(m.content, (w.weight * 2)::bigint)::numeric)::text as version
    from memoryd.windows($1) w
    cross join lateral (select n.content from public.conversation_messages n where n.id = w.neighbour offset 0) m
    group by w.id
), fresh as materialized (
    select g.id, g.embedding, m.content, m.speaker, m.session_id, m.message_index
    from given g
    join current c using (id, version)
    join public.conversation_messages m using (id)
), written as (
    update public.conversation_messages m
    set embedding = coalesce(f.embedding, m.embedding),
        lexemes = w.lexemes, sparse_embedding = w.weights, prior = w.prior, says_when = w.says_when
    from fresh f
    join memoryd.weigh_messages(array(select id from fresh)) w using (id)
    where m.id = f.id
      -- Asked again of the row itself, which may have waited for whoever changed it.
      and (m.content, m.speaker, m.session_id, m.message_index)
          is not distinct from (f.content, f.speaker, f.session_id, f.message_index)
    returning 1
), again as (
    insert into memoryd.jobs (topic, ref, payload)
    select 'index', c.id, '{"source": "conversation"}'
    from current c join given g using (id)
    where c.version <> g.version
    returning 1
)
select memoryd.ring('index') where exists (select from again)
"""


@dataclass(frozen=True, slots=True)
class Windows:
    """Messages to index, each with the messages of its window."""

    rows: Sequence[Any]
    text_of: Mapping[UUID, str]

    def texts(self) -> Iterator[str]:
        """What is to be embedded: every message of every window."""
        return iter(self.text_of.values())

    def writes(
        self, vectors: Mapping[str, npt.NDArray[np.float32]], *, only: Collection[UUID] | None
    ) -> Iterator[tuple[str, list[object]]]:
        """The statements that index the windows around `only` (None: all)."""
        mine = [r for r in self.rows if only is None or any(ref in only for ref in r["refs"])]
        if not mine:
            return
        ids = [r["id"] for r in mine]
        yield LOCK, [ids]
        yield WRITE, [ids, [self._embedding(r, vectors) for r in mine], [r["version"] for r in mine]]

    def _embedding(self, row: Any, vectors: Mapping[str, npt.NDArray[np.float32]]) -> Vector | None:
        """The weighted mean of the window's unit vectors, scaled to unit length; None while one of them is not known."""
        around = [vectors.get(self.text_of.get(n, "")) for n in row["neighbours"]]
        if any(v is None for v in around):
            return None
        mean = np.average(np.stack([v for v in around if v is not None]), axis=0, weights=row["weights"])
        length = float(np.linalg.norm(mean))
        return Vector((mean / length if length > 0 else mean).astype(np.float32))


class MessageIndex:
    """How conversation_messages are indexed."""

    async def read(self, reader: Reader, ids: Sequence[UUID]) -> Windows:
        """The windows that the messages stand in."""
        rows = await reader.fetch(WINDOWS, ids)
        around = list({n for r in rows for n in r["neighbours"]})
        texts = await reader.fetch(TEXTS, around) if around else []
        return Windows(rows, {r["id"]: r["text"] for r in texts})
