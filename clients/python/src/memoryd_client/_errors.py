"""The errors of the client.

Promise: an error says what happened and what to do. No text that was given to a call (a memory, a message, a question) is in
an error: not in its words, not in its attributes, and no error of the driver, which quotes rows, hangs on it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

if TYPE_CHECKING:
    from memoryd_client._types import IndexState

SHOWN_IDS = 5
SHORTEST_QUOTE = 4


class MemorydError(Exception):
    """What every call may raise. `sqlstate`: the database's code of the error, if there is one; `hint`: what to do, if any."""

    def __init__(self, message: str, *, sqlstate: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.sqlstate = sqlstate
        self.hint = hint


class Refused(MemorydError):
    """The call was wrong, or is not allowed: nothing was changed, and the same call will be refused again."""


class NotFound(MemorydError):
    """There is no such row, or it is not yours."""


class Unavailable(MemorydError):
    """The database cannot be reached or cannot work now: nothing was changed, try again in a moment."""


class TimedOut(MemorydError):
    """The call took too long: nothing was changed. After wait_indexed, `states` says how far the rows are."""

    def __init__(self, message: str, *, states: Sequence[IndexState] = (), **more: str | None) -> None:
        super().__init__(message, **more)
        self.states = tuple(states)


class OutcomeUnknown(MemorydError):
    """The connection was lost while a write was committed, and whether it was cannot be found out.

    `ids` are those of the rows that are there if it was. Look for them before you repeat the call.
    """

    def __init__(self, ids: Sequence[UUID] = ()) -> None:
        super().__init__(
            "The connection was lost while the database committed this, and whether it did is not known.",
            hint=f"Look before you repeat it{listed(ids, ': if it did, there is ')}.",
        )
        self.ids = tuple(ids)


class NotIndexed(MemorydError):
    """Rows could not be indexed: `states` are those that failed, each with its reason. They are stored all the same."""

    def __init__(self, states: Sequence[IndexState]) -> None:
        said = "; ".join(f"{s.id}: {s.reason}" for s in states[:SHOWN_IDS])
        more = f", and {len(states) - SHOWN_IDS} more" if len(states) > SHOWN_IDS else ""
        super().__init__(
            f"{len(states)} of the rows could not be indexed ({said}{more}).",
            hint="They are stored. `memoryd dead` lists what failed and tries it again.",
        )
        self.states = tuple(states)


def listed(ids: Sequence[UUID], before: str) -> str:
    """Ids for an error, the first few of them; empty where there are none."""
    if not ids:
        return ""
    shown = ", ".join(str(i) for i in ids[:SHOWN_IDS])
    return before + shown + (f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else "")


TIMEOUTS = (TimeoutError, asyncio.TimeoutError)
"""Two classes before Python 3.11."""

LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    EOFError,
)

TELLING = frozenset(
    ("22004", "22023", "23502", "23503", "23514", "25006", "42501", "53400", "55000", "P0002")
)
"""The codes with which memoryd's own functions and checks refuse: their words and hints tell what to do."""

MISSING = frozenset(("42P01", "42703", "42883", "3F000"))
"""A table, column, function or schema is not there."""


POOLED = frozenset(("26000", "42P05"))
"""A prepared statement is missing or exists already: a pooler gave the session to others meanwhile."""
UNKNOWN_PARAMETER = "unsupported startup parameter"
"""PgBouncer sends it with the same code as for an unreachable server."""

URL_HINT = "Such as postgresql://user:password@host/database; in a password %23 is #, %2F is /, %3F is ?, %40 is @, %5B is [."


def is_lost(error: BaseException) -> bool:
    """Whether the connection or the server failed, not the statement (asyncpg reports wrong values as ValueErrors)."""
    return isinstance(error, (*LOST, *TIMEOUTS)) and not isinstance(error, ValueError)


def may_pass(error: BaseException) -> bool:
    """Whether the same statement may succeed at once: a deadlock, a conflict, a plan from before an upgrade."""
    return isinstance(error, asyncpg.TransactionRollbackError | asyncpg.InvalidCachedStatementError)


