"""How long a dream takes: memories of the last two days are clustered, their insights written.

python -m benchmarks.load.dream --memories 100000
"""

from __future__ import annotations

import random
import resource
import time

import asyncpg
import numpy as np
from pgvector import Vector
from pgvector.asyncpg import register_vector

from benchmarks.harness import EMBEDDER, Figures, command
from benchmarks.load.pipeline import texts
from daemon.db.pool import Database
from daemon.logs import configure_logs, get_logger
from daemon.settings import load_settings
from daemon.topics import build_dreamer
from handlers.shared.embedding import Embedding
from providers.build import build_embedder

BATCH = 2000
AGENTS = 20

INSERT = """
insert into agent_memory (agent_id, kind, content, embedding, created_at)
select agent_id, kind, content, embedding, now() - make_interval(secs => age)
from unnest($1::text[], $2::text[], $3::text[], $4::vector[], $5::double precision[])
     as t(agent_id, kind, content, embedding, age)
"""


async def measure(url: str, connection: asyncpg.Connection, *, memories: int = 100_000) -> Figures:
    """Fills the table, dreams once, and dreams again: the second one updates what the first wrote."""
    configure_logs(level="warning", style="console")
    embedder = build_embedder(EMBEDDER, dimensions=None, base_url=None, api_key=None, timeout_seconds=30)
    rng = random.Random(1)
    text = texts(rng)
    await register_vector(connection)
    for start in range(0, memories, BATCH):
        size = min(BATCH, memories - start)
        contents = [text(12) for _ in range(size)]
        vectors = np.concatenate([await embedder.embed(contents[i : i + 64]) for i in range(0, size, 64)])
        await connection.execute(
            INSERT,
            [f"agent{rng.randrange(AGENTS)}" for _ in range(size)],
            rng.choices(["outcome", "error", "note"], [6, 2, 2], k=size),
            contents,
            [Vector(v) for v in vectors],
            [rng.uniform(0, 47 * 3600) for _ in range(size)],
        )
    await connection.execute("truncate memoryd.jobs")
    await connection.execute("analyze")
    pool = await Database.open(url, size=4, pooled=False, logger=get_logger())
    dreamer = build_dreamer(load_settings(), pool, Embedding(embedder, pool), None, get_logger())
    figures: Figures = {"memories": memories}
    for name in ("first", "second"):
        began = time.perf_counter()
        found = await dreamer.dream("manual")
        if found is None or found.status != "completed":
            raise RuntimeError("the dream was not completed")
        figures[f"{name}_seconds"] = round(time.perf_counter() - began, 1)
        figures[f"{name}_clusters"] = found.clusters_found
        figures[f"{name}_insights"] = found.insights_generated
    figures["insights_in_table"] = await connection.fetchval("select count(*) from dream_insights")
    figures["peak_resident_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
    await pool.close()
    return figures


if __name__ == "__main__":
    command(__doc__, measure)
