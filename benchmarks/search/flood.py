"""What one user's random words cost everybody: another user's recall before, while and after they are learnt.

    python -m benchmarks.search.flood

One user inserts five memories of random words, 32 KB each. Meanwhile another user, who has `--rows` memories, recalls again and
again. `work_s` is the time until the lexicon has nothing left to do, `daemon_cpu_s` and `database_cpu_s` what it took of the
processors (the recalls included), `neighbours_mb` the table of words that are near in meaning, with its index.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Coroutine
from typing import Annotated
from uuid import UUID

import asyncpg

from benchmarks.harness import Figures, command, cpu, daemon, family, percentiles, wait_for
from benchmarks.load.ingest import SERVER
from benchmarks.load.pipeline import texts

FLOODER, OTHER = UUID(int=1), UUID(int=2)
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
MEMORIES, CHARACTERS = 5, 32_768
INSERT = "insert into agent_memory (agent_id, user_id, kind, content) select 'alice', $1, 'note', unnest($2::text[])"
QUIET = "select not exists (select from memoryd.jobs) and not exists (select from memoryd.unindexed)"
SIZE = "select pg_total_relation_size('memoryd.lexeme_neighbours') / 1e6"
BECOME = (
    "set role memoryd_user",
    f"set request.jwt.claims = '{json.dumps({'sub': str(OTHER)})}'",
)


def flood(dice: random.Random) -> str:
    """One memory of random words."""
    words: list[str] = []
    length = 0
    while length < CHARACTERS:
        words.append("".join(dice.choices(LETTERS, k=dice.randint(4, 9))))
        length += len(words[-1]) + 1
    return " ".join(words)[:CHARACTERS]


async def recalls(connection: asyncpg.Connection, until: Callable[[], bool]) -> list[float]:
    """How long the other user's recalls took, one after the other with pauses, until told to stop."""
    text = texts(random.Random(3))
    took: list[float] = []
    while not until():
        began = time.perf_counter()
        await connection.fetch("select id from recall($1)", text(5))
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.02)
    return took


def after(seconds: float) -> Callable[[], bool]:
    """Whether this number of seconds has passed since now."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


async def measure(
    url: str,
    owner: asyncpg.Connection,
    *,
    rows: Annotated[int, "memories of the user who recalls"] = 2_000,
    seconds: Annotated[float, "how long the recalls before and after are measured"] = 4,
) -> Figures:
    """The figures."""
    server = await owner.fetchval(SERVER)
    text = texts(random.Random(1))
    other = await asyncpg.connect(url)
    async with daemon(url) as running:
        await owner.execute(INSERT, OTHER, [text(12) for _ in range(rows)])
        await wait_for(owner, QUIET, pause=0.05)
        await owner.execute("vacuum analyze")
        for statement in BECOME:
            await other.execute(statement)
        await recalls(other, after(1))
        quiet = await recalls(other, after(seconds))
        size, words = await owner.fetchval(SIZE), await owner.fetchval("select count(*) from memoryd.lexicon")
        used, served = cpu(running.process.pid), family(server)
        dice = random.Random(2)
        began = time.perf_counter()
        await owner.execute(INSERT, FLOODER, [flood(dice) for _ in range(MEMORIES)])
        work: Coroutine[None, None, None] = wait_for(owner, QUIET, pause=0.05)
        working = asyncio.create_task(work)
        meanwhile = await recalls(other, working.done)
        took = time.perf_counter() - began
        used, served = cpu(running.process.pid) - used, family(server) - served
        later = await recalls(other, after(seconds))
    await other.close()
    return {
        "characters": MEMORIES * CHARACTERS,
        "rows_of_the_other": rows,
        "work_s": round(took, 1),
        "daemon_cpu_s": round(used, 1),
        "database_cpu_s": round(served, 1),
        "words_learnt": await owner.fetchval("select count(*) from memoryd.lexicon") - words,
        "neighbours_mb": round(float(await owner.fetchval(SIZE) - size), 1),
        **percentiles(quiet, "before_"),
        **percentiles(meanwhile, "during_"),
        **percentiles(later, "after_"),
        "recalls_during": len(meanwhile),
    }


if __name__ == "__main__":
    command(__doc__, measure)
