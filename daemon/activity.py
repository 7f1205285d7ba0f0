"""What this daemon did: rows by minute, kept for two days and shown as the plot of the page Now; and a log line by minute.

Promise: one statement a minute for all topics, and neither a statement nor a line for a minute in which nothing was done. A
minute that could not be written is written later, under its own time, and counts once though its answer was lost. The
database's clock names the minutes. A kill -9 costs the counts of one minute.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.measures import Minutes, Outcome
from daemon.plugins import Core
from daemon.queue.backlog import DEPTH, LAG
from daemon.queue.topic import Topic

MINUTE = 60.0
LAST_SECONDS = 2.0
"""For the minute in which a daemon ends."""
DAYS_KEPT = 400
"""Of the daily sizes."""

# A daemon has rows of its own: to write a minute again changes nothing.
WRITE = """
insert into memoryd.activity (writer, number, began_at, topic, done, failed)
select $1, $2, date_trunc('minute', now() - make_interval(secs => $3)), c.topic, c.done, c.failed
from jsonb_to_recordset($4::jsonb) as c(topic text, done bigint, failed bigint)
on conflict (writer, number, topic) do nothing
"""
# At the end of a minute, or soon after it. The numbers of the minutes are those of the clock; the writer is nobody.
MEASURE_QUEUE = f"""
insert into memoryd.activity as a (writer, number, began_at, topic, waiting)
select '00000000-0000-0000-0000-000000000000', extract(epoch from m.began_at) / 60, m.began_at, d.topic, sum(d.jobs)
from ({DEPTH}) d
cross join (select date_trunc('minute', now() - interval '30 seconds') as began_at) m
where d.state <> 'claimed'
group by m.began_at, d.topic
on conflict (writer, number, topic) do update
set waiting = excluded.waiting
"""  # noqa: S608 - a constant of ours

DROP_OLD = "delete from memoryd.activity a where a.began_at < now() - interval '2 days'"
MEASURE_SIZE = """
insert into memoryd.settings as k (key, value)
select 'sizes', jsonb_build_object(to_char(current_date, 'YYYY-MM-DD'), jsonb_build_object(
    'bytes', pg_database_size(current_database()), 'measured_at', now()))
where not exists (select from memoryd.settings s
                  where s.key = 'sizes' and s.value ? to_char(current_date, 'YYYY-MM-DD'))
on conflict (key) do update
set value = (select jsonb_object_agg(d.key, d.value) from jsonb_each(k.value || excluded.value) d
             where d.key::date >= current_date - $1::integer)
"""
BYTES_A_DAY = """
select (pg_database_size(current_database()) - (d.value ->> 'bytes')::bigint)
       / (extract(epoch from now() - (d.value ->> 'measured_at')::timestamptz) / 86400)
from memoryd.settings k cross join lateral jsonb_each(k.value) d
where k.key = 'sizes'
  and (d.value ->> 'measured_at')::timestamptz between now() - interval '30 days' and now() - interval '1 day'
order by d.key limit 1
"""
"""How fast the database has grown since the oldest day of the last thirty that was measured."""


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


async def keep_history(database: Database) -> None:
    """Measures the database once a day, and drops what is too old to be shown."""
    await database.execute(MEASURE_SIZE, DAYS_KEPT)
    await database.execute(DROP_OLD)


SUMMARY_SECONDS = 60.0
WAITS = f"""
select (select coalesce(max(l.seconds), 0) from ({LAG}) l) as lag,
       (select count(*) from (select from memoryd.dead_letters limit 1000) d) as dead
"""  # noqa: S608 - a constant of ours


class Summary:
    """A line a minute, until it is cancelled, and then once more. So the log alone shows normal work."""

    def __init__(self, core: Core, topics: Sequence[Topic]) -> None:
        self._core = core
        self._topics = topics
        self._told: Counter[tuple[str, Outcome]] = Counter()

    async def run(self) -> None:
        """Looks once a minute."""
        try:
            while True:
                await asyncio.sleep(SUMMARY_SECONDS)
                if self._core.measures.outcomes != self._told:
                    # Before the news are taken, so that an end that comes meanwhile still tells them.
                    waits = await self._waits()
                    self._tell(waits)
        finally:
            self._tell({})

    def _tell(self, waits: Mapping[str, object]) -> None:
        if said := self._news():
            self._core.logger.info("summary", **said, **waits)

    def _news(self) -> dict[str, object]:
        """The work since the last call; empty for none."""
        measures = self._core.measures
        new = Counter(measures.outcomes)
        new.subtract(self._told)
        self._told = Counter(measures.outcomes)
        answers = sorted(measures.recent_answers)
        measures.recent_answers.clear()
        said: dict[str, object] = {
            topic.counted_as: done
            for topic in self._topics
            if topic.counted_as and (done := new[topic.name, "done"])
        }
        for outcome in ("retried", "handed_back", "discarded"):
            if jobs := sum(count for (_, ended), count in new.items() if ended == outcome):
                said[outcome] = jobs
        if answers:
            said["p50_ms"] = _milliseconds(answers, 0.5)
            said["p99_ms"] = _milliseconds(answers, 0.99)
        return said

    async def _waits(self) -> dict[str, object]:
        try:
            (row,) = await self._core.database.fetch(WAITS, [topic.name for topic in self._topics])
        except DATABASE_FAULTS:
            return {}
        return {"lag_seconds": round(row["lag"], 1), "dead": row["dead"]}


def _milliseconds(ordered: Sequence[float], share: float) -> int:
    """The duration that this share of the answers did not exceed."""
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000)
