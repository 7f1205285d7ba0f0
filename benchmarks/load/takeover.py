"""A daemon is killed under load: how long until what it had in hand is done, and how long what comes after waits meanwhile.

    python -m benchmarks.load.takeover --rate 400

Two daemons; one is killed with kill -9 half-way. What comes after is memories: how old the oldest was that is not indexed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from uuid import UUID

import asyncpg

from benchmarks.harness import arguments, daemon, database, report, wait_for
from benchmarks.load.pipeline import texts

BATCH = 100
USERS = 40
SESSIONS = "insert into conversation_sessions (user_id) select unnest($1::uuid[])"
# Rows to index and to link, messages that become facts, and outcomes to capture.
STATEMENTS = (
    """
    insert into agent_memory (agent_id, user_id, content)
    select 'agent' || (n % 4), ($2::uuid[])[1 + n % cardinality($2)], c from unnest($1::text[]) with ordinality as t(c, n)
    """,
    """
    insert into conversation_messages (session_id, user_id, role, content)
    select s.id, s.user_id, 'user', 'I live in ' || c
    from unnest($1::text[]) with ordinality as t(c, n)
    join conversation_sessions s on s.user_id = ($2::uuid[])[1 + n % cardinality($2)]
    """,
    """
    insert into agent_commands (agent_id, user_id, message, status, output, exit_code)
    select 'agent' || (n % 40), ($2::uuid[])[1 + n % cardinality($2)], c, 'completed', c, 0
    from unnest($1::text[]) with ordinality as t(c, n)
    """,
)
IN_HAND = """
select j.topic, array_agg(j.id) as ids
from memoryd.jobs j
join memoryd.daemons d on d.number = j.claimed_by
left join memoryd.lanes l on l.topic = j.topic and l.lane = j.lane
where d.pid = $1 and coalesce(l.leased_until, j.visible_at) > now()
group by 1
"""
CLAIMED = """
select exists (select from memoryd.daemons d join memoryd.jobs j on j.claimed_by = d.number
               where d.pid = $1 and j.id = any($2) and j.lane is null and j.visible_at > now())
    or exists (select from memoryd.daemons d join memoryd.lanes l on l.leased_by = d.number
               where d.pid = $1 and l.leased_until > now())
"""
LEFT = "select exists (select from memoryd.jobs where id = any($1))"
OLDEST = """
select coalesce(max(extract(epoch from clock_timestamp() - since)), 0)::double precision
from memoryd.unindexed where since > $1
"""


async def write(url: str, rate: float, stopping: asyncio.Event) -> int:
    """So many rows a second, as far as the database takes them; returns how many."""
    connection = await asyncpg.connect(url)
    dice = random.Random(1)
    text, users = texts(dice), [UUID(int=dice.getrandbits(128)) for _ in range(USERS)]
    await connection.execute(SESSIONS, users)
    began, rows = time.perf_counter(), 0
    while not stopping.is_set():
        await connection.execute(STATEMENTS[rows // BATCH % 3], [text(20) for _ in range(BATCH)], users)
        rows += BATCH
        await asyncio.sleep(max(0.0, rows / rate - (time.perf_counter() - began)))
    await connection.close()
    return rows


async def watch(
    connection: asyncpg.Connection, pid: int, in_hand: dict[str, list[int]], seconds: float
) -> dict[str, object]:
    """At least for these seconds, and until all that the dead daemon had in hand is done."""
    at = await connection.fetchval("select clock_timestamp()")
    began, oldest, ended = time.perf_counter(), 0.0, 0.0
    everything = [job for jobs in in_hand.values() for job in jobs]
    left, done = dict(in_hand), dict[str, float]()
    while left or time.perf_counter() - began < seconds:
        now = time.perf_counter() - began
        if not ended and not await connection.fetchval(CLAIMED, pid, everything):
            ended = now
        for topic in list(left):
            if not await connection.fetchval(LEFT, left[topic]):
                del left[topic]
                done[topic] = now
        oldest = max(oldest, await connection.fetchval(OLDEST, at))
        await asyncio.sleep(0.05)
    return {
        "claims_ended_seconds": round(ended, 1),
        **{f"{topic}_done_seconds": round(now, 1) for topic, now in done.items()},
        "oldest_fresh_seconds": round(oldest, 1),
    }


async def measure(url: str, rate: float, seconds: float, claim_seconds: float) -> dict[str, object]:
    """Loads, kills one, and watches."""
    connection = await asyncpg.connect(url)
    async with daemon(url, claim_seconds=claim_seconds):
        killed = daemon(url, claim_seconds=claim_seconds)
        process = (await killed.__aenter__()).process
        stopping = asyncio.Event()
        writing = asyncio.create_task(write(url, rate, stopping))
        await asyncio.sleep(seconds / 2)
        os.kill(process.pid, signal.SIGKILL)
        in_hand = {r["topic"]: r["ids"] for r in await connection.fetch(IN_HAND, process.pid)}
        seen = await watch(connection, process.pid, in_hand, seconds / 2)
        stopping.set()
        rows = await writing
        await wait_for(connection, "select not exists (select from memoryd.jobs)", pause=0.05)
        process.wait()
    dead = await connection.fetchval("select count(*) from memoryd.dead_letters")
    await connection.close()
    return {
        "rows": rows,
        "claim_seconds": claim_seconds,
        "jobs_in_hand": {topic: len(jobs) for topic, jobs in in_hand.items()},
        **seen,
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
