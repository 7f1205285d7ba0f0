"""Entries of rows, written with SQL: as a daemon writes them, each text as one passage."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from tests.support.rows import column

WRITE = """
select w.id
from (select array_agg(s.id order by s.id) as ids, array_agg(s.text_hash order by s.id) as hashes,
             array_agg(s.searched_text order by s.id) as texts,
             array_agg($3::text::vector order by s.id) as embeddings
      from memoryd.searchable s
      where s.source = $1 and ($2::uuid[] is null or s.id = any($2))) r
cross join lateral memoryd.write_entries($1, r.ids, r.hashes, r.ids, r.texts, r.embeddings) w
where r.ids is not null and not w.locked_elsewhere
"""

WRITE_ALL = """
select w.id
from (select s.source, array_agg(s.id order by s.id) as ids, array_agg(s.text_hash order by s.id) as hashes,
             array_agg(s.searched_text order by s.id) as texts,
             array_agg(memoryd.embed(s.searched_text) order by s.id) as embeddings
      from memoryd.searchable s group by s.source) r
cross join lateral memoryd.write_entries(r.source, r.ids, r.hashes, r.ids, r.texts, r.embeddings) w
"""

PASSAGES = "select count(*) from memoryd.entries where id = $1"

INDEXED = "select bool_and(code is not null) from memoryd.entries where id = $1"
"""Whether a row has its entries, with their embeddings: null while it has none."""

INDEXED_MEMORIES = """
select m.id
from agent_memory m
where exists (select from memoryd.entries e where e.id = m.id and e.source = 'memory')
  and not exists (select from memoryd.entries e where e.id = m.id and e.source = 'memory' and e.code is null)
order by m.created_at, m.id
"""
"""Ids of the memories that have their entries, with embeddings."""

UNINDEXED = """
select s.id
from memoryd.searchable s
left join memoryd.entries e on e.source = s.source and e.id = s.id
where e.code is null and ($1::text is null or s.source = $1)
"""
"""Ids of rows (of a source; null: of all) of which an entry is missing, or an entry's embedding."""

STALE = """
with grouped as (
    select m.id, 'conversation' as source, memoryd.group_scope(m.chat_id, m.role) as scope from conversation_messages m
), places as (
    select s.*, s.scope as home, case when s.source = 'knowledge' then s.scope else g.scope end as group_scope
    from memoryd.searchable s left join grouped g on g.source = s.source and g.id = s.id
    union all
    select s.*, g.scope, g.scope
    from memoryd.searchable s join grouped g on g.source = s.source and g.id = s.id
    where g.scope is not null
)
select coalesce(s.source, e.source) as source, coalesce(s.id, e.id) as id
from places s
full join (
    select t.source, t.id, t.scope, array_agg(t.passage order by t.passage) as passages,
           array_agg(distinct t.text_hash) as hashes, bool_and(t.code is not null) as embedded
    from memoryd.entries t
    group by t.source, t.id, t.scope
) e on e.source = s.source and e.id = s.id and e.scope = s.home
left join memoryd.entries f on f.source = s.source and f.id = s.id and f.scope = s.home and f.passage = 0
where s.id is null or e.id is null
   or e.hashes <> array[s.text_hash] or not e.embedded
   or e.passages <> array(select n::smallint from generate_series(0, cardinality(e.passages) - 1) n)
   or (f.owner_id, f.agent_id, f.access_level, f.visibility_tags, f.is_current, f.expires_at, f.session_id,
       f.position, f.speaker, f.created_at, f.group_scope)
      is distinct from
      (s.owner_id, s.agent_id, s.access_level, s.visibility_tags, s.is_current, s.expires_at, s.session_id,
       s.position, s.speaker, s.created_at, s.group_scope)
   or f.weight not between s.weight * 0.9999 and s.weight * 1.0501
   or (f.grants_metadata ->> 'project' is distinct from s.row_metadata ->> 'project')
"""
"""Rows whose entries are not exactly what they should be, once nothing is left to do; and entries of no row.

A message in a group chat has its entries in two scopes. Knowledge has the scope of its organisation as its group's. A dream
gives what is used often up to 5 percent more weight.
"""

CONTENTS = """
select source, id, passage, scope, lexemes::text, weights::text, length, times, asks, owner_id, agent_id,
       access_level, visibility_tags, grants_metadata, is_current, expires_at, session_id, position, speaker,
       created_at, weight, text_hash
from memoryd.entries
order by source, id, scope, passage
"""


async def index_rows(
    connection: asyncpg.Connection,
    source: str,
    ids: Sequence[object] | None = None,
    *,
    embedding: str | None = None,
) -> Sequence[object]:
    """Writes the entries of these rows (None: all of the source), each with this embedding. Returns the ids of those written.

    Where the writer of a row gave an embedding, that one is kept.
    """
    return await column(connection, WRITE, source, ids, embedding)


async def index_all(connection: asyncpg.Connection) -> None:
    """Writes the entries of all rows, as a daemon with the local embedder does it, and counts their words."""
    await connection.execute(WRITE_ALL)
    await connection.execute("select memoryd.fold_lexeme_changes()")


async def entries(connection: asyncpg.Connection) -> Sequence[tuple[object, ...]]:
    """All entries, with all that they say but the embedding."""
    return [tuple(r) for r in await connection.fetch(CONTENTS)]


async def stale(connection: asyncpg.Connection) -> Sequence[tuple[object, ...]]:
    """Sources and ids of rows that lack an entry or have a wrong one, and of entries that belong to no row."""
    return [tuple(r) for r in await connection.fetch(STALE)]
