"""How long recall() takes, how much of an exact scan its dense half finds, and how much of the best of all rows recall finds.

    python -m benchmarks.search.recall                                  10,000 memories in one scope
    python -m benchmarks.search.recall --rows 1000000 --scopes 1000
    python -m benchmarks.search.recall --growth --plot docs/recall-growth.svg

Made-up texts (benchmarks.corpus) are loaded with their embeddings; their entries, statistics and lists are written by
statements like the daemon's own, in bulk; the lexicon by a daemon. Then one connection asks recall(), question by question,
each with its embedding: as the service of one user's rows, and as that user, whose rows row-level security picks out; then new
connections ask one question each.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

import asyncpg
from pgvector import Vector
from pgvector.asyncpg import register_vector

from benchmarks.chart import Line, draw
from benchmarks.corpus import Corpus, Question
from benchmarks.harness import Figures, command, percentiles, print_figures
from benchmarks.load.bulk import SOURCES, Rows, learn, load
from daemon.db.indexes import MIN_ROWS
from providers.local_embedder import LocalEmbedder

NEW_CONNECTIONS = 30
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)

EXACT = """
select array(select e.id from memoryd.entries e
             where e.scope = memoryd.scope_of($1, null) and e.source = '{source}'
             order by e.embedding <=> $2::vector::halfvec limit 10)
"""

# The ten nearest of the dense half's candidates, as the search compares them.
FOUND = """
select array(select e.id
             from memoryd.entries e
             where e.ctid = any(memoryd.nearest_passages(memoryd.open_request(
                 memoryd.recall_request('recall', '', null, $1, $2, 400, '{{{source}}}', '{{}}', '{{}}'))))
             order by e.embedding <=> $2::vector::halfvec limit 10)
"""

# The ten best of all memories of a user, every one ranked as recall ranks its candidates: what recall would answer if it
# looked at everything. (All are facts, and none is recent.)
EXHAUSTIVE = """
select array(
    select h.id
    from memoryd.open_request(memoryd.recall_request('recall', $2, null, $1, $3, 10, '{memory}', '{}', '{}')) r
    cross join lateral memoryd.rank_passages(
        r, memoryd.question(r.reader, r.query, r.scopes, null),
        array(select e.ctid from memoryd.entries e
              where e.scope = memoryd.scope_of($1, null) and e.source = 'memory'), '{}', 0, 0) h
    order by h.relevance * h.weight desc limit 10)
