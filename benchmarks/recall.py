"""How long recall() takes, and how much of an exact scan its dense half finds.

    python -m benchmarks.recall                                  10,000 memories in one scope
    python -m benchmarks.recall --rows 1000000 --scopes 1000
    python -m benchmarks.recall --growth --plot docs/recall-growth.svg

Made-up texts (benchmarks.corpus) are loaded with their embeddings; their index columns, statistics and lists are written by
statements like the daemon's own, in bulk; the lexicon by a daemon. Then one connection asks recall(), question by question,
each with its embedding: as the service of one user's rows, and as that user, whose rows row-level security picks out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import asyncpg
import numpy as np
from pgvector import Vector
from pgvector.asyncpg import register_vector

from benchmarks.chart import Line, draw
from benchmarks.corpus import Corpus, Question
from benchmarks.harness import arguments, daemon, database, percentiles, report, wait_for
from daemon.database import Database
from daemon.dense_indexes import build_dense_indexes
from daemon.logs import get_logger
from providers.local_embedder import LocalEmbedder
from providers.ports import Vectors

BATCH = 5_000
SESSION = 20
"""Messages of a session."""
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)
SOURCES = {"agent_memory": "memory", "conversation_messages": "conversation"}

# The indexes are made once, after the rows.
TAKE_INDEXES = """
select c.relname as name, pg_get_indexdef(i.indexrelid) as definition
from pg_index i
join pg_class c on c.oid = i.indexrelid
where i.indrelid = $1::regclass and not i.indisprimary
  and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
"""

STAGE = """
create unlogged table if not exists bench_rows (
    id uuid, user_id uuid, session_id uuid, message_index integer, speaker text, content text, created_at timestamptz,
    embedding vector)
"""

SESSIONS = """
insert into conversation_sessions (id, user_id, created_at)
select session_id, (array_agg(user_id))[1], min(created_at) from bench_rows group by session_id
on conflict do nothing
"""

FILL = {
    "agent_memory": """
insert into agent_memory (id, agent_id, user_id, kind, ttl_hours, content, embedding, created_at,
                          lexemes, sparse_embedding, prior, says_when)
select r.id, 'assistant', r.user_id, 'fact', null, r.content, r.embedding, r.created_at,
       w.lexemes, w.weights, w.prior, w.says_when
from bench_rows r cross join lateral memoryd.weigh_text(r.content) w
""",
    "conversation_messages": """
insert into conversation_messages (id, session_id, user_id, message_index, role, speaker, content, embedding, created_at)
select id, session_id, user_id, message_index, 'user', speaker, content, embedding, created_at from bench_rows
""",
}

WEIGH_MESSAGES = """
update conversation_messages m
set lexemes = w.lexemes, sparse_embedding = w.weights, prior = w.prior, says_when = w.says_when
from memoryd.weigh_messages(array(select id from bench_rows)) w
where m.id = w.id
"""

COUNT = """
insert into memoryd.lexeme_statistics (scope, lexeme, rows)
select t.scope, l.lexeme, count(*)
from {table} t cross join lateral unnest('#{source}'::text || tsvector_to_array(t.lexemes)) as l(lexeme)
group by 1, 2
on conflict (scope, lexeme) do update set rows = excluded.rows
"""

EXACT = """
select array(select id from {table} where user_id = $1 order by embedding <=> $2 limit 10)
"""

# What the dense half proposes, and of that the nearest, as the search compares them.
FOUND = """
select array(select t.id
             from unnest(memoryd.candidates_{source}(array[memoryd.scope_of($1, null)], null, '{{}}', null, $2, 200)) n
             join {table} t on t.id = n
             order by t.embedding <=> $2 limit 10)
