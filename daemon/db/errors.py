"""What an error of the database means: it is gone, its surroundings are in trouble, or a transaction of others was in the way.

Promise: whoever must decide whether to wait, to try again or to give up asks here, and nowhere looks at a SQLSTATE itself.
"""

from __future__ import annotations

import asyncpg

DATABASE_FAULTS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # What a connection that broke in the middle of an answer may say of itself.
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""All that asking a database can raise."""

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
    """Whether the database, not the statement, was the trouble (asyncpg's complaints of an argument are ValueErrors)."""
    return isinstance(error, _GONE) and not isinstance(error, ValueError)


# Insufficient resources (53: disk, memory, connections), trouble of the machine (58), rollbacks for others' sake (40).
_OUTAGE_CLASSES = ("40", "53", "58")
_OUTAGE_STATES = frozenset(("25006", "55P03", "57P03"))
"""Read-only after a failover, a lock that somebody holds, a server that starts or stops."""


def is_outage(error: BaseException) -> bool:
    """Whether what was asked is without fault, and will work once its surroundings do again.

    A statement that takes too long is one of these: locks are not waited for so long, so it is the server that is slow. A
    connection that was lost is not: a statement may have taken its server process with it.
    """
    if isinstance(error, TimeoutError | ConnectionRefusedError):
        return True
    state = getattr(error, "sqlstate", None) or ""
    return isinstance(error, asyncpg.PostgresError) and (
        state[:2] in _OUTAGE_CLASSES or state in _OUTAGE_STATES
    )


def is_locked_out(error: BaseException) -> bool:
    """Whether a transaction of others was in the way: what did not meet it may go on."""
    return isinstance(
        error,
        asyncpg.LockNotAvailableError | asyncpg.DeadlockDetectedError | asyncpg.SerializationError,
    )
