"""Counts this process's own work: how long jobs waited and batches ran, and their outcomes.

Promise: counting costs less than a microsecond a job, asks nobody, and says of nobody whose work it was. Only the event
loop's thread counts. `plugins/operate/metrics/` shows the counts, `daemon/activity.py` writes those of each minute.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal
from uuid import uuid4

from handlers.shared.ports import Job

Outcome = Literal["done", "retried", "handed_back", "discarded"]

SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0)
"""The upper bounds of the buckets."""
MINUTES_KEPT = 60
"""So many that could not be written. What is counted after them goes into the next one."""
ANSWERS = frozenset(("context", "request"))
"""Topics whose jobs somebody waits for."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """Jobs whose attempt ended with an outcome; `at` by the process's monotonic clock."""

    topic: str
    jobs: Sequence[Job]
    outcome: Outcome
    at: float
    prepare_seconds: float | None = None
    """For done jobs: the time of the slow half."""
    error: str | None = None
    """For failed jobs: the error, in words that are safe to log."""


class Histogram:
    """How many durations were up to each of `SECONDS`."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Counts one duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.sum += seconds


class Measures:
    """The counts since the process began."""

    def __init__(self) -> None:
        self.queued: defaultdict[str, Histogram] = defaultdict(Histogram)
        """By topic: from when a job was made until it was first claimed."""
        self.ran: defaultdict[str, Histogram] = defaultdict(Histogram)
        """By topic: a batch that was done, from its beginning until its effects were committed."""
        self.answered: defaultdict[str, Histogram] = defaultdict(Histogram)
        """By topic: from when something was asked until its answer was committed."""
        self.recent_answers: deque[float] = deque(maxlen=10_000)
        """The same in seconds, since somebody last took them away."""
        self.readings = Histogram()
        """How long the database took for what is shown of it."""
        self.outcomes: Counter[tuple[str, Outcome]] = Counter()
        """By topic: how attempts ended."""
        self.taken_over: Counter[str] = Counter()
        """Claims of daemons that died, by kind: jobs, lanes, commands."""
        self.on_end: Callable[[AttemptEnd], None] = lambda _ended: None
        """Called at the end of every attempt."""
        self.minutes = Minutes(self)
        """The minutes that are not written yet."""

    def begun(self, topic: str, jobs: Sequence[Job]) -> None:
        """Jobs were claimed."""
        now, queued = time.monotonic(), self.queued[topic]
        for job in jobs:
            if job.attempt == 1:
                queued.observe(now - job.made_at)

    def done(
        self, topic: str, jobs: Sequence[Job], *, seconds: float, prepare_seconds: float | None = None
    ) -> None:
        """The effects of these jobs were committed, so long after their batch was begun."""
        self.on_end(AttemptEnd(topic, jobs, "done", time.monotonic(), prepare_seconds=prepare_seconds))
        self.outcomes[topic, "done"] += len(jobs)
        self.ran[topic].observe(seconds)
        if topic in ANSWERS:
            now, answered = time.monotonic(), self.answered[topic]
            for job in jobs:
                answered.observe(now - job.made_at)
                self.recent_answers.append(now - job.made_at)

    def failed(self, topic: str, job: Job, outcome: Literal["retried", "discarded"], error: str) -> None:
        """An attempt of a job failed."""
        self.on_end(AttemptEnd(topic, [job], outcome, time.monotonic(), error=error))
        self.ended(topic, outcome)

    def ended(self, topic: str, outcome: Outcome, jobs: int = 1) -> None:
        """Attempts of jobs ended without their effects."""
        self.outcomes[topic, outcome] += jobs


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Of a topic: done jobs, and failed attempts."""

    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class Minute:
    """A minute in which something was done. `middle` by the process's monotonic clock; `number` counts those of a process."""

    number: int
    middle: float
    topics: Mapping[str, JobCounts]


class Minutes:
    """The counts by minute, until they are written."""

    def __init__(self, measures: Measures) -> None:
        self.writer = uuid4()
        """Whose numbers the numbers of the minutes are."""
        self.unwritten: deque[Minute] = deque()
        """The oldest first."""
        self._measures = measures
        self._numbers = count(1)
        self._before: dict[str, JobCounts] = {}
        self._began = time.monotonic()

    def close(self) -> None:
        """A minute is over: what was counted in it is to be written, if there is anything."""
        if len(self.unwritten) >= MINUTES_KEPT:
            return
        began, self._began = self._began, time.monotonic()
        if topics := self._news():
            self.unwritten.append(Minute(next(self._numbers), (began + self._began) / 2, topics))

    def _news(self) -> dict[str, JobCounts]:
        outcomes, news = self._measures.outcomes, {}
        for topic in {topic for topic, _ in outcomes}:
            now = JobCounts(
                outcomes[topic, "done"], outcomes[topic, "retried"] + outcomes[topic, "discarded"]
            )
            before = self._before.get(topic, JobCounts(0, 0))
            if now != before:
                self._before[topic] = now
                news[topic] = JobCounts(now.done - before.done, now.failed - before.failed)
        return news
