"""Only the queue: jobs a second through claim and complete, with a handler that does nothing but count.

    python -m benchmarks.load.queue --jobs 100000 --batch 64

Enqueues all jobs by one statement, then drains them with as many workers as asked for: without lanes, and in lanes.
Checks that none is lost, none is done twice, and that each lane is done in order.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Annotated

import asyncpg

from benchmarks.harness import Figures, command
from daemon.db.pool import Database
from daemon.logs import configure_logs, get_logger
from daemon.queue.topic import Topic
from daemon.queue.worker import Worker
from handlers.shared.ports import AnyConnection, Commit, Job

ENQUEUE = """
insert into memoryd.jobs (topic, lane, payload)
select 'benchmark', case when $2 > 0 then 'lane' || (n % $2) end, jsonb_build_object('n', n)
from generate_series(1, $1) n
"""


class Counting:
    """Counts each job in its commit half, and remembers the order of each lane."""

    def __init__(self, total: int) -> None:
        self.seen: Counter[int] = Counter()
        self.lanes: defaultdict[str | None, list[int]] = defaultdict(list)
        self.done = asyncio.Event()
        self._total = total

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Nothing to prepare."""
        return self._commit

    async def _commit(self, _connection: AnyConnection, jobs: Sequence[Job]) -> None:
        for job in jobs:
            number = (job.payload or {})["n"]
            self.seen[number] += 1
            self.lanes[job.lane].append(number)
        if len(self.seen) >= self._total:
            self.done.set()


async def measure(url: str, jobs: int, batch: int, lanes: int, parallel: int) -> Figures:
    """Drains `jobs` jobs in `lanes` lanes (0: none)."""
    connection = await asyncpg.connect(url)
    await connection.execute(ENQUEUE, jobs, lanes)
    await connection.execute("analyze memoryd.jobs")
    pool = await Database.open(url, size=parallel + 1, pooled=False, logger=get_logger())
    handler = Counting(jobs)
    worker = Worker(
        Topic("benchmark", handler, batch=batch, parallel=parallel, lanes=8 if lanes else 0),
        database=pool,
        claim_seconds=30,
        max_attempts=5,
        logger=get_logger(),
        wake_others=lambda _topics: None,
    )
    began = time.perf_counter()
    worker.wake()
    running = asyncio.create_task(worker.run())
    await handler.done.wait()
    seconds = time.perf_counter() - began
    await worker.stop(grace_seconds=10)
    await running
    left = await connection.fetchval("select count(*) from memoryd.jobs")
    await connection.close()
    await pool.close()
    return {
        "jobs_per_second": round(jobs / seconds),
        "lost": jobs - len(handler.seen) + left,
        "doubled": sum(1 for times in handler.seen.values() if times > 1),
        "in_order": all(order == sorted(order) for lane, order in handler.lanes.items() if lane is not None),
    }


async def both(
    url: str,
    _connection: asyncpg.Connection,
    *,
    jobs: int = 50_000,
    batch: int = 64,
    lanes: Annotated[int, "lanes of the second half"] = 32,
    parallel: Annotated[int, "batches under way at once"] = 3,
) -> Figures:
    """Without lanes, and in lanes."""
    configure_logs(level="warning", style="console")
    figures: Figures = {"jobs": jobs, "batch": batch}
    for name, number in (("unlaned", 0), ("laned", lanes)):
        found = await measure(url, jobs, batch, number, parallel)
        figures |= {f"{name}_{k}": v for k, v in found.items()}
    return figures


if __name__ == "__main__":
    command(__doc__, both)
