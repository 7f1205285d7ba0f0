"""Classifies errors of the database: the connection is gone, the database has an outage, or there is lock contention.

Promise: only this file reads SQLSTATEs. All others ask it whether to wait, to retry or to discard.
"""

from __future__ import annotations

import asyncpg


class MigrationError(Exception):
    """The schema cannot be brought, or is not, where this code needs it; the message says what to do."""


DATABASE_FAULTS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # Raised by some connections that break in the middle of an answer.
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""All that asking a database can raise."""

IN_THE_WAY = (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
"""What a short wait for a lock ends with."""

_GONE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


def is_gone(error: BaseException) -> bool:
    """Whether the connection or the database failed, not the statement (asyncpg reports wrong arguments as ValueErrors)."""
    return isinstance(error, _GONE) and not isinstance(error, ValueError)


# Insufficient resources (53: disk, memory, connections), errors of the system (58), rollbacks because of other transactions
# (40).
_OUTAGE_CLASSES = ("40", "53", "58")
_OUTAGE_STATES = frozenset(("25006", "55P03", "57P03"))
"""Read-only after a failover, a lock that another transaction has, a server that starts or stops."""


def is_outage(error: BaseException) -> bool:
    """Whether the database has an outage: the same statement will succeed when the database works again.

    A statement that takes too long is an outage: waits for locks end sooner, so the server is slow. A connection that was lost
    is not: the statement itself may have ended its server process.
    """
    if isinstance(error, TimeoutError | ConnectionRefusedError):
        return True
    state = getattr(error, "sqlstate", None) or ""
    return isinstance(error, asyncpg.PostgresError) and (
        state[:2] in _OUTAGE_CLASSES or state in _OUTAGE_STATES
    )


def is_locked_out(error: BaseException) -> bool:
    """Whether it is lock contention: statements that do not need the locked rows may go on."""
    return isinstance(
        error,
        asyncpg.LockNotAvailableError | asyncpg.DeadlockDetectedError | asyncpg.SerializationError,
    )
