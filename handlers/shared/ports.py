"""What a handler is: the seam between the queue and the story of an event.

A handler's work has two halves. `prepare` is the slow half: it reads, computes and calls providers, with no transaction
held. It returns the commit half, which runs in ONE transaction together with the settling of its jobs: it writes the
effects of those jobs that are still the worker's own, and of no others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from asyncpg import Connection
from asyncpg.pool import PoolConnectionProxy

AnyConnection = Connection | PoolConnectionProxy


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
    solo_attempts: int = 0
    """Times it was begun alone and did not come back."""

    @property
    def deaths(self) -> int:
        """Attempts before this one that counted: it did not come back, or failed."""
        return self.attempt - self.snoozes - 1

    @property
    def suspect(self) -> bool:
        """Claimed before and never come back: perhaps it kills its worker, so it runs with no fresh one."""
        return self.deaths > 0


Commit = Callable[[AnyConnection, Sequence[Job]], Awaitable[Iterable[float] | None]]
"""The commit half: writes the effects of the jobs given, which are settled in the same transaction. Returns in how many
seconds there is more to do, if it made jobs for later.
"""


class Handler(Protocol):
    """What happens on the events of one topic."""

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """The slow half, for a whole batch. An exception fails the batch; it is then split until the culprit stands alone."""
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


class Indexed(Protocol):
    """Rows that were read to be indexed."""

    def texts(self) -> Iterator[str]:
        """What is to be embedded."""
        ...

    def writes(
        self, vectors: Mapping[str, Any], *, only: Collection[UUID] | None
    ) -> Iterator[tuple[str, list[object]]]:
        """The statements that write the index of `only` (None: of all), given each text's vector, or of its words alone.

        They return the rows' ids and whether somebody's transaction holds them (`held`): those are not written, nor waited
        for, lest a batch of many users' stand still for one.
        """
        ...


class Index(Protocol):
    """How the rows of one source are indexed."""

    async def read(self, reader: Reader, jobs: Sequence[Job]) -> Indexed:
        """Of the rows that the jobs refer to those that are still there."""
        ...


class Poison(Exception):  # noqa: N818 - a verdict on the job
    """This one job can never succeed: it is buried at once, with this message."""


class Held(Exception):  # noqa: N818 - a state of rows
    """Somebody's transaction holds what the jobs need: they are tried again in a moment, no attempt counted."""


async def nothing(_connection: AnyConnection, _jobs: Sequence[Job]) -> None:
    """The commit half of work that needs no effects."""