"""

AS_SERVICE = "select * from recall($1, user_id => $2, query_embedding => $3)"
AS_USER = "select * from recall($1, query_embedding => $2)"


class Rows:
    """Makes the rows, users taking turns session by session."""

    def __init__(self, *, users: Sequence[uuid.UUID], seed: int, windows: bool) -> None:
        self._corpus = Corpus(seed)
        self._ids = random.Random(seed)
        self._users = users
        self._windows = windows
        self._embedder = LocalEmbedder()
        self._begin = datetime.now(UTC) - timedelta(days=300)
        self._made = 0

    async def make(self, count: int) -> list[tuple[Any, ...]]:
        """Rows for the stage; `count` is a multiple of SESSION, or what is made last."""
        texts = [self._corpus.text() for _ in range(count)]
        vectors = await self._embedder.embed(texts)
        rows: list[tuple[Any, ...]] = []
        for start in range(0, count, SESSION):
            end = min(start + SESSION, count)
            user = self._users[self._made // SESSION % len(self._users)]
            session = self._id()
            around = _windows(vectors[start:end]) if self._windows else vectors[start:end]
            for place, vector in enumerate(around):
                born = self._begin + timedelta(seconds=20 * self._made)
                text = texts[start + place]
                speaker = ("Ada", "Ben")[place % 2]
                rows.append((self._id(), user, session, place, speaker, text, born, Vector(vector)))
                self._made += 1
        return rows

    def _id(self) -> uuid.UUID:
        return uuid.UUID(int=self._ids.getrandbits(128))


def _windows(vectors: Vectors) -> Vectors:
    """What stands for each message: the weighted mean of its window, scaled to unit length."""
    weights = {0: 3.0, -1: 1.5, -2: 1.0, -3: 0.5, 1: 1.0, 2: 0.5}
    around = np.zeros_like(vectors)
    for offset, weight in weights.items():
        for place in range(max(0, -offset), min(len(vectors), len(vectors) - offset)):
            around[place] += weight * vectors[place + offset]
    return around / np.linalg.norm(around, axis=1, keepdims=True)  # type: ignore[no-any-return]


async def load(connection: asyncpg.Connection, table: str, rows: Rows, count: int) -> None:
    """Adds `count` rows, searchable; then statistics and lists of all."""
    await connection.execute("set session_replication_role = replica")
    await connection.execute("set client_min_messages = warning")
    indexes = await connection.fetch(TAKE_INDEXES, f"public.{table}")
    for index in indexes:
        await connection.execute(f"drop index public.{index['name']}")
    await connection.execute(STAGE)
    making = asyncio.create_task(rows.make(min(BATCH, count)))
    while count > 0:
        batch = await making
        count -= len(batch)
        making = asyncio.create_task(rows.make(min(BATCH, count)))
        await connection.execute("truncate bench_rows")
        await connection.copy_records_to_table("bench_rows", records=batch)
        if table == "conversation_messages":
            await connection.execute(SESSIONS)
        await connection.execute(FILL[table])
        if table == "conversation_messages":
            await connection.execute("analyze bench_rows")
            await connection.execute(WEIGH_MESSAGES)
    await making
    for index in indexes:
        await connection.execute(index["definition"])
    await connection.execute("set session_replication_role = origin")


async def learn(connection: asyncpg.Connection, url: str, table: str, *, lists_from: int) -> None:
    """Statistics, lexicon, lists."""
    source = SOURCES[table]
    await connection.execute(COUNT.format(table=table, source=source))
    await connection.execute("select memoryd.learn_words($1)", sorted(Corpus(1).words))
    async with daemon(url):
        await wait_for(connection, "select not exists (select from memoryd.jobs)", pause=0.05)
    opened = await Database.open(url, size=3, pooled=False, logger=get_logger())
    await build_dense_indexes(opened, get_logger(), smallest=lists_from)
    await opened.close()
    await connection.execute("vacuum (analyze)")
    await connection.execute("checkpoint")


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
    questions: Sequence[tuple[Question, Vector]],
) -> float:
    """Which part of the ten nearest by an exact scan the dense half finds, the mean over questions."""
    parts = []
    for number, (_, vector) in enumerate(questions):
        user = users[number * 7919 % len(users)]
        exact = set(await connection.fetchval(EXACT.format(table=table), user, vector))
        found = set(await connection.fetchval(FOUND.format(table=table, source=SOURCES[table]), user, vector))
        parts.append(len(exact & found) / len(exact))
    return fmean(parts)


async def run(url: str, options: argparse.Namespace) -> list[dict[str, object]]:
    """Loads and measures, at each size."""
    connection = await asyncpg.connect(url)
    await register_vector(connection)
    users = [uuid.UUID(int=n + 1) for n in range(options.scopes)]
    rows = Rows(users=users, seed=1, windows=options.table == "conversation_messages")
    corpus, embedder = Corpus(2), LocalEmbedder()
    asked = [corpus.question() for _ in range(options.questions)]
    questions = list(zip(asked, map(Vector, await embedder.embed([q.text for q in asked])), strict=True))
    figures: list[dict[str, object]] = []
    there = 0
    for size in GROWTH if options.growth else (options.rows,):
        began = time.perf_counter()
        if not options.loaded:
            await load(connection, options.table, rows, size - there)
            await learn(connection, url, options.table, lists_from=options.lists_from)
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
        one["dense recall@10"] = round(
            await compare(connection, options.table, users, questions[: options.compared]), 4
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
        "--compared", type=int, default=100, help="questions whose dense half is compared with an exact scan"
    )
    parser.add_argument(
        "--lists-from", type=int, default=10_000, help="rows from which on the table gets lists"
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