def translated(
    error: BaseException, payload: Sequence[str], *, seconds: float, connected: bool = True
) -> MemorydError:
    """An error of the driver as one of ours.

    `payload` is what must not be quoted, `seconds` the time limit of a call; not `connected`: it came before its transaction.
    """
    state = getattr(error, "sqlstate", None)
    if isinstance(error, MemorydError):
        return error
    if isinstance(error, (*TIMEOUTS, asyncpg.QueryCanceledError)):
        return TimedOut(
            f"The database did not answer within {seconds:g} seconds; nothing was changed.",
            sqlstate=state,
            hint="Try again, or give Database a longer time_limit.",
        )
    if isinstance(error, asyncpg.LockNotAvailableError) or may_pass(error):
        return Unavailable(
            "Somebody else is changing the same rows; nothing was changed.",
            sqlstate=state,
            hint="Try again in a moment.",
        )
    if refused := _not_let_in(error, connected):
        return refused
    if is_lost(error):
        return Unavailable(
            "The database cannot be reached; nothing was changed.",
            sqlstate=state,
            hint="Try again in a moment; if it stays so, check the URL and the server.",
        )
    if state in MISSING:
        return Refused(
            "The database lacks something that this client calls.",
            sqlstate=state,
            hint="Run `memoryd migrate` on it, with a memoryd that is not older than this client.",
        )
    if isinstance(error, asyncpg.PostgresError):
        return _refused(error, payload)
    return Refused(
        f"The call could not be sent ({type(error).__name__}).", hint="Check the types of its arguments."
    )


def _not_let_in(error: BaseException, connected: bool) -> Refused | None:
    """The error to raise if the URL or the login is wrong; None for every other error."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError | asyncpg.InvalidCatalogNameError):
        return Refused(
            "The database does not let this login in.",
            sqlstate=state,
            hint="Check the user, the password and the database in the URL.",
        )
    if isinstance(error, ssl.CertificateError):
        return Refused(
            "The server's certificate is not trusted.", hint="Check sslmode and sslrootcert in the URL."
        )
    if isinstance(error, asyncpg.ClientConfigurationError) or not (
        connected or is_lost(error) or isinstance(error, asyncpg.PostgresError)
    ):
        return Refused("The URL of the database, or a file that it names, cannot be read.", hint=URL_HINT)
    if state in POOLED or UNKNOWN_PARAMETER in str(error):
        return Refused(
            "The URL leads to a transaction pooler.",
            sqlstate=state,
            hint="Give Database(url, transaction_pooler=True).",
        )
    return None


def _refused(error: asyncpg.PostgresError, payload: Sequence[str]) -> MemorydError:
    state = error.sqlstate or ""
    if state[:2] in ("53", "58", "57") and state != "53400":
        return Unavailable(
            "The database cannot work now; nothing was changed.",
            sqlstate=state,
            hint="Try again in a moment; its log says what is wrong.",
        )
    # The words and the hint only: the detail, the context and the query quote rows.
    words = _unquoted(str(error.args[0]), payload) if state in TELLING and error.args else ""
    told_hint = getattr(error, "hint", None) if state in TELLING else None
    hint = _unquoted(str(told_hint), payload) or None if told_hint else None
    if state == "25006":
        return Unavailable(
            "This server only reads; nothing was changed.",
            sqlstate=state,
            hint="Connect to the primary: after a failover the URL may lead to a standby.",
        )
    if "set role" in words:
        hint = "Grant it to the login of the URL, or take other `rights`."
    said = f"{words}." if words else f"The database refused this ({state})."
    return (NotFound if state == "P0002" else Refused)(said, sqlstate=state, hint=hint)


def _unquoted(text: str, payload: Sequence[str]) -> str:
    """The text without words of the arguments; empty if three words in a row are from them."""
    given = [each.strip() for each in payload if each.strip()]
    for each in given:
        if len(each) >= SHORTEST_QUOTE:
            text = text.replace(each, "...")

    def kept(found: re.Match[str]) -> str:
        inside = found[0][1:-1]
        return "'...'" if inside and any(inside in each for each in given) else found[0]

    text = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"", kept, text)
    phrases = re.findall(r"(?<!\S)(?=(\S+\s+\S+\s+\S+))", text)
    return "" if any(phrase in each for phrase in phrases for each in given) else text
