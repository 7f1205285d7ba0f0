"""How well memoryd.embed() agrees with the daemons' local embedder, and how long it takes.

    python -m benchmarks.search.embed --data FILE...

FILEs are as for benchmarks.search.evidence. Times are taken within the server, one call for each question, in one session.
Loading and disk: the tokens in a new database.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable

import asyncpg
import numpy as np

from benchmarks.harness import Figures, command, percentiles
from benchmarks.search.bodies import Files, read
from daemon.db.tokens import KEY, load_tokens
from providers.local_embedder import LocalEmbedder

TEXTS, QUESTIONS = 500, 400
"""How many of each file are embedded."""

TIMED = """
create function pg_temp.timed(questions text[]) returns double precision[] language plpgsql as $$
declare
    question text;
    began timestamptz;
    took double precision[] := '{}';
begin
    foreach question in array questions loop
        began := clock_timestamp();
        perform memoryd.embed(question);
        took := took || extract(epoch from clock_timestamp() - began)::double precision;
    end loop;
    return took;
end
$$
"""


def _some(found: Iterable[str], most: int) -> list[str]:
    unique = sorted(set(found))
    return random.Random(1).sample(unique, min(most, len(unique)))


async def measure(url: str, connection: asyncpg.Connection, *, data: Files) -> Figures:
    """All figures."""
    texts, questions = list[str](), list[str]()
    for bodies in read(data).values():
        texts += _some((t["text"] for body in bodies for t in body["turns"]), TEXTS)
        questions += _some((q["question"] for body in bodies for q in body["questions"]), QUESTIONS)
    await connection.execute("delete from memoryd.settings where key = $1", KEY)
    await connection.execute("truncate memoryd.tokens")
    began = time.perf_counter()
    await load_tokens(connection)
    loading = time.perf_counter() - began
    disk = await connection.fetchval("select pg_total_relation_size('memoryd.tokens')")
    embedder = LocalEmbedder()
    expected = await embedder.embed(texts)
    await embedder.close()
    found = [json.loads(await connection.fetchval("select memoryd.embed($1)::text", t)) for t in texts]
    cosines = np.einsum("ij,ij->i", np.array(found), expected)
    fresh = await asyncpg.connect(url)
    await fresh.execute(TIMED)
    took = [await fresh.fetchval("select pg_temp.timed($1)", questions) for _ in range(2)]
    await fresh.close()
    return {
        "texts": len(texts),
        "least cosine": round(float(cosines.min()), 7),
        "questions": len(questions),
        "first in a session, ms": round(took[0][0] * 1000, 2),
        **percentiles(took[1]),
        "loading, s": round(loading, 2),
        "disk, MB": round(disk / 1e6, 1),
    }


if __name__ == "__main__":
    command(__doc__, measure)
