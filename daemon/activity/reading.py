"""The history, read: what the daemons did by topic and time, how the memory grew, how its recall was judged.

Promise: each is one statement that reads the time asked for and no more. Percentiles of any range come from sums of counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import Any, Protocol

from daemon.activity.arrays import summed
from daemon.measures import SECONDS

LONGEST_MINUTES = 400 * 1440

# Steps end with the last whole minute: none of them is still being written.
READ_ACTIVITY = f"""
with asked as materialized (
    select date_trunc('minute', now()) as until, date_trunc('minute', now()) - make_interval(mins => $1) as since
), steps as (
    select a.topic, floor(extract(epoch from a.began_at - (select since from asked)) / ($2 * 60))::integer as step,
           sum(a.done)::bigint as done, sum(a.failed)::bigint as failed,
           max(a.waiting) as waiting, max(a.oldest_seconds) as oldest_seconds,
           {summed("waited")} as waited, {summed("ran")} as ran
    from memoryd.activity a
    where a.seconds in (60, 3600)
      and a.began_at >= (select since from asked) and a.began_at < (select until from asked)
    group by 1, 2
)
select k.until, s.*
from asked k
left join steps s on true
order by s.topic, s.step
"""  # noqa: S608 - a constant of ours

READ_GROWTH = """
select coalesce(s.day, r.day) as day, s.bytes, coalesce(s.source_rows, '{}') as source_rows,
       coalesce(r.asked, 0) as asked, coalesce(r.useful, 0) as useful, coalesce(r.not_useful, 0) as not_useful
from (select * from memoryd.daily_sizes s where s.day > current_date - $1::integer) s
full join (select * from memoryd.daily_retrievals r where r.day > current_date - $1::integer) r on r.day = s.day
order by 1
"""


class Reader(Protocol):
    """What is needed of a database, or of a connection to one."""

    async def fetch(self, sql: str, *args: object) -> Sequence[Any]:
        """The rows."""
        ...


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many durations were up to each of `SECONDS`, and longer."""

    counts: Sequence[int]

    def quantile(self, share: float) -> float | None:
        """The seconds that this share did not exceed, as even as they may be within a bucket; None: there were none.

        What is longer than the last bound counts as that one.
        """
        if not (total := sum(self.counts)):
            return None
        rank = share * total
        low = below = 0.0
        for high, sofar in zip(SECONDS, accumulate(self.counts), strict=False):
            if sofar >= rank and sofar > below:
                return low + (high - low) * (rank - below) / (sofar - below)
            low, below = high, sofar
        return SECONDS[-1]


NONE = Histogram(())


@dataclass(frozen=True, slots=True)
class Step:
    """Some minutes of a topic. `waiting` and `oldest_seconds`: the maximum in them."""

    done: int = 0
    failed: int = 0
    waiting: int = 0
    oldest_seconds: float = 0.0
    waited: Histogram = NONE
    """Of jobs: from when they were made until they were first claimed."""
    ran: Histogram = NONE
    """Of batches that were done: until their effects were committed."""

    @property
    def p50(self) -> float | None:
        """Seconds that half of the jobs waited at most."""
        return self.waited.quantile(0.5)

    @property
    def p95(self) -> float | None:
        """Seconds that 95 percent of the jobs waited at most."""
        return self.waited.quantile(0.95)


NOTHING = Step()


@dataclass(frozen=True, slots=True)
class TopicActivity:
    """One topic; `steps`: as many as were asked for, the oldest first."""

    topic: str
    steps: tuple[Step, ...]

    @property
    def whole(self) -> Step:
        """All steps as one."""
        return Step(
            done=sum(one.done for one in self.steps),
            failed=sum(one.failed for one in self.steps),
            waiting=max(one.waiting for one in self.steps),
            oldest_seconds=max(one.oldest_seconds for one in self.steps),
            waited=_sum([one.waited for one in self.steps]),
            ran=_sum([one.ran for one in self.steps]),
        )


@dataclass(frozen=True, slots=True)
class Activity:
    """What was done until `until`, in steps of `step`. A topic that had nothing to do is not among `topics`."""

    until: datetime
    step: timedelta
    steps: int
    topics: tuple[TopicActivity, ...]

    @property
    def since(self) -> datetime:
        """When the first step began."""
        return self.until - self.steps * self.step


@dataclass(frozen=True, slots=True)
class Day:
    """One day. `bytes`: of the database; None: nobody measured. `rows`: estimates, by source."""

    day: date
    bytes: int | None
    rows: Mapping[str, int]
    asked: int
    """Retrievals."""
    useful: int
    """Those that were judged useful."""
    not_useful: int


async def read_activity(reader: Reader, *, minutes: int = 60, step_minutes: int = 1) -> Activity:
    """The last `minutes`. Raises ValueError where these are not whole steps, or more than 400 days.

    What is older than 26 hours is kept by the hour: it is shown in the step in which its hour began.
    """
    if not (0 < step_minutes <= minutes <= LONGEST_MINUTES) or minutes % step_minutes:
        raise ValueError(f"minutes must be a multiple of step_minutes, and {LONGEST_MINUTES:,} at most.")
    rows = await reader.fetch(READ_ACTIVITY, minutes, step_minutes)
    steps = minutes // step_minutes
    found: dict[str, list[Step]] = {}
    for row in rows:
        if row["topic"] is not None:
            found.setdefault(row["topic"], [NOTHING] * steps)[row["step"]] = Step(
                done=row["done"],
                failed=row["failed"],
                waiting=row["waiting"] or 0,
                oldest_seconds=row["oldest_seconds"] or 0.0,
                waited=Histogram(row["waited"]),
                ran=Histogram(row["ran"]),
            )
    topics = tuple(TopicActivity(topic, tuple(each)) for topic, each in found.items())
    return Activity(rows[0]["until"], timedelta(minutes=step_minutes), steps, topics)


async def read_growth(reader: Reader, *, days: int = 90) -> tuple[Day, ...]:
    """Each of the last days from the first one of which something is known, the oldest first."""
    known = {
        row["day"]: Day(
            day=row["day"],
            bytes=row["bytes"],
            rows=json.loads(row["source_rows"]),
            asked=row["asked"],
            useful=row["useful"],
            not_useful=row["not_useful"],
        )
        for row in await reader.fetch(READ_GROWTH, days)
    }
    if not known:
        return ()
    first, last = min(known), max(known)
    every = (first + timedelta(days=n) for n in range((last - first).days + 1))
    return tuple(known.get(day) or Day(day, None, {}, 0, 0, 0) for day in every)


def _sum(histograms: Sequence[Histogram]) -> Histogram:
    counted = [one.counts for one in histograms if one.counts]
    return Histogram([sum(each) for each in zip(*counted, strict=True)])
