"""Workers with handlers of a test's own, on a real queue: in this process, or as a script that may be killed.

Promise: what they did is a fact of the database. Table `done` has a row for each effect, in the order of the effects.

    python -m tests.support.processes.workers <url> <topic> <lanes> <claim_seconds> <max_attempts>

works until killed; the job whose payload says {"kill": true} kills it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg

from daemon.db.pool import Database
from daemon.logs import configure_logs, get_logger
from daemon.queue.topic import Topic
from daemon.queue.worker import Worker
from handlers.shared.ports import AnyConnection, Commit, Handler, Job

CREATE_DONE = """
create table if not exists done (
    place bigint generated always as identity primary key,
    ref uuid,
    lane text,
    job bigint not null,
    worker text not null
)
"""

ENQUEUE = """
insert into memoryd.jobs (topic, lane, ref, payload)
select $1, n.lane, gen_random_uuid(), n.payload
from unnest($2::text[], $3::jsonb[]) with ordinality as n(lane, payload, place)
order by n.place
returning id
"""


class Doing:
    """A handler that only notes in `done` which job it did. `before` is its slow half, `within` runs in its commit half."""

    def __init__(
        self,
        name: str = "one",
        *,
        before: Callable[[Sequence[Job]], Awaitable[None]] | None = None,
        within: Callable[[AnyConnection, Sequence[Job]], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.batches: list[list[Job]] = []
        self._before = before
        self._within = within

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """See `Handler`."""
        self.batches.append(list(jobs))
        if self._before is not None:
            await self._before(jobs)

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            await connection.executemany(
                "insert into done (ref, lane, job, worker) values ($1, $2, $3, $4)",
                [(j.ref, j.lane, j.id, self.name) for j in ours],
            )
            if self._within is not None:
                await self._within(connection, ours)

        return commit


async def enqueue(
    connection: asyncpg.Connection,
    topic: str,
    payloads: Sequence[str | None],
    *,
    lanes: Sequence[str | None] = (),
) -> list[int]:
    """Queues one job for each payload (JSON text), in order; returns the ids."""
    rows = await connection.fetch(ENQUEUE, topic, list(lanes) or [None] * len(payloads), list(payloads))
    return sorted(r["id"] for r in rows)


@asynccontextmanager
async def open_database(url: str, *, size: int = 4) -> AsyncIterator[Database]:
    """The daemon's own way to a database."""
    database = await Database.open(url, size=size, pooled=False, logger=get_logger())
    try:
        yield database
    finally:
        await database.close()


def worker_on(
    database: Database,
    handler: Handler,
    *,
    topic: str = "test",
    batch: int = 16,
    parallel: int = 1,
    lanes: int = 0,
    claim_seconds: float = 30.0,
    max_attempts: int = 5,
    retry_max_seconds: float = 300.0,
    others: Sequence[Worker] = (),
    last: bool = False,
) -> Worker:
    """A worker as a daemon has one, told that there may be work."""
    worker = Worker(
        Topic(topic, handler, batch=batch, parallel=parallel, lanes=lanes, last=last),
        database=database,
        claim_seconds=claim_seconds,
        max_attempts=max_attempts,
        retry_max_seconds=retry_max_seconds,
        logger=get_logger(),
        wake_others=lambda _topics: None,
        others=lambda: others,
    )
    worker.wake()
    return worker


@asynccontextmanager
async def working(
    *workers: Worker, claim_seconds: float = 30.0, poll_seconds: float = 0.05
) -> AsyncIterator[None]:
    """The workers at work, woken by a quick poll, their claims renewed; stopped at the end."""

    async def every(seconds: float, do: Callable[[Worker], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            for worker in workers:
                await do(worker)

    async def wake(worker: Worker) -> None:
        worker.wake()

    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    tasks.append(asyncio.create_task(every(poll_seconds, wake)))
    tasks.append(asyncio.create_task(every(claim_seconds / 3, Worker.renew_claims)))
    try:
        yield
    finally:
        for worker in workers:
            await worker.stop(grace_seconds=10.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _kill(jobs: Sequence[Job]) -> None:
    if any(j.payload is not None and j.payload.get("kill") for j in jobs):
        os.kill(os.getpid(), signal.SIGKILL)


async def _main(url: str, topic: str, lanes: int, *, claim_seconds: float, max_attempts: int) -> None:
    configure_logs(level="error", style="json")
    async with open_database(url) as database:
        worker = worker_on(
            database,
            Doing(str(os.getpid()), before=_kill),
            topic=topic,
            lanes=lanes,
            claim_seconds=claim_seconds,
            max_attempts=max_attempts,
        )
        async with working(worker, claim_seconds=claim_seconds):
            await asyncio.Event().wait()


if __name__ == "__main__":
    given = sys.argv
    asyncio.run(
        _main(given[1], given[2], int(given[3]), claim_seconds=float(given[4]), max_attempts=int(given[5]))
    )
