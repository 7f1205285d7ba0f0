"""The hybrid search that Supabase documents, in plain SQL: a table with a tsvector and a vector, GIN and HNSW indexes, and a
function that fuses the two rankings by reciprocal rank.

Rows are filtered to one user's, as an application does, and the table has an index on the user. A second function asks for any
of the words instead of all. The client embeds rows and questions.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asyncpg
from pgvector import Vector
from pgvector.asyncpg import register_vector

from benchmarks.peers.measure import COUNT, Answer, System, Text, timed
from providers.local_embedder import LocalEmbedder

FUNCTION = """
create function plain.{name}(
    query_text text, query_embedding vector(256), match_count integer, owner uuid,
    full_text_weight float default 1, semantic_weight float default 1, rrf_k integer default 50)
returns setof plain.documents
language sql
as $$
with full_text as (
    select id, row_number() over (order by ts_rank_cd(fts, {words}) desc) as rank_ix
    from plain.documents
    where user_id = owner and fts @@ {words}
    order by rank_ix
    limit least(match_count, 30) * 2
), semantic as (
    select id, row_number() over (order by embedding <#> query_embedding) as rank_ix
    from plain.documents
    where user_id = owner
    order by rank_ix
    limit least(match_count, 30) * 2
)
select d.*
from full_text
full outer join semantic on full_text.id = semantic.id
join plain.documents d on coalesce(full_text.id, semantic.id) = d.id
order by coalesce(1.0 / (rrf_k + full_text.rank_ix), 0.0) * full_text_weight
       + coalesce(1.0 / (rrf_k + semantic.rank_ix), 0.0) * semantic_weight desc
limit least(match_count, 30)
$$
"""
MAKE = """
create schema plain;
create table plain.documents (
    id uuid primary key,
    user_id uuid not null,
    content text not null,
    fts tsvector generated always as (to_tsvector('english', content)) stored,
    embedding vector(256)
);
create index on plain.documents using gin (fts);
create index on plain.documents using hnsw (embedding vector_ip_ops);
create index documents_of_user on plain.documents (user_id);
"""
ALL_WORDS = "websearch_to_tsquery('english', query_text)"
ANY_WORD = "replace(plainto_tsquery('english', query_text)::text, '&', '|')::tsquery"
HYBRID = {"hybrid_search": "hybrid search", "hybrid_search_any": "hybrid search, any word"}

INSERT = """
insert into plain.documents (id, user_id, content, embedding)
select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::vector[])
"""


@asynccontextmanager
async def hybrid(url: str) -> AsyncIterator[System]:
    """The table, the functions, a connection. Filtered scans of the HNSW index go on until they have enough rows."""
    connection = await asyncpg.connect(url)
    await register_vector(connection)
    await connection.execute("load 'vector'")
    await connection.execute("set hnsw.iterative_scan = strict_order")
    await connection.execute(MAKE)
    for name, words in zip(HYBRID, (ALL_WORDS, ANY_WORD), strict=True):
        await connection.execute(FUNCTION.format(name=name, words=words))
    embedder = LocalEmbedder()

    async def write(texts: Sequence[Text]) -> None:
        vectors = [Vector(v) for v in await embedder.embed([t.text for t in texts])]
        ids, users = [uuid.UUID(t.id) for t in texts], [uuid.UUID(t.user) for t in texts]
        await connection.execute(INSERT, ids, users, [t.text for t in texts], vectors)

    async def settle() -> None:
        """A row that is written is found."""

    async def search(function: str, question: str, user: uuid.UUID) -> Answer:
        async def rows() -> Sequence[Any]:
            (vector,) = await embedder.embed([question])
            sql = f"select id from plain.{function}($1, $2, $3, $4)"
            return list(await connection.fetch(sql, question, Vector(vector), COUNT, user))

        return await timed(rows())

    ways = {f"Supabase's {title}": partial(search, function) for function, title in HYBRID.items()}
    yield System(write, settle, ways, None)
    await embedder.close()
    await connection.close()
