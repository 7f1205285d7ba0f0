"""The history of the queue, written: each daemon adds what it did in a minute, and one of them what waits.

Promise: one statement a minute for all topics, and none for a minute in which nothing was done. A minute that could not be
written is written later, under its own time, and counts once though its answer was lost. The database's clock names the
minutes, so daemons whose clocks differ add to the same ones. A kill -9 costs the counts of one minute.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from structlog.typing import FilteringBoundLogger

from daemon.activity.arrays import added
from daemon.db.depth import DEPTH
from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.lag import LAG
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.measures import Minutes

MINUTE = 60.0
LAST_SECONDS = 2.0
"""For the minute in which a daemon ends."""

# In the order of topics: so that daemons which write at once wait for each other, and are not in each other's way.
WRITE = f"""
with new as (
    insert into memoryd.activity_writers as w (id, number) values ($1, $2)
    on conflict (id) do update
    set number = excluded.number, written_at = now()
    where w.number < excluded.number
    returning 1
)
insert into memoryd.activity as a (seconds, began_at, topic, done, failed, waited, ran)
select 60, date_trunc('minute', now() - make_interval(secs => $3)), c.topic, c.done, c.failed, c.waited, c.ran
from jsonb_to_recordset($4::jsonb) as c(topic text, done bigint, failed bigint, waited integer[], ran integer[])
where exists (select from new)
order by c.topic
on conflict (seconds, began_at, topic) do update
set done = a.done + excluded.done, failed = a.failed + excluded.failed,
    waited = {added("waited")}, ran = {added("ran")}
"""  # noqa: S608 - a constant of ours

# At the end of a minute, or soon after it.
MEASURE_QUEUE = f"""
insert into memoryd.activity as a (seconds, began_at, topic, waiting, oldest_seconds)
select 60, date_trunc('minute', now() - interval '30 seconds'), d.topic, d.jobs, l.seconds
from (select d.topic, sum(d.jobs) as jobs from ({DEPTH}) d where d.state <> 'claimed' group by d.topic) d
left join ({LAG}) l on l.topic = d.topic
order by d.topic
on conflict (seconds, began_at, topic) do update
set waiting = excluded.waiting, oldest_seconds = excluded.oldest_seconds
"""  # noqa: S608 - a constant of ours


class Activity:
    """Writes what this process did, until it is cancelled; then `end`."""

    def __init__(self, minutes: Minutes, database: Database, *, logger: FilteringBoundLogger) -> None:
        self._minutes = minutes
        self._database = database
        self._log = logger

    async def run(self) -> None:
        """Writes at the end of each minute."""
        while True:
            # By this machine's clock, which says only when a minute ends, not which one it is.
            await asyncio.sleep(MINUTE - time.time() % MINUTE)
            self._minutes.close()
            try:
                await self._write()
            except DATABASE_FAULTS as error:
                if not (is_gone(error) or await self._database.reconnect_after_failover(error)):
                    waiting = len(self._minutes.unwritten)
                    self._log.error("activity_not_written", minutes=waiting, error=describe(error))

    async def end(self) -> None:
        """Writes what was done since the last minute ended."""
        self._minutes.close()
        with suppress(*DATABASE_FAULTS):
            async with asyncio.timeout(LAST_SECONDS):
                await self._write()

    async def _write(self) -> None:
        unwritten = self._minutes.unwritten
        while unwritten:
            minute = unwritten[0]
            counts = [{"topic": topic} | asdict(counted) for topic, counted in minute.topics.items()]
            age = time.monotonic() - minute.middle
            await self._database.execute(WRITE, self._minutes.writer, minute.number, age, json.dumps(counts))
            unwritten.popleft()


async def measure_queue(database: Database, topics: Sequence[str]) -> None:
    """Writes what waits now as the end of the minute that is ending, or has just ended."""
    await database.execute(MEASURE_QUEUE, list(topics))
