"""Sustained ingestion: rows a second from the first insert until the last row is searchable and its words are counted.

    python -m benchmarks.load.ingest --rows 100000
    python -m benchmarks.load.ingest --table conversation_messages

Four clients insert batches of 100 rows as fast as the database takes them, while one daemon with the local embedder indexes.
WAL and processor time are counted until the last association is made ("searchable_cpu": until the last row is searchable), disk
space after a vacuum, with all tables of memoryd and their indexes.
Made-up texts of 8 to 30 words (benchmarks.corpus); memories of 16 agents, or sessions of 20 messages of 100 users.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Iterator
from statistics import fmean
from typing import Literal

import asyncpg
from pgvector import Vector
from pgvector.asyncpg import register_vector

from benchmarks.corpus import Corpus
from benchmarks.harness import Figures, command, cpu, daemon, family, wait_for
from providers.local_embedder import LocalEmbedder

BATCH = 100
SESSION = 20
AGENTS, USERS = 16, 100
SAMPLE = 100
"""Rows that are looked for by their own words at the end."""

INSERT = {
    "agent_memory": """
insert into agent_memory (agent_id, kind, content)
select agent_id, 'note', content from unnest($1::text[], $2::text[]) as t(agent_id, content)
""",
    "conversation_messages": """
insert into conversation_messages (session_id, user_id, message_index, role, speaker, content)
select session_id, user_id, message_index, 'user', speaker, content
from unnest($1::uuid[], $2::uuid[], $3::integer[], $4::text[], $5::text[])
     as t(session_id, user_id, message_index, speaker, content)
""",
}

UNINDEXED = "select count(*) from memoryd.unindexed"

WAL = "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
DISK = """
select sum(pg_total_relation_size(c.oid))::bigint
from pg_class c
where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
"""

SERVER = "select split_part(pg_read_file('postmaster.pid'), chr(10), 1)::integer"
"""The server's process, which must be on this machine."""

WORK = "select not exists (select from memoryd.jobs where topic = any($1))"

CHECK = """
select (select count(*) from {table}) as rows,
       (select count(distinct e.id) from memoryd.entries e where e.code is not null) as indexed,
       (select sum(passages) from memoryd.scope_statistics where source = $1) as counted,
       (select count(*) from memoryd.lexeme_changes) as uncounted,
       (select count(*) from memoryd.dead_letters) as dead
"""


def batches(table: str, rows: int, seed: int) -> Iterator[list[list[object]]]:
    """The arguments of each insert."""
    corpus, rng = Corpus(seed), random.Random(seed)
    for start in range(0, rows, BATCH):
        texts: list[object] = [corpus.text() for _ in range(min(BATCH, rows - start))]
        if table == "agent_memory":
            yield [[f"agent{rng.randrange(AGENTS)}" for _ in texts], texts]
            continue
        sessions = [
            (uuid.UUID(int=rng.getrandbits(128)), uuid.UUID(int=rng.randrange(USERS) + 1))
            for _ in range(0, len(texts), SESSION)
        ]
        places = [divmod(n, SESSION) for n in range(len(texts))]
        yield [
            [sessions[s][0] for s, _ in places],
            [sessions[s][1] for s, _ in places],
            [place for _, place in places],
            [("Ada", "Ben")[place % 2] for _, place in places],
            texts,
        ]


async def insert(url: str, table: str, rows: int, seed: int) -> None:
    """One client."""
    connection = await asyncpg.connect(url)
    statement = await connection.prepare(INSERT[table])
    for columns in batches(table, rows, seed):
        await statement.executemany([columns])
    await connection.close()


async def findable(connection: asyncpg.Connection, table: str) -> float:
    """Which part of some rows is among the ten that recall brings for their own text."""
    await register_vector(connection)
    agent = "agent_id" if table == "agent_memory" else "null::text"
    rows = await connection.fetch(
        f"select id, content, user_id, {agent} as agent_id from {table} order by md5(id::text) limit $1",
        SAMPLE,
    )
    vectors = await LocalEmbedder().embed([r["content"] for r in rows])
    found = []
    for row, vector in zip(rows, vectors, strict=True):
        results = await connection.fetch(
            "select id from recall($1, agent_id => $2, user_id => $3, query_embedding => $4)",
            *(row["content"], row["agent_id"], row["user_id"], Vector(vector)),
        )
        found.append(row["id"] in {r["id"] for r in results})
    return fmean(found)


async def measure(
    url: str,
    connection: asyncpg.Connection,
    *,
    table: Literal["agent_memory", "conversation_messages"] = "agent_memory",
    rows: int = 100_000,
    clients: int = 4,
) -> Figures:
    """Inserts, waits, checks."""
    wal, disk = await connection.fetchval(WAL), await connection.fetchval(DISK)
    server = await connection.fetchval(SERVER)
    async with daemon(url) as running:
        daemon_cpu, database_cpu = cpu(running.process.pid), family(server)
        began = time.perf_counter()
        shares = [rows // clients + (n < rows % clients) for n in range(clients)]
        await asyncio.gather(*(insert(url, table, share, seed) for seed, share in enumerate(shares)))
        inserted = time.perf_counter() - began
        await wait_for(connection, f"select ({UNINDEXED}) = 0", pause=0.02)
        await wait_for(connection, WORK, ["index", "statistics"], pause=0.02)
        searchable = time.perf_counter() - began
        searchable_cpu = cpu(running.process.pid) - daemon_cpu + family(server) - database_cpu
        await wait_for(connection, WORK, ["associate", "lexicon"], pause=0.02)
        whole = time.perf_counter() - began
        daemon_cpu, database_cpu = cpu(running.process.pid) - daemon_cpu, family(server) - database_cpu
    wal = await connection.fetchval(WAL) - wal
    await connection.execute("vacuum")
    disk = await connection.fetchval(DISK) - disk
    source = {"agent_memory": "memory", "conversation_messages": "conversation"}[table]
    counts = dict(await connection.fetchrow(CHECK.format(table=table), source) or {})
    return {
        "table": table,
        "clients": clients,
        "insert_rows_per_second": round(rows / inserted),
        "searchable_rows_per_second": round(rows / searchable),
        "searchable_cpu_us_per_row": round(searchable_cpu / rows * 1e6),
        "associated_rows_per_second": round(rows / whole),
        "daemon_cpu_us_per_row": round(daemon_cpu / rows * 1e6),
        "database_cpu_us_per_row": round(database_cpu / rows * 1e6),
        "wal_bytes_per_row": round(wal / rows),
        "disk_bytes_per_row": round(disk / rows),
        **counts,
        "all_searchable": counts["rows"] == counts["indexed"] == counts["counted"] == rows,
        "found_by_their_own_words": round(await findable(connection, table), 3),
    }


if __name__ == "__main__":
    command(__doc__, measure)
