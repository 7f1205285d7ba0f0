"""The history of what daemons did: what a minute costs to write and to measure, a day to read and to draw, a day to roll up.

python -m benchmarks.load.activity --jobs 1000000
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

import asyncpg

from benchmarks.harness import arguments, database, percentiles, report
from daemon.activity import upkeep, writing
from daemon.activity.reading import read_activity, read_growth
from daemon.db.pool import Database
from daemon.logs import get_logger
from daemon.measures import SECONDS
from daemon.plots.picture import draw_picture

BUCKETS = len(SECONDS) + 1
TOPICS = [
    "context", "capture", "index", "facts", "statistics", "lexicon", "associate", "request", "user_data", "situate", "dream",
]  # fmt: skip
PAST = """
insert into memoryd.activity (seconds, began_at, topic, done, waiting, waited, ran)
select 60, date_trunc('minute', now()) - make_interval(mins => m), t, 50, 3, n.counts, n.counts
from generate_series($3::integer, $4::integer) m, unnest($1::text[]) t,
     (select array_fill(5, array[$2::integer])) n(counts)
"""
# A third of them in lanes that rest.
BACKLOG = """
insert into memoryd.jobs (topic, lane)
select ($1::text[])[1 + n % 9], case when n % 3 = 0 then 'lane ' || n % 500 end from generate_series(1, $2::integer) n
"""


async def measure(url: str, *, minutes: int, jobs: int) -> dict[str, object]:
    """All topics have something to do in each minute."""
    connection = await asyncpg.connect(url)
    pool = await Database.open(url, size=2, pooled=False, logger=get_logger())
    one = {"done": 50, "failed": 1, "waited": [5] * BUCKETS, "ran": [5] * BUCKETS}
    counts = json.dumps([{"topic": topic} | one for topic in TOPICS])
    writer = uuid4()
    wal = "select pg_current_wal_lsn() - '0/0'::pg_lsn"
    before = await connection.fetchval(wal)
    writes = [
        await _timed(
            lambda n=n: pool.execute(writing.WRITE, writer, n, 60.0 * (minutes - n), counts)  # type: ignore[misc]
        )
        for n in range(1, minutes + 1)
    ]
    written = await connection.fetchval(wal) - before
    await connection.execute("truncate memoryd.activity")
    await connection.execute(PAST, TOPICS, BUCKETS, 1, 1560)
    await connection.execute(BACKLOG, TOPICS, jobs)
    await connection.execute("vacuum analyze memoryd.activity")
    await connection.execute("vacuum analyze memoryd.jobs")
    gauges = [await _timed(lambda: writing.measure_queue(pool, TOPICS)) for _ in range(20)]
    hour = [await _timed(lambda: read_activity(pool)) for _ in range(20)]
    day = [await _timed(lambda: read_activity(pool, minutes=1440, step_minutes=15)) for _ in range(20)]
    activity, growth = await read_activity(pool, minutes=1440, step_minutes=15), await read_growth(pool)
    began = time.perf_counter()
    picture = draw_picture("benchmark", activity, growth)
    drawn = time.perf_counter() - began
    size = await connection.fetchval("select pg_total_relation_size('memoryd.activity')")
    await connection.execute(PAST, TOPICS, BUCKETS, 1740, 3180)
    rolled = await _timed(lambda: pool.execute(upkeep.ROLL_UP))
    await pool.close()
    await connection.close()
    return {
        "write": percentiles(writes),
        "wal_kb_a_minute": round(float(written) / minutes / 1000, 1),
        "measure_queue": percentiles(gauges),
        "jobs_waiting": jobs,
        "read_hour": percentiles(hour),
        "read_day": percentiles(day),
        "draw_ms": round(drawn * 1000, 1),
        "picture_kb": round(len(picture) / 1000, 1),
        "day_of_minutes_mb": round(size / 1e6, 2),
        "roll_up_a_day_ms": round(rolled * 1000, 1),
    }


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def main() -> None:
    """Command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--minutes", type=int, default=200, help="minutes that are written, one after the other"
    )
    parser.add_argument(
        "--jobs", type=int, default=1_000_000, help="jobs that wait while the queue is measured"
    )
    options = parser.parse_args()
    with database(options.database_url) as url:
        figures = asyncio.run(measure(url, minutes=options.minutes, jobs=options.jobs))
    report("activity", figures, options.json)


if __name__ == "__main__":
    main()
