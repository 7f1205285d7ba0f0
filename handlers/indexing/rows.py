"""Indexing rows by their own text: memories, chunks, knowledge, insights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import Vector

from handlers.shared.ports import Job, Reader
from memory.vectors import OneVector

# Of what was indexed before, and has new words now, later memories may be near to those: see handlers/associate.py.
ASSOCIATE = """, queued as (
    insert into memoryd.jobs (topic, lane, ref, payload)
    select 'associate', memoryd.associate_lane(w.agent_id, w.user_id), w.id,
           case when l.changed then '{"changed": true}'::jsonb end
    from written w join locked l using (id)
    where l.embedding is not null and not l.embedded
    order by w.created_at, w.id
    returning memoryd.wake('associate')
)
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that lack their index: id, text, and the version that the text was read at."""

    rows: Sequence[Any]
    write: str

    def texts(self) -> Iterator[str]:
        """What is to be embedded."""
        return (r["text"] for r in self.rows)

    def writes(
        self, vectors: Mapping[str, OneVector], *, only: Collection[UUID] | None
    ) -> Iterator[tuple[str, list[object]]]:
        """The statements that index those of `only` (None: all); texts without a vector are indexed by their words."""
        mine = [r for r in self.rows if only is None or r["id"] in only]
        if mine:
            embeddings = [Vector(v) if (v := vectors.get(r["text"])) is not None else None for r in mine]
            yield self.write, [[r["id"] for r in mine], embeddings, [r["version"] for r in mine]]


class RowIndex:
    """How rows of one table are indexed: by the text that memoryd.searched_text() gives of a row."""

    def __init__(self, table: str, *, embedding: str = "embedding", associated: bool = False) -> None:
        text = "memoryd.searched_text(t)"
        self.read_sql = f"""
select t.id, left({text}, 32768) as text, hashtextextended({text}, 0) as version
from public.{table} t
where t.id = any($1) and (t.lexemes is null or t.{embedding} is null)
"""  # noqa: S608 - our own names
        # Rows whose text is no longer what was read are left to the job of its change.
        self.write_sql = f"""
with unchanged as materialized (
    select n.id, n.embedding, n.version
    from unnest($1::uuid[], $2::vector[], $3::bigint[]) as n(id, embedding, version)
    join public.{table} t on t.id = n.id and hashtextextended({text}, 0) = n.version
), locked as materialized (
    -- Compared with the row as it is when its lock is got.
    select u.id, u.embedding, t.{embedding} is not null as embedded, {text} as text,
           t.lexemes is null and t.prior is not null as changed
    from unchanged u
    join public.{table} t on t.id = u.id and hashtextextended({text}, 0) = u.version
    for no key update of t skip locked
), written as (
    update public.{table} t
    set {embedding} = coalesce(t.{embedding}, l.embedding),
        lexemes = w.lexemes, sparse_embedding = w.weights, prior = w.prior, says_when = w.says_when
    from locked l
    join memoryd.weigh_texts(array(select id from locked), array(select text from locked)) w on w.id = l.id
    where t.id = l.id
    returning t.id{", t.agent_id, t.user_id, t.created_at" if associated else ""}
){ASSOCIATE if associated else ""}
select u.id, l.id is null as locked_elsewhere from unchanged u left join locked l using (id)
"""  # noqa: S608

    async def read(self, reader: Reader, jobs: Sequence[Job]) -> Rows:
        """Those of the rows that lack their index."""
        return Rows(await reader.fetch(self.read_sql, [j.ref for j in jobs]), self.write_sql)
