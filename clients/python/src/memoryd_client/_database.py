"""The way to the database: a pool, transactions with an identity, and what happens when a connection is lost.

Promise: each call is one transaction. A call whose connection was lost before it could be committed is made once more, on a
new connection. One whose connection was lost while it was committed is never repeated blindly: first the database is asked
whether it was committed, and if that cannot be found out, the call ends with OutcomeUnknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from uuid import UUID

import asyncpg

from memoryd_client import _values as values
from memoryd_client._connections import Connections, roll_back
from memoryd_client._errors import (
    TIMEOUTS,
    MemorydError,
    OutcomeUnknown,
    Refused,
    Unavailable,
    is_lost,
    may_pass,
    translated,
)
from memoryd_client._identity import Identity

if TYPE_CHECKING:
    from memoryd_client._connections import Connection, Pool

T = TypeVar("T")
Work = Callable[["Connection"], Awaitable[T]]

LONGEST_LIMIT = 2_000_000.0
SETTLE_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0

STATUS = "select pg_xact_status($1::text::xid8)"


@dataclass(frozen=True)
class Write(Generic[T]):
    """An uncommitted write: `value` is its result, `transaction` its pg_current_xact_id().

    `proof` is a query, with its arguments, that is true if the write was committed; `ids` are those of its rows.
    """

    value: T
    transaction: str
    proof: str
    arguments: Sequence[object]
    ids: Sequence[UUID] = ()


@dataclass
class _Attempt(Generic[T]):
    value: T | None = None
    failure: MemorydError | None = None
    stage: Literal["entering", "working", "committing", "done"] = "entering"
    again: bool = False
    """The call failed, but may succeed at once on another connection."""


class AnyDatabase:
    """A Database, or one of memoryd_client.sync, which stands for the async one that it has."""

    _async: Database


class Database(AnyDatabase):
    """A database with memoryd's schema. Make one a process and event loop, and share it; it connects when it is first used.

    - `url`: `postgresql://...`; None takes what PGHOST, PGUSER and so on say.
    - `size`: connections at most.
    - `time_limit`: seconds that a statement may take, and that connecting may take.
    - `transaction_pooler`: the URL leads to one (PgBouncer in transaction mode, Supabase's port 6543), where nothing of a
      session stays between two transactions, and LISTEN does not work.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        size: int = 10,
        time_limit: float = 30.0,
        transaction_pooler: bool = False,
    ) -> None:
        self.time_limit = values.seconds("time_limit", time_limit, 0.001, LONGEST_LIMIT)
        self.transaction_pooler = transaction_pooler
        self._connections = Connections(
            url, values.number("size", size, 1, 10_000), self.time_limit, transaction_pooler
        )

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for calls that run, for 5 seconds at most, and closes the connections. Calls fail from then on."""
        await self._connections.close()

    async def read(self, who: Identity, work: Work[T], *, payload: Sequence[str] = ()) -> T:
        """Does `work` in a transaction of its own; what may be done twice. Raises MemorydError."""
        attempt = await self._attempt(who, work, payload)
        if attempt.failure is not None and (attempt.again or attempt.stage == "committing"):
            attempt = await self._attempt(who, work, payload)
        return _value(attempt)

    async def write(
        self,
        who: Identity,
        work: Work[Write[T]],
        *,
        payload: Sequence[str] = (),
        settle_seconds: float | None = None,
    ) -> T:
        """Does `work` in a transaction of its own, once. Raises MemorydError."""
        if settle_seconds is None:
            settle_seconds = min(SETTLE_SECONDS, self.time_limit)
        attempt = await self._write_once(who, work, payload, settle_seconds)
        if attempt.failure is not None and attempt.again:
            attempt = await self._write_once(who, work, payload, settle_seconds)
        return _value(attempt).value

    async def _write_once(
        self, who: Identity, work: Work[Write[T]], payload: Sequence[str], settle_seconds: float
    ) -> _Attempt[Write[T]]:
        attempt = await self._attempt(who, work, payload)
        if attempt.stage == "committing" and attempt.failure is not None:
            assert attempt.value is not None
            if await self._settled(who, attempt.value, settle_seconds):
                attempt.failure = None
            attempt.again = True  # if it failed still: it was rolled back
        return attempt

    async def listen(self, channel: str, heard: Callable[[str], None], ended: Callable[[], None]) -> Any:
        """A connection of its own that listens; close it. Raises MemorydError."""
        connection: Any = None
        try:
            connection = await asyncpg.connect(
                self._connections.url, timeout=self.time_limit, command_timeout=30.0
            )
            connection.add_termination_listener(lambda _: ended())
            await connection.add_listener(channel, lambda _c, _p, _n, payload: heard(str(payload)))
            return connection
        except BaseException as error:
            if connection is not None:
                connection.terminate()
            if not isinstance(error, Exception):
                raise
            failure = translated(error, (), seconds=self.time_limit, connected=connection is not None)
        raise failure

    async def _attempt(self, who: Identity, work: Work[T], payload: Sequence[str]) -> _Attempt[T]:
        attempt: _Attempt[T] = _Attempt()
        pool: Pool | None = None
        silent = False
        try:
            pool = await self._connections.pool()
            # An error that is raised while a driver's error is handled carries it, with its content: so none is raised in here.
            async with pool.acquire(timeout=self.time_limit) as connection:
                try:
                    await connection.execute(who.enter(self.time_limit))
                    attempt.stage = "working"
                    attempt.value = await work(connection)
                    attempt.stage = "committing"
                    await connection.execute("commit")
                    attempt.stage = "done"
                except TIMEOUTS:
                    silent = True  # the server did not keep its own limit: it, or the way to it, is dead
                    connection.terminate()
                    raise
                except BaseException:
                    await roll_back(connection)
                    raise
        except Exception as error:  # noqa: BLE001 - told() knows
            if attempt.stage != "done":
                lost = is_lost(error)
                attempt.failure = translated(
                    error, payload, seconds=self.time_limit, connected=attempt.stage != "entering"
                )
                if isinstance(error, TIMEOUTS) and attempt.stage == "entering" and pool is not None:
                    attempt.failure = self._connections.late(pool)
                attempt.again = may_pass(error) or (
                    lost and attempt.stage != "committing" and isinstance(attempt.failure, Unavailable)
                )
                if attempt.stage == "committing" and not lost:
                    attempt.stage = "working"  # the server refused the commit
                if pool is not None and (silent or (attempt.again and lost)):
                    # The others may have died with it.
                    with suppress(Exception):
                        await pool.expire_connections()
        return attempt

    async def _settled(self, who: Identity, written: Write[Any], seconds: float) -> bool:
        """Whether a transaction without an answer to its commit was committed. Raises OutcomeUnknown."""

        async def look(connection: Connection) -> tuple[object, object]:
            # In this order: a transaction that has committed by the first query is seen by the second.
            status = await connection.fetchval(STATUS, written.transaction)
            return status, await connection.fetchval(written.proof, *written.arguments)

        loop = asyncio.get_running_loop()
        until, pause = loop.time() + seconds, FIRST_PAUSE
        while True:
            attempt = await self._attempt(who, look, ())
            status, there = (None, False) if attempt.value is None else attempt.value
            if there:
                return True
            if status == "aborted":
                return False
            # After a crash the number may belong to another transaction: that alone proves nothing.
            gone = isinstance(attempt.failure, Refused) or (
                attempt.failure is None and status != "in progress"
            )
            if gone or loop.time() >= until:
                raise OutcomeUnknown(written.ids)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)


def _value(attempt: _Attempt[T]) -> T:
    if attempt.failure is not None:
        raise attempt.failure
    return attempt.value  # type: ignore[return-value]  # a T, which may be None


def async_of(database: AnyDatabase | str | None) -> Database:
    """The one that is meant; a new one for a URL."""
    if isinstance(database, AnyDatabase):
        return database if isinstance(database, Database) else database._async  # noqa: SLF001 - what it stands for
    return Database(database)
