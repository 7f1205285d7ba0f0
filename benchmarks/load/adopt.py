"""An application's own memories are adopted: how long `memoryd adopt` takes for them, from its first statement to its commit.

    python -m benchmarks.load.adopt

The rows are those of the design of agent memory with user controls (docs/from/user-memory.md): texts of
40 words of 1,000 users.
"""

from __future__ import annotations

import time

import asyncpg

from benchmarks.harness import DIMENSIONS, EMBEDDER, Figures, command
from daemon.db.migrator import migrate
from plugins.move_in.adopt.adoption import Adoption

APPLICATION = """
create extension vector;
create table public.agent_memory (
    id uuid primary key default gen_random_uuid(),
    user_id uuid not null,
    memory_type text not null,
    content text not null,
    embedding vector(1536),
    metadata jsonb default '{}'::jsonb,
    created_at timestamptz default now() not null,
    updated_at timestamptz default now() not null,
    expires_at timestamptz
);
"""
ROWS = """
insert into public.agent_memory (user_id, memory_type, content, metadata, created_at)
select md5((n % 1000)::text)::uuid, 'brand_memory',
       (select string_agg('word' || (n * 31 + w * 17) % 5000, ' ') from generate_series(1, 40) w),
       jsonb_build_object('n', n), now() - n * interval '1 minute'
from generate_series(1, $1) n
"""


async def measure(url: str, admin: asyncpg.Connection, *, rows: int = 100_000) -> Figures:
    """One adoption, in a database of its own."""
    await admin.execute("create database application")
    connection = await asyncpg.connect(url, database="application")
    try:
        await connection.execute(APPLICATION)
        await connection.execute(ROWS, rows, timeout=3600)
        adoption = Adoption("memoryd_adopted")
        began = time.perf_counter()
        await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, adoption=adoption)
        seconds = time.perf_counter() - began
    finally:
        await connection.close()
    return {"rows": rows, "taken in": adoption.taken[0].taken, "seconds": round(seconds, 1)}


if __name__ == "__main__":
    command(__doc__, measure)
