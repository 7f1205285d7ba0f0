"""A daemon is killed under load: how long until what it had in hand is done, and how long what comes after waits meanwhile.

    python -m benchmarks.takeover --rate 2600

Two daemons; one is killed with kill -9 half-way.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time

import asyncpg

from benchmarks.harness import arguments, daemon, database, report, wait_for
from benchmarks.pipeline import texts

BATCH = 100
INSERT = """
insert into agent_memory (agent_id, content)
select 'agent' || (n % 4), c from unnest($1::text[]) with ordinality as t(c, n)
"""
IN_HAND = "select count(*) from memoryd.jobs where topic = 'index' and attempt > 0 and visible_at > now()"
LEFT = "select count(*) from memoryd.unindexed where since <= $1"
OLDEST = """
select coalesce(max(extract(epoch from clock_timestamp() - since)), 0)::double precision
from memoryd.unindexed where since > $1
"""


async def write(url: str, rate: float, stopping: asyncio.Event) -> int:
    """So many rows a second, as far as the database takes them; returns how many."""
    connection = await asyncpg.connect(url)
    text = texts(random.Random(1))
    began, rows = time.perf_counter(), 0
    while not stopping.is_set():
        await connection.execute(INSERT, [text(20) for _ in range(BATCH)])
        rows += BATCH
        await asyncio.sleep(max(0.0, rows / rate - (time.perf_counter() - began)))
    await connection.close()
    return rows


async def measure(url: str, rate: float, seconds: float, claim_seconds: float) -> dict[str, object]:
    """Loads, kills one, and watches."""
    connection = await asyncpg.connect(url)
    async with daemon(url, claim_seconds=claim_seconds):
        killed = daemon(url, claim_seconds=claim_seconds)
        running = await killed.__aenter__()
        stopping = asyncio.Event()
        writing = asyncio.create_task(write(url, rate, stopping))
        await asyncio.sleep(seconds / 2)
        os.kill(running.process.pid, signal.SIGKILL)
        in_hand = await connection.fetchval(IN_HAND)
        at = await connection.fetchval("select clock_timestamp()")
        began, taken_over, oldest = time.perf_counter(), None, 0.0
        while time.perf_counter() - began < seconds / 2 or taken_over is None:
            if taken_over is None and await connection.fetchval(LEFT, at) == 0:
                taken_over = time.perf_counter() - began
            oldest = max(oldest, await connection.fetchval(OLDEST, at))
            await asyncio.sleep(0.05)
        stopping.set()
        rows = await writing
        await wait_for(connection, "select not exists (select from memoryd.jobs)", pause=0.05)
        running.process.wait()
    dead = await connection.fetchval("select count(*) from memoryd.dead_letters")
    await connection.close()
    return {
        "rows": rows,
        "claim_seconds": claim_seconds,
        "jobs_in_hand": in_hand,
        "taken_over_seconds": round(taken_over, 1),
        "oldest_fresh_seconds": round(oldest, 1),
        "dead_letters": dead,
    }


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rate", type=float, default=2600, help="rows a second")
    parser.add_argument("--seconds", type=float, default=20, help="of writing at least")
    parser.add_argument(
        "--claim-seconds", type=float, default=30, help="how long the claim of a silent worker is valid"
    )
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, options.rate, options.seconds, options.claim_seconds))
    report("takeover", figures, options.json)


if __name__ == "__main__":
    main()
