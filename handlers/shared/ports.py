"""The interface between the queue and the handlers of events.

A handler's work has two halves. `prepare` is the slow half: it reads, computes and calls providers, with no transaction open.
It returns the commit half, which runs in the transaction that completes the jobs: it writes the effects of those jobs whose
claim is still the worker's, and of no others. A row that another transaction has locked gets a new job for later, so that the
rest of the batch does not wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

from asyncpg import Connection
from asyncpg.pool import PoolConnectionProxy

AnyConnection = Connection | PoolConnectionProxy

MIN_PAUSE, MAX_PAUSE = 1.0, 10.0
"""Seconds until the job for such a row may be claimed."""

# created_at is kept, so that `memoryd status` shows for how long rows have been waiting.
ASK_AGAIN = """
insert into memoryd.jobs (topic, ref, payload, created_at, visible_at, fair_at, tenant)
select $1, r.id, $2::jsonb, r.since, now() + make_interval(secs => r.pause), clock_timestamp() + make_interval(secs => r.pause),
       case when $1 = 'context' then (select memoryd.tenant_of(c.user_id) from public.agent_commands c where c.id = r.id) end
from unnest($3::uuid[], $4::timestamptz[], $5::double precision[]) as r(id, since, pause)
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed unit of work. (id, attempt) is its fencing token; a lane's token fences its order."""

    id: int
    topic: str
    lane: str | None
    ref: UUID | None
    payload: dict[str, Any] | None
    attempt: int
    snoozes: int
    created_at: datetime
    token: int | None = None
    made_at: float = 0.0
    """When it was made, by this process's monotonic clock and the database's measure of its age."""
    claimed_at: float = 0.0
    """When this process claimed it, by the same clock."""
    solo_attempts: int = 0
    """Times it was the only one in its batch and neither failed nor was snoozed: its worker died, or lost the database."""

    @property
    def counted_attempts(self) -> int:
        """Counted attempts before this one: the job failed, or its worker died."""
        return self.attempt - self.snoozes - 1

    @property
    def suspect(self) -> bool:
        """Whether an earlier attempt was counted: the job may kill its worker, so it is never in a batch with fresh jobs."""
        return self.counted_attempts > 0


Commit = Callable[[AnyConnection, Sequence[Job]], Awaitable[Iterable[float] | None]]
"""The commit half: writes the effects of the jobs given, which are completed in the same transaction. If it made jobs that may
be claimed only later, it returns in how many seconds.
"""


class Handler(Protocol):
    """Handles the events of one topic."""

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """The slow half, for a whole batch. An exception fails the batch, which is then split to find the job at fault."""
        ...


class Reader(Protocol):
    """Reading outside a transaction: what a slow half needs of the database."""

    async def fetch(self, sql: str, *args: object) -> list[Any]:
        """The rows of one statement."""
        ...

    async def execute(self, sql: str, *args: object) -> None:
        """One statement without a result."""
        ...


class Store(Reader, Protocol):
    """Reading, and transactions to write in."""

    async def fetchval(self, sql: str, *args: object) -> Any:
        """The first value of the first row."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[AnyConnection]:
        """A connection in a transaction."""
        ...


class Poison(Exception):
    """This job can never succeed: it is discarded at its first failure, with this message."""


class RowLockError(Exception):
    """Lock contention: another transaction has locked rows that the jobs need. They are snoozed."""


async def nothing(_connection: AnyConnection, _jobs: Sequence[Job]) -> None:
    """The commit half of work that needs no effects."""


async def enqueue_for_later(
    connection: AnyConnection, topic: str, locked: Sequence[UUID], jobs: Sequence[Job], *, payload: str | None
) -> set[float]:
    """Makes new jobs for the `locked` rows of these `jobs`, after pauses that grow with the time waited. Returns the pauses."""
    now = datetime.now(UTC)
    since = dict.fromkeys(locked, now)
    for job in jobs:
        if job.ref in since:
            since[job.ref] = min(since[job.ref], job.created_at)
    pauses = [
        min(MAX_PAUSE, max(MIN_PAUSE, round((now - one).total_seconds() / 4))) for one in since.values()
    ]
    await connection.execute(ASK_AGAIN, topic, payload, list(since), list(since.values()), pauses)
    return set(pauses)
