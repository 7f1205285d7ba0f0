"""Indexing messages of conversations: each with those around it, since what a turn is about is often said beside it.

A message's window is the three before it and the two after it in its session (memoryd.windows). Its embedding is the mean of
theirs, its weights are computed from all their words. A message that arrives, changes or goes is in the windows of others,
and those are indexed again with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import Vector

from handlers.shared.ports import Job, Reader
from memory.vectors import OneVector, mean

# What a window is computed from: the words of its messages `n`, their places, and the session that they are of.
VERSION = "sum(hashtextextended(n.content, uuid_hash_extended(n.session_id, (w.weight * 2)::bigint))::numeric)::text"

# The messages whose windows contain one of $1: itself, two before it and three after it in its session. The same around the
# places $3, of the sessions $2, where messages were deleted. Of the messages $4 only their own windows.
WINDOWS = f"""
with refs as (
    select m.id as ref, m.session_id, m.message_index as first, m.message_index as last
    from public.conversation_messages m where m.id = any($1)
    union all
    select g.session_id, g.session_id, lower(g.gone::int4range), upper(g.gone::int4range) - 1
    from unnest($2::uuid[], $3::text[]) as g(session_id, gone)
), targets as materialized (
    select m.id, m.id as ref from public.conversation_messages m where m.id = any($1::uuid[] || $4::uuid[])
    union
    -- Also those that have no index yet: a transaction that is writing it may have read before this message was there.
    select b.id, r.ref
    from refs r
    cross join lateral (
        (select m.id from public.conversation_messages m
         where m.session_id = r.session_id and m.message_index < r.first
         order by m.message_index desc limit 2)
        union all
        (select m.id from public.conversation_messages m
         where m.session_id = r.session_id and m.message_index > r.last
         order by m.message_index limit 3)
    ) b
)
select w.id, array_agg(w.neighbour) as neighbours, array_agg(w.weight) as weights,
       array_agg(hashtextextended(n.content, 0)) as hashes, {VERSION} as version,
       t.refs
from (select array_agg(ref) as refs, id from targets group by id) t
join memoryd.windows(array(select distinct id from targets)) w using (id)
cross join lateral (select * from public.conversation_messages m where m.id = w.neighbour offset 0) n
group by w.id, t.refs
"""  # noqa: S608 - our own words

TEXTS = """
select m.id, left(m.content, 32768) as text, hashtextextended(m.content, 0) as hash
from public.conversation_messages m where m.id = any($1)
"""

# Only one transaction at a time writes the index of one session, and it sees the messages of the one before: an older state of
# a window never overwrites a newer one.
LOCK = """
with windows as materialized (
    select from memoryd.locks l
    where l.name in (select 'window ' || (uuid_hash_extended(m.session_id, 0) & 255)
                     from public.conversation_messages m where m.id = any($1))
    order by l.name
    for update
)
select null::uuid from (select count(*) from windows) w where w.count < 0
"""

# A window that has changed since it was read is left to the job of that change.
WRITE = f"""
with given as materialized (
    select * from unnest($1::uuid[], $2::vector[], $3::text[]) as g(id, embedding, version)
), current as materialized (
    select w.id, {VERSION} as version
    from memoryd.windows($1) w
    cross join lateral (select * from public.conversation_messages m where m.id = w.neighbour offset 0) n
    group by w.id
), unchanged as materialized (
    select g.id, g.embedding, m.content, m.speaker, m.session_id, m.message_index, m.created_at
    from given g
    join current c using (id, version)
    join public.conversation_messages m using (id)
), locked as materialized (
    -- Compared with the row as it is when its lock is got.
    select u.id, u.embedding
    from unchanged u
    join public.conversation_messages m on m.id = u.id
        and (m.content, m.speaker, m.session_id, m.message_index, m.created_at)
            is not distinct from (u.content, u.speaker, u.session_id, u.message_index, u.created_at)
    for no key update of m skip locked
), written as (
    update public.conversation_messages m
    set embedding = coalesce(l.embedding, m.embedding),
        lexemes = w.lexemes, sparse_embedding = w.weights, prior = w.prior, says_when = w.says_when
    from locked l
    join memoryd.weigh_messages(array(select id from locked)) w using (id)
    where m.id = l.id
)
select u.id, l.id is null as locked_elsewhere from unchanged u left join locked l using (id)
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Windows:
    """Messages to index, each with the messages of its window."""

    rows: Sequence[Any]
    text_of: Mapping[UUID, str]

    def texts(self) -> Iterator[str]:
        """What is to be embedded: every message of every window."""
        return iter(self.text_of.values())

    def writes(
        self, vectors: Mapping[str, OneVector], *, only: Collection[UUID] | None
    ) -> Iterator[tuple[str, list[object]]]:
        """The statements that index the windows around `only` (None: all)."""
        mine = [r for r in self.rows if only is None or any(ref in only for ref in r["refs"])]
        if not mine:
            return
        ids = [r["id"] for r in mine]
        yield LOCK, [ids]
        yield WRITE, [ids, [self._embedding(r, vectors) for r in mine], [r["version"] for r in mine]]

    def _embedding(self, row: Any, vectors: Mapping[str, OneVector]) -> Vector | None:
        """The weighted mean of the window's unit vectors, scaled to unit length; None while one of them is not known."""
        around = [vectors.get(self.text_of.get(n, "")) for n in row["neighbours"]]
        if any(v is None for v in around):
            return None
        return Vector(mean([v for v in around if v is not None], row["weights"]))


class MessageIndex:
    """How conversation_messages are indexed."""

    async def read(self, reader: Reader, jobs: Sequence[Job]) -> Windows:
        """The windows that the messages stand in, or would stand in where they have left their places in a session."""
        asked: defaultdict[str, list[Any]] = defaultdict(list)
        for job in jobs:
            payload = job.payload or {}
            if "gone" in payload:
                asked["sessions"].append(job.ref)
                asked["places"].append(payload["gone"])
            else:
                asked["only" if payload.get("only_this_row") else "ids"].append(job.ref)
        rows = await reader.fetch(WINDOWS, *(asked[key] for key in ("ids", "sessions", "places", "only")))
        around = list({n for r in rows for n in r["neighbours"]})
        texts = {r["id"]: r for r in await reader.fetch(TEXTS, around)} if around else {}
        # What changed between the two has a job of its own.
        same = [
            r
            for r in rows
            if all(
                n in texts and texts[n]["hash"] == h
                for n, h in zip(r["neighbours"], r["hashes"], strict=True)
            )
        ]
        return Windows(same, {key: r["text"] for key, r in texts.items()})
