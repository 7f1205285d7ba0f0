"""The failure policy: which errors count against a job, how long it waits, and how the job at fault is found in its batch.

Promise: no I/O. `batch.py` does what is decided here, so each rule can be read, and tested, without a database.

- An error is the provider's, lock contention, an outage of the database, or the job's own. Only the last kind counts as an
  attempt, with one exception: a provider that fails for one text alone, see `ProviderSuspects`.
- A batch that fails for a reason of its own is halved until the job at fault stands alone; jobs of several lanes are first
  separated by lane.
- Jobs that were claimed before and never came back are suspects, and are tried apart from the others, see `suspect_batches`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from itertools import groupby

import asyncpg

from daemon.db.errors import is_locked_out, is_outage
from handlers.shared.ports import Held, Job, Poison
from providers.ports import Rejected, Unavailable

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_MAX_SECONDS = 300.0
LOCK_MAX_SECONDS = 10.0
"""Longest pause until jobs are tried again that waited too long for what somebody's transaction holds."""
OUTAGE_MAX_SECONDS = 60.0
"""Longest pause until jobs are tried again that could not be done in a database that is full, read-only or overloaded."""
CLAIM_MAX_SECONDS = 15.0
"""Longest pause after a claim that failed."""
SUSPECT_AFTER = 3
"""Times a job was handed back because a provider failed, before it is suspected of being the reason."""
MAX_REMEMBERED = 10_000
"""Jobs that are remembered as having met a provider's failure."""

_PERMANENT = (
    Rejected,
    Poison,
    asyncpg.DataError,
    asyncpg.CheckViolationError,
    asyncpg.NotNullViolationError,
)


class Fault(Enum):
    """Whose an error is. All but JOB are waited out."""

    PROVIDER = "provider"
    LOCK_CONTENTION = "lock contention"
    OUTAGE = "outage"
    JOB = "job"


def fault_of(error: Exception) -> Fault:
    """Whose this error is, in a database that answers."""
    if isinstance(error, Unavailable):
        return Fault.PROVIDER
    if isinstance(error, Held) or is_locked_out(error):
        return Fault.LOCK_CONTENTION
    return Fault.OUTAGE if is_outage(error) else Fault.JOB


def is_permanent(error: Exception) -> bool:
    """Whether the job would fail so for ever, and needs no second attempt."""
    return isinstance(error, _PERMANENT)


def reason_of(error: Exception) -> str:
    """What is kept with the job. Of Postgres the message alone: its detail quotes the row."""
    said = error.args[0] if isinstance(error, asyncpg.PostgresError) and error.args else error
    return storable(f"{type(error).__name__}: {said}")


def storable(text: str) -> str:
    """As Postgres can store it."""
    return text.replace("\x00", "�")


# --- How long jobs wait, in seconds.


def backoff(failures: int, *, maximum: float = BACKOFF_MAX_SECONDS) -> float:
    """Seconds before the next attempt: exponential up to `maximum`, with full jitter above one half."""
    longest = min(maximum, BACKOFF_FIRST_SECONDS * 2.0 ** min(30, max(0, failures - 1)))
    return longest * random.uniform(0.5, 1.0)


def lock_pause(jobs: Sequence[Job]) -> float:
    """For jobs that met a lock; the first stands for all."""
    return backoff(1 + jobs[0].snoozes, maximum=LOCK_MAX_SECONDS)


def outage_pause(jobs: Sequence[Job], *, maximum: float) -> float:
    """For jobs that met an outage; what failed fails for everybody, so the one that waited least decides."""
    return backoff(1 + min(j.snoozes for j in jobs), maximum=min(OUTAGE_MAX_SECONDS, maximum))


# --- In which parts jobs are tried.


def is_divisible(jobs: Sequence[Job]) -> bool:
    """Whether some of these jobs may go on while others wait. Within one lane the order binds them together."""
    return len({j.lane for j in jobs}) > 1 or (jobs[0].lane is None and len(jobs) > 1)


def by_lane(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that are ordered by lane, in one list a lane."""
    return [list(group) for _, group in groupby(jobs, key=lambda j: j.lane)]


def halves(jobs: Sequence[Job]) -> tuple[Sequence[Job], Sequence[Job]]:
    """The first and the second half, in order."""
    middle = len(jobs) // 2
    return jobs[:middle], jobs[middle:]


def suspect_batches(jobs: Sequence[Job]) -> list[list[Job]]:
    """The suspects among the jobs, in the batches that they are tried in.

    Suspects of several lanes are one batch once, after their first death; after that each lane is a batch.
    """
    suspects = [j for j in jobs if j.suspect]
    if all(j.lane is None or j.deaths == 1 for j in suspects):
        return [suspects] if suspects else []
    return by_lane(suspects)


class ProviderSuspects:
    """Finds the job whose text makes a provider fail, which looks like a provider that is down.

    It remembers which jobs met a failure of the provider, and how many batches had succeeded by then.
    """

    def __init__(self) -> None:
        self._successes = 0
        self._successes_at_failure: dict[int, int] = {}

    def separate(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """The jobs in the parts to try one after the other.

        Of those that met the provider's failure often enough one half, chosen at random, comes last and apart. So the others
        get through, and the one at fault is found by halving.
        """
        suspects = [j for j in jobs if j.lane is None and j.snoozes >= SUSPECT_AFTER]
        last = set(random.sample([j.id for j in suspects], (len(suspects) + 1) // 2))
        parts = [[j for j in jobs if j.id not in last], [j for j in jobs if j.id in last]]
        return [part for part in parts if part]

    def provider_failed(self, jobs: Sequence[Job]) -> bool:
        """Notes that the provider failed with these jobs; True when it is not the provider that is down, but the job's fault.

        That is when there is one job alone, it met the failure often, and others succeeded since it first did.
        """
        if len(self._successes_at_failure) > MAX_REMEMBERED:
            self._successes_at_failure.clear()
        for job in jobs:
            self._successes_at_failure.setdefault(job.id, self._successes)
        first = jobs[0]
        alone = len(jobs) == 1 and first.snoozes >= SUSPECT_AFTER
        return alone and self._successes > self._successes_at_failure[first.id]

    def succeeded(self, jobs: Sequence[Job]) -> None:
        """Notes that a batch of these jobs succeeded."""
        self._successes += 1
        for job in jobs:
            self._successes_at_failure.pop(job.id, None)