"""

AS_SERVICE = "select * from recall($1, user_id => $2, query_embedding => $3)"
AS_USER = "select * from recall($1, query_embedding => $2)"


async def ask(
    connection: asyncpg.Connection,
    users: Sequence[uuid.UUID],
    questions: Sequence[tuple[Question, Vector]],
    *,
    role: str,
) -> dict[str, list[float]]:
    """Seconds of each recall, by kind of question; the first tenth, which pays for plans and cold pages, left out."""
    await connection.execute(f"set role {role}")
    serves = role == "memoryd_service"
    statement = await connection.prepare(AS_SERVICE if serves else AS_USER)
    seconds: dict[str, list[float]] = {"all": []}
    for number, (question, vector) in enumerate(questions):
        user = users[number * 7919 % len(users)]
        if not serves:
            await connection.execute("select set_config('request.jwt.claim.sub', $1, false)", str(user))
        began = time.perf_counter()
        found = await (
            statement.fetch(question.text, user, vector) if serves else statement.fetch(question.text, vector)
        )
        took = time.perf_counter() - began
        if not found:
            raise RuntimeError("recall found nothing")
        if number >= len(questions) // 10:
            seconds["all"].append(took)
            seconds.setdefault(question.kind, []).append(took)
    await connection.execute("reset role")
    return seconds


async def begin(
    url: str, users: Sequence[uuid.UUID], questions: Sequence[tuple[Question, Vector]]
) -> list[float]:
    """Seconds of the first recall of each of so many new connections, which plan all of its statements."""
    seconds = []
    for number, (question, vector) in enumerate(questions):
        connection = await asyncpg.connect(url)
        try:
            await register_vector(connection)
            await connection.execute("set role memoryd_service")
            user = users[number * 7919 % len(users)]
            began = time.perf_counter()
            await connection.fetch(AS_SERVICE, question.text, user, vector)
            seconds.append(time.perf_counter() - began)
        finally:
            await connection.close()
    return seconds


async def compare(
    connection: asyncpg.Connection,
    table: str,
    users: Sequence[uuid.UUID],
    vectors: Sequence[Vector],
) -> float:
    """Which part of the ten nearest by an exact scan the dense half finds, the mean over questions."""
    parts = []
    for number, vector in enumerate(vectors):
        user = users[number * 7919 % len(users)]
        exact = set(await connection.fetchval(EXACT.format(source=SOURCES[table]), user, vector))
        found = set(await connection.fetchval(FOUND.format(source=SOURCES[table]), user, vector))
        parts.append(len(exact & found) / len(exact))
    return fmean(parts)


async def cover(
    connection: asyncpg.Connection,
    users: Sequence[uuid.UUID],
    questions: Sequence[tuple[Question, Vector]],
) -> float:
    """Which part of the ten best of all rows recall() brings, the mean over questions."""
    parts = []
    for number, (question, vector) in enumerate(questions):
        user = users[number * 7919 % len(users)]
        best = set(await connection.fetchval(EXHAUSTIVE, user, question.text, vector))
        found = {r["id"] for r in await connection.fetch(AS_SERVICE, question.text, user, vector)}
        parts.append(len(best & found) / len(best))
    return fmean(parts)


async def measure(  # noqa: PLR0913 - the options of the command
    url: str,
    connection: asyncpg.Connection,
    *,
    table: Literal["agent_memory", "conversation_messages"] = "agent_memory",
    rows: int = 10_000,
    scopes: Annotated[int, "users that the rows are shared out to"] = 1,
    questions: int = 500,
    compared: Annotated[int, "questions whose results are compared with exact scans"] = 100,
    lists_from: Annotated[int, "rows from which on the table gets lists"] = MIN_ROWS,
    loaded: Annotated[bool, "the database has the rows, from a run before"] = False,
    growth: Annotated[bool, f"at {', '.join(f'{n:,}' for n in GROWTH)} rows"] = False,
    plot: Annotated[Path | None, "draw the growth into this SVG file"] = None,
) -> list[Figures]:
    """Loads and measures, at each size."""
    await register_vector(connection)
    users = [uuid.UUID(int=n + 1) for n in range(scopes)]
    made = Rows(users=users, seed=1)
    corpus, embedder = Corpus(2), LocalEmbedder()
    asked = [corpus.question() for _ in range(questions)]
    embedded = list(zip(asked, map(Vector, await embedder.embed([q.text for q in asked])), strict=True))
    # Texts like the rows, as a new task is like earlier ones. The questions are words without order, far from any row.
    texts = list(map(Vector, await embedder.embed([corpus.text() for _ in range(compared)])))
    figures: list[Figures] = []
    there = 0
    for size in GROWTH if growth else (rows,):
        began = time.perf_counter()
        if not loaded:
            await load(connection, table, made, size - there)
            await learn(connection, url, lists_from=lists_from)
        there, took = size, round(time.perf_counter() - began)
        one: Figures = {"table": table, "rows": size, "scopes": scopes, "load_s": took}
        for role in ("memoryd_service", "memoryd_user"):
            seconds = await ask(connection, users, embedded, role=role)
            one |= percentiles(seconds.pop("all"), f"{role} ")
            if role == "memoryd_service":
                one |= {f"{kind} words p50_ms": percentiles(s)["p50_ms"] for kind, s in seconds.items()}
        first = percentiles(await begin(url, users, embedded[:NEW_CONNECTIONS]))["p50_ms"]
        one["first of a new connection p50_ms"] = first
        for asked_with, vectors in (("questions", [v for _, v in embedded]), ("texts", texts)):
            found = await compare(connection, table, users, vectors[:compared])
            one[f"dense recall@10 of {asked_with}"] = round(found, 4)
        if table == "agent_memory":
            best = await cover(connection, users, embedded[:compared])
            one["best of all rows found@10"] = round(best, 4)
        print_figures("recall", one)
        figures.append(one)
    if plot is not None:
        lines = [
            Line(f"{role} {part}", [
                (float(str(f["rows"])), float(str(f[f"memoryd_{role} {part}_ms"]))) for f in figures
            ])
            for role in ("service", "user") for part in ("p50", "p99")
        ]  # fmt: skip
        draw(plot, "recall() by rows in the scope", "rows", "ms", lines)
    return figures


if __name__ == "__main__":
    command(__doc__, measure)
