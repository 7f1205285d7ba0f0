"""How long recall() takes, how much of an exact scan its dense half finds, and how much of the best of all rows recall finds.

    python -m benchmarks.search.recall                                  10,000 memories in one scope
    python -m benchmarks.search.recall --rows 1000000 --scopes 1000
    python -m benchmarks.search.recall --growth --plot docs/recall-growth.svg

Made-up texts (benchmarks.corpus) are loaded with their embeddings; their entries, statistics and lists are written by
statements like the daemon's own, in bulk; the lexicon by a daemon. Then one connection asks recall(), question by question,
each with its embedding: as the service of one user's rows, and as that user, whose rows row-level security picks out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import asyncpg
from pgvector import Vector
from pgvector.asyncpg import register_vector

from benchmarks.chart import Line, draw
from benchmarks.corpus import Corpus, Question
from benchmarks.harness import arguments, database, percentiles, report
from benchmarks.load.bulk import SOURCES, Rows, learn, load
from daemon.db.indexes import MIN_ROWS
from providers.local_embedder import LocalEmbedder

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
              where e.scope = memoryd.scope_of($1, null) and e.source = 'memory'), '{}', 0, true) h
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


async def run(url: str, options: argparse.Namespace) -> list[dict[str, object]]:
    """Loads and measures, at each size."""
    connection = await asyncpg.connect(url)
    await register_vector(connection)
    users = [uuid.UUID(int=n + 1) for n in range(options.scopes)]
    rows = Rows(users=users, seed=1)
    corpus, embedder = Corpus(2), LocalEmbedder()
    asked = [corpus.question() for _ in range(options.questions)]
    questions = list(zip(asked, map(Vector, await embedder.embed([q.text for q in asked])), strict=True))
    # Texts like the rows, as a new task is like earlier ones. The questions are words without order, far from any row.
    texts = list(map(Vector, await embedder.embed([corpus.text() for _ in range(options.compared)])))
    figures: list[dict[str, object]] = []
    there = 0
    for size in GROWTH if options.growth else (options.rows,):
        began = time.perf_counter()
        if not options.loaded:
            await load(connection, options.table, rows, size - there)
            await learn(connection, url, lists_from=options.lists_from)
        there = size
        one: dict[str, object] = {
            "table": options.table,
            "rows": size,
            "scopes": options.scopes,
            "load_s": round(time.perf_counter() - began),
        }
        for role in ("memoryd_service", "memoryd_user"):
            seconds = await ask(connection, users, questions, role=role)
            one |= {f"{role} {k}": v for k, v in percentiles(seconds["all"]).items()}
            if role == "memoryd_service":
                one |= {
                    f"{kind} words p50_ms": percentiles(s)["p50_ms"]
                    for kind, s in seconds.items()
                    if kind != "all"
                }
        for asked_with, vectors in (("questions", [v for _, v in questions]), ("texts", texts)):
            found = await compare(connection, options.table, users, vectors[: options.compared])
            one[f"dense recall@10 of {asked_with}"] = round(found, 4)
        if options.table == "agent_memory":
            one["best of all rows found@10"] = round(
                await cover(connection, users, questions[: options.compared]), 4
            )
        report("recall", one, None)
        figures.append(one)
    await connection.close()
    return figures


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--table", choices=sorted(SOURCES), default="agent_memory")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--scopes", type=int, default=1, help="users that the rows are shared out to")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument(
        "--compared", type=int, default=100, help="questions whose results are compared with exact scans"
    )
    parser.add_argument(
        "--lists-from", type=int, default=MIN_ROWS, help="rows from which on the table gets lists"
    )
    parser.add_argument("--loaded", action="store_true", help="the database has the rows, from a run before")
    parser.add_argument(
        "--growth", action="store_true", help=f"at {', '.join(f'{n:,}' for n in GROWTH)} rows"
    )
    parser.add_argument("--plot", type=Path, help="draw the growth into this SVG file")
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(run(url, options))
    if options.json is not None:
        options.json.write_text("".join(json.dumps({"benchmark": "recall", **one}) + "\n" for one in figures))
    if options.plot is not None:
        names = {
            "memoryd_service p50_ms": "service p50",
            "memoryd_service p99_ms": "service p99",
            "memoryd_user p50_ms": "user p50",
            "memoryd_user p99_ms": "user p99",
        }
        lines = [
            Line(name, [(float(str(f["rows"])), float(str(f[key]))) for f in figures])
            for key, name in names.items()
        ]
        draw(options.plot, "recall() by rows in the scope", "rows", "ms", lines)


if __name__ == "__main__":
    main()
