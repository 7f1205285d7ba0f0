"""The failure policy: which errors count against a job, how long it waits, and how the job at fault is found in its batch.

Promise: no I/O. `batch.py` does what is decided here, so each rule can be read, and tested, without a database.

- An error is the provider's, lock contention, an outage of the database, or the job's own. Only the last kind counts as an
  attempt, with one exception: a provider that fails for the text of one job, see `ProviderSuspects`.
- A batch in which a job fails is split in halves until that job is in a part of its own. Jobs of several lanes are first
  separated by lane.
- Jobs that failed before, or whose worker died, are suspects: they are never in one batch with fresh jobs, see
  `suspect_batches`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from itertools import groupby

import asyncpg

from daemon.db.errors import is_locked_out, is_outage
from handlers.shared.ports import Job, Poison, RowLockError
from providers.ports import RejectionError, UnavailableError

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_MAX_SECONDS = 300.0
LOCK_MAX_SECONDS = 10.0
"""Longest pause before jobs are tried again that met a row which another transaction has locked."""
OUTAGE_MAX_SECONDS = 60.0
"""Longest pause before jobs are tried again that met an outage: a database that is full, read-only or overloaded."""
CLAIM_MAX_SECONDS = 15.0
"""Longest pause after a claim that failed."""
SUSPECT_AFTER = 3
"""Times a job is snoozed because a provider failed, before the job is suspected of being the reason."""
MAX_REMEMBERED = 10_000
"""How many jobs with which a provider failed are remembered."""

_PERMANENT = (
    RejectionError,
    Poison,
    asyncpg.DataError,
    asyncpg.CheckViolationError,
    asyncpg.NotNullViolationError,
)


class Fault(Enum):
    """The cause of a failed attempt. Except for JOB, the jobs wait, and no attempt is counted."""

    PROVIDER = "provider"
    LOCK_CONTENTION = "lock contention"
    OUTAGE = "outage"
    JOB = "job"


def fault_of(error: Exception) -> Fault:
    """The cause of this error, if the connection to the database was not lost."""
    if isinstance(error, UnavailableError):
        return Fault.PROVIDER
    if isinstance(error, RowLockError) or is_locked_out(error):
        return Fault.LOCK_CONTENTION
    return Fault.OUTAGE if is_outage(error) else Fault.JOB


def is_permanent(error: Exception) -> bool:
    """Whether the job would fail at every attempt, and so is discarded at the first."""
    return isinstance(error, _PERMANENT)


def reason_of(error: Exception) -> str:
    """The error as it is kept with the job. Of a Postgres error only the message: its detail quotes the row."""
    said = error.args[0] if isinstance(error, asyncpg.PostgresError) and error.args else error
    return storable(f"{type(error).__name__}: {said}")


def storable(text: str) -> str:
    """The text without what Postgres cannot store."""
    return text.replace("\x00", "�")


# --- How long jobs wait, in seconds.


def backoff(failures: int, *, maximum: float = BACKOFF_MAX_SECONDS) -> float:
    """Seconds before the next attempt: doubled with each failure, up to `maximum`, times a random factor from 0.5 to 1."""
    longest = min(maximum, BACKOFF_FIRST_SECONDS * 2.0 ** min(30, max(0, failures - 1)))
    return longest * random.uniform(0.5, 1.0)


def lock_pause(jobs: Sequence[Job]) -> float:
    """For jobs that met a locked row. The snoozes of the first job decide for all."""
    return backoff(1 + jobs[0].snoozes, maximum=LOCK_MAX_SECONDS)


def outage_pause(jobs: Sequence[Job], *, maximum: float) -> float:
    """For jobs that met an outage. The job with the fewest snoozes decides, since the outage does not depend on the job."""
    return backoff(1 + min(j.snoozes for j in jobs), maximum=min(OUTAGE_MAX_SECONDS, maximum))


# --- How a batch is split into parts.


def is_divisible(jobs: Sequence[Job]) -> bool:
    """Whether some of these jobs may go on while others wait. Not those of one lane: they are done in order."""
    return len({j.lane for j in jobs}) > 1 or (jobs[0].lane is None and len(jobs) > 1)


def by_lane(jobs: Sequence[Job]) -> list[list[Job]]:
    """One list for each lane, of jobs that are ordered by lane."""
    return [list(group) for _, group in groupby(jobs, key=lambda j: j.lane)]


def halves(jobs: Sequence[Job]) -> tuple[Sequence[Job], Sequence[Job]]:
    """The first and the second half, in order."""
    middle = len(jobs) // 2
    return jobs[:middle], jobs[middle:]


def suspect_batches(jobs: Sequence[Job]) -> list[list[Job]]:
    """The suspects among the jobs, in the batches in which they are tried: those that have seen as many deaths together.

    A claim takes no more of them than may be tried together (memoryd.suspects_to_try).
    """
    suspects = sorted((j for j in jobs if j.suspect), key=lambda j: j.counted_attempts)
    return [list(group) for _, group in groupby(suspects, key=lambda j: j.counted_attempts)]


class ProviderSuspects:
    """Tells a provider that is down from a provider that fails for the text of one job.

    It remembers with which jobs the provider failed, and how many batches had succeeded by then.
    """

    def __init__(self) -> None:
        self._successes = 0
        self._successes_at_failure: dict[int, int] = {}

    def separate(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """The jobs in one or two parts, to be tried one after the other.

        Of the jobs that were snoozed `SUSPECT_AFTER` times, a random half is the second part. So the first part succeeds if the
        job at fault is not in it, and after some rounds the job at fault is in a part of its own.
        """
        suspects = [j for j in jobs if j.lane is None and j.snoozes >= SUSPECT_AFTER]
        last = set(random.sample([j.id for j in suspects], (len(suspects) + 1) // 2))
        parts = [[j for j in jobs if j.id not in last], [j for j in jobs if j.id in last]]
        return [part for part in parts if part]

    def provider_failed(self, jobs: Sequence[Job]) -> bool:
        """Notes that the provider failed with these jobs. Whether a job is the reason, and not a provider that is down.

        True for a single job that was snoozed `SUSPECT_AFTER` times, if other batches succeeded since the provider first failed
        with it.
        """
        if len(self._successes_at_failure) > MAX_REMEMBERED:
            self._successes_at_failure.clear()
        for job in jobs:
            self._successes_at_failure.setdefault(job.id, self._successes)
        first = jobs[0]
        suspected = len(jobs) == 1 and first.snoozes >= SUSPECT_AFTER
        return suspected and self._successes > self._successes_at_failure[first.id]

    def succeeded(self, jobs: Sequence[Job]) -> None:
        """Notes that a batch of these jobs succeeded."""
        self._successes += 1
        for job in jobs:
            self._successes_at_failure.pop(job.id, None)
