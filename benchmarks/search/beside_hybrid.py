"""recall() and contexts beside the hybrid search that Supabase documents: what is found, how quickly, and how rows come in.

    python -m benchmarks.search.beside_hybrid --data FILE...

One run, one Postgres, the same rows and the same vectors (local embedder). The hybrid search is a table with a generated
tsvector, a vector, GIN and HNSW indexes, and a function that fuses the two rankings by reciprocal rank; rows are filtered to
one user's, as an application does, and the table has an index on the user too. A second function asks for any of the words
instead of all. For it the client embeds rows and questions; for memoryd a daemon embeds the rows and the database the
questions. FILEs are as for benchmarks.search.evidence.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import asyncpg
from pgvector import Vector
from pgvector.asyncpg import register_vector

from benchmarks.harness import daemon, embedded, percentiles, wait_for
from benchmarks.search.bodies import IDLE, WRITE_MESSAGES, Body, parser, read, write
from benchmarks.search.evidence import print_table, shown
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
RECALL = "select id from recall($1, user_id => $2)"
SEARCHABLE = "select not exists (select from memoryd.jobs where topic in ('index', 'statistics'))"
CONTEXT = "select build_context('reader', $1, $2)"

BATCH, SESSION, CLIENTS = 100, 20, 4
LONGEST = 1_000
"""Characters of a message that times are taken with."""
SIZES = ((20_000, 20), (20_000, 2))
"""Rows, and the users that share them."""


@dataclass(frozen=True, slots=True)
class Row:
    """A message, of one user."""

    id: uuid.UUID
    session: uuid.UUID
    user: uuid.UUID
    place: int
    text: str


async def connect(url: str) -> asyncpg.Connection:
    """A connection that knows vectors. Filtered scans of the HNSW index go on until they have enough rows."""
    connection = await asyncpg.connect(url)
    await register_vector(connection)
    await connection.execute("load 'vector'")
    await connection.execute("set hnsw.iterative_scan = strict_order")
    return connection


async def make(connection: asyncpg.Connection) -> None:
    """The table and the two functions."""
    await connection.execute(MAKE)
    for name, words in zip(HYBRID, (ALL_WORDS, ANY_WORD), strict=True):
        await connection.execute(FUNCTION.format(name=name, words=words))


async def evidence(url: str, sets: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """Evidence recall@10 by way to search and by set."""
    connection = await connect(url)
    await make(connection)
    embedder = LocalEmbedder()
    found: dict[str, dict[str, float]] = {"recall()": {}, **{name: {} for name in HYBRID.values()}}
    for name, texts in sets.items():
        bodies, _ = await write(url, texts)
        for body in bodies:
            contents = list(body.texts.values())
            vectors = [Vector(v) for v in await embedder.embed(contents)]
            await connection.execute(INSERT, list(body.texts), [body.user] * len(contents), contents, vectors)
        await connection.execute("vacuum analyze plain.documents")
        recall = await connection.prepare(RECALL)
        found["recall()"][name] = await mean_recall(bodies, lambda t, u, s=recall: s.fetch(t, u))  # type: ignore[misc]
        for function, title in HYBRID.items():
            search = await connection.prepare(f"select id from plain.{function}($1, $2, 10, $3)")

            async def hybrid(text: str, user: uuid.UUID, search: Any = search) -> Sequence[Any]:
                (vector,) = await embedder.embed([text])
                rows: Sequence[Any] = await search.fetch(text, Vector(vector), user)
                return rows

            found[title][name] = await mean_recall(bodies, hybrid)
    await embedder.close()
    await connection.close()
    return found


async def mean_recall(
    bodies: Sequence[Body], ask: Callable[[str, uuid.UUID], Awaitable[Sequence[Any]]]
) -> float:
    """Mean evidence recall@10."""
    parts = []
    for body in bodies:
        for question in body.questions:
            rows = {r["id"] for r in await ask(question.text, body.user)}
            parts.append(len(rows & question.evidence) / len(question.evidence))
    return fmean(parts)


def make_rows(texts: Sequence[str], rows: int, users: int) -> Iterator[list[Row]]:
    """Batches of messages: each user's are sessions of texts that follow each other."""
    chance = random.Random(1)
    supply = itertools.cycle(texts)
    made: list[Row] = []
    for number in range(rows // SESSION):
        session, user = uuid.UUID(int=chance.getrandbits(128)), uuid.UUID(int=number % users + 1)
        made += [
            Row(uuid.UUID(int=chance.getrandbits(128)), session, user, place, next(supply))
            for place in range(SESSION)
        ]
        if len(made) >= BATCH:
            yield made
            made = []
    if made:
        yield made


async def with_clients(
    url: str,
    batches: Sequence[list[Row]],
    insert: Callable[[asyncpg.Connection, list[Row]], Awaitable[object]],
) -> None:
    """Inserts all batches, by CLIENTS connections at once."""
    left = iter(batches)

    async def client() -> None:
        connection = await connect(url)
        for batch in left:
            await insert(connection, batch)
        await connection.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def fill_memoryd(url: str, batches: Sequence[list[Row]]) -> float:
    """Seconds until all rows are searchable: written, embedded, their words counted."""

    async def insert(connection: asyncpg.Connection, batch: list[Row]) -> None:
        now = await connection.fetchval("select now()")
        count = len(batch)
        await connection.execute(
            WRITE_MESSAGES,
            *([r.id for r in batch], [r.session for r in batch], [r.user for r in batch]),
            *([r.place for r in batch], ["user"] * count, [("Ada", "Ben")[r.place % 2] for r in batch]),
            *([r.text for r in batch], [now] * count),
        )

    connection = await asyncpg.connect(url)
    async with daemon(url):
        began = time.perf_counter()
        await with_clients(url, batches, insert)
        await wait_for(connection, SEARCHABLE, pause=0.02)
        seconds = time.perf_counter() - began
        await wait_for(connection, IDLE, pause=0.02)
    await connection.execute("vacuum analyze")
    await connection.close()
    return seconds


async def fill_plain(url: str, batches: Sequence[list[Row]]) -> float:
    """Seconds until all rows are written with their embeddings, which the client makes."""
    embedder = LocalEmbedder()

    async def insert(connection: asyncpg.Connection, batch: list[Row]) -> None:
        vectors = await embedder.embed([r.text for r in batch])
        await connection.execute(
            INSERT,
            *([r.id for r in batch], [r.user for r in batch], [r.text for r in batch]),
            [Vector(v) for v in vectors],
        )

    connection = await connect(url)
    await make(connection)
    began = time.perf_counter()
    await with_clients(url, batches, insert)
    seconds = time.perf_counter() - began
    await connection.execute("vacuum analyze plain.documents")
    await connection.close()
    await embedder.close()
    return seconds


async def take_times(url: str, questions: Sequence[str], users: int) -> dict[str, list[float]]:
    """Seconds of each search, taking turns; and of the client's embedding."""
    connection = await connect(url)
    embedder = LocalEmbedder()
    recall, context = await connection.prepare(RECALL), await connection.prepare(CONTEXT)
    hybrid = {
        title: await connection.prepare(f"select id from plain.{function}($1, $2, 10, $3)")
        for function, title in HYBRID.items()
    }
    seconds: dict[str, list[float]] = {"recall()": [], "build_context()": [], **{t: [] for t in hybrid}}
    seconds["embedding"] = []

    async def timed(title: str, work: Awaitable[Any]) -> Any:
        began = time.perf_counter()
        result = await work
        seconds[title].append(time.perf_counter() - began)
        return result

    for number, question in enumerate(questions):
        user = uuid.UUID(int=number % users + 1)
        (vector,) = await timed("embedding", embedder.embed([question]))
        await timed("recall()", recall.fetch(question, user))
        await timed("build_context()", context.fetch(question, user))
        for title, statement in hybrid.items():
            await timed(title, statement.fetch(question, Vector(vector), user))
    await embedder.close()
    await connection.close()
    # The first pay for plans and cold pages.
    return {title: taken[len(taken) // 10 :] for title, taken in seconds.items()}


async def compare_times(
    url: str, texts: Sequence[str], questions: Sequence[str], size: tuple[int, int]
) -> dict[str, dict[str, float]]:
    """Milliseconds of each search and rows a second, for this number of rows and of users."""
    batches = list(make_rows(texts, *size))
    rows = sum(len(b) for b in batches)
    ingest = {"recall()": rows / await fill_memoryd(url, batches)}
    rate = rows / await fill_plain(url, batches)
    ingest |= dict.fromkeys(HYBRID.values(), rate)
    times = await take_times(url, questions, size[1])
    # As in the documentation, which has no rows of users: the planner then reads the HNSW index, or every row.
    connection = await asyncpg.connect(url)
    await connection.execute("drop index plain.documents_of_user")
    await connection.close()
    without_index = await take_times(url, questions[: len(questions) // 2], size[1])
    times |= {f"{t}, no index on the user": without_index[t] for t in HYBRID.values()}
    return {
        title: {
            **{k: v for k, v in percentiles(taken).items() if k in ("p50_ms", "p95_ms")},
            **({"rows a second": round(ingest[title])} if title in ingest else {}),
        }
        for title, taken in times.items()
    }


def main() -> None:
    """Runs the benchmark."""
    made = parser(__doc__ or "")
    made.add_argument("--questions", type=int, default=300, help="questions that times are taken of")
    options = made.parse_args()
    sets = read(options.data)
    turns = [t for texts in sets.values() for body in texts for t in body["turns"]]
    texts = [t["text"] for t in turns if t["session"] is not None and len(t["text"]) <= LONGEST]
    questions = [q["question"] for s in sets.values() for body in s for q in body["questions"]]
    random.Random(1).shuffle(questions)
    figures: dict[str, object] = {}
    for size in SIZES:
        with embedded() as server:
            times = asyncio.run(compare_times(server.socket_url, texts, questions[: options.questions], size))
        title = f"{size[0] // size[1]:,} rows of one user among {size[0]:,}"
        figures[title] = times
        columns = ["p50_ms", "p95_ms", "rows a second"]
        print(f"\n{title}\n")
        print_table(["", *columns], [(k, [str(v.get(c, "")) for c in columns]) for k, v in times.items()])
    with embedded() as server:
        found = asyncio.run(evidence(server.socket_url, sets))
    figures["recall@10"] = found
    print("\nevidence recall@10\n")
    print_table(["", *sets], [(k, [shown(x) for x in v.values()]) for k, v in found.items()])
    line = json.dumps({"benchmark": "beside hybrid search", **figures})
    print("\n" + line)
    if options.json is not None:
        options.json.write_text(line + "\n")


if __name__ == "__main__":
    main()
