"""The viewer: with whose rights each page reads and changes rows.

Promise: support reads as memoryd_admin, so every read of a user's rows is on the audit trail before it happens; with
`--as-user` a page has the rights of that end user and no others. What support itself may not do (a context, an edit) is done as
memoryd_service, after it was recorded under the viewer's name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import asyncpg

from daemon.db.pool import Database
from daemon.ids import id_of
from handlers.shared.ports import AnyConnection
from plugins.operate.callers import act
from plugins.web.errors import NotThereError

SECONDS = 10.0
"""The time limit of a page's statement."""
WHO = "select memoryd.caller_id() as user_id, memoryd.caller_is_service() as service"
ON_RECORD = "select memoryd.log_support($1, $2, $3)"
SHOWN = "select memoryd.audit_admin_memories($1, $2)"
Verb = Literal["select", "insert", "update", "delete"]


class RefusedLoginError(ValueError):
    """The login of the database cannot act as the viewer; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """`user`: the end user whose rights the pages have; None: support. `name`: the name from the sign-in."""

    name: str
    user: UUID | None = None

    @property
    def role(self) -> str:
        """The role of Postgres that reads."""
        return "memoryd_admin" if self.user is None else "memoryd_user"

    @property
    def claims(self) -> Mapping[str, str]:
        """The claims that a gateway would send; for support with its name, for the audit trail."""
        if self.user is not None:
            return {"sub": str(self.user), "role": self.role}
        return {"sub": str(id_of(self.name)), "name": self.name, "role": self.role}


@asynccontextmanager
async def reading(
    database: Database, viewer: Viewer, *, seconds: float = SECONDS
) -> AsyncIterator[AnyConnection]:
    """A transaction that reads rows with the viewer's rights. It is not meant for changes."""
    async with database.transaction() as connection:
        # Support helps all organisations. For an end user the setting has no effect: no knowledge belongs to a user.
        await act(connection, viewer.role, claims=viewer.claims, org="all", seconds=seconds)
        yield connection


async def row_of(connection: AnyConnection, sql: str, *args: object) -> Any:
    """The row of a query. Raises NotThereError."""
    row = await connection.fetchrow(sql, *args)
    if row is None:
        raise NotThereError
    return row


async def seen(database: Database, viewer: Viewer, sql: str, *args: object) -> Any:
    """The row of a query, with the viewer's rights. Raises NotThereError.

    A row is read this way before it is changed: nobody changes a row that they may not see, and the record names its user.
    """
    async with reading(database, viewer) as connection:
        return await row_of(connection, sql, *args)


async def ids_found(connection: AnyConnection, viewer: Viewer, sql: str, *args: object) -> list[UUID]:
    """The ids of a query, in its order. The page then reads the rows of these ids with the viewer's rights.

    For support the query runs as memoryd_service: a policy of support records each row that it reads, so a filter would record
    users of whom nothing is shown. The query gives ids only, and the rows that are shown are recorded.
    """
    return [row[0] for row in await rows_found(connection, viewer, sql, *args)]


async def rows_found(connection: AnyConnection, viewer: Viewer, sql: str, *args: object) -> list[Any]:
    """The rows of a query without content, read as `ids_found` reads ids.

    For support the page itself records the users of these rows, in one statement; a policy would do so for each row.
    """
    if viewer.user is not None:
        rows: list[Any] = await connection.fetch(sql, *args)
        return rows
    await connection.execute("select set_config('role', 'memoryd_service', true)")
    rows = await connection.fetch(sql, *args)
    await connection.execute("select set_config('role', $1, true)", viewer.role)
    return rows


def holds(words: str, text: str, *, or_else: str = "false") -> str:
    """SQL: whether an expression's text has all words of another, each (w) somewhere, in any case and order, or else so."""
    return (
        f"not exists (select from string_to_table(lower({words}), ' ') w "
        f"where strpos(lower({text}), w) = 0 and not ({or_else}))"
    )


def begins(row_id: str) -> str:
    """SQL: whether word w begins an id, with eight digits or more: shorter ones are words that ids have by chance."""
    return f"length(w) >= 8 and starts_with({row_id}::text, w)"


@asynccontextmanager
async def by_indexes(connection: AnyConnection) -> AsyncIterator[None]:
    """Meanwhile queries of the transaction read no table from end to end where an index leads to the first rows."""
    await connection.execute("set local enable_seqscan = off")
    yield
    await connection.execute("set local enable_seqscan = default")


async def shown(connection: AnyConnection, viewer: Viewer, table: str, ids: Sequence[UUID]) -> None:
    """Records, for support, the users whose rows a text shows that memoryd made as the service."""
    if viewer.user is None:
        await act(connection, viewer.role, claims=viewer.claims, org="all", seconds=SECONDS)
        await connection.execute(SHOWN, table, list(ids))


@asynccontextmanager
async def on_behalf(
    database: Database,
    viewer: Viewer,
    table: str,
    verb: Verb,
    *,
    user: UUID | None,
    others: Sequence[UUID] = (),
    seconds: float = SECONDS,
) -> AsyncIterator[AnyConnection]:
    """A transaction for what support itself may not do: change rows, build a context.

    An end user acts with their own rights. Support acts as memoryd_service, after it was recorded what is done (`verb`) to
    which `table` and whose rows these are: of `user` (None: an agent's, which needs no record) and of `others`.
    """
    async with database.transaction() as connection:
        if viewer.user is not None:
            await act(connection, viewer.role, claims=viewer.claims, seconds=seconds)
        else:
            await act(connection, viewer.role, claims=viewer.claims, org="all", seconds=seconds)
            await connection.execute("set local role none")
            for each in (user, *others):
                await connection.execute(ON_RECORD, table, each, verb)
            await act(connection, "memoryd_service", org="all", seconds=seconds)
        yield connection


async def check_viewer(database: Database, viewer: Viewer) -> None:
    """Raises RefusedLoginError where the login may not take the role, or is another end user (memoryd.logins)."""
    try:
        async with reading(database, viewer) as connection:
            who = await connection.fetchrow(WHO)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError) as error:
        login = await database.fetchval("select quote_ident(session_user)")
        raise RefusedLoginError(
            f"The login of DATABASE_URL cannot act as {viewer.role} ({error.args[0]}). "
            f"An administrator runs: grant {viewer.role} to {login} with inherit false, set true"
        ) from None
    except asyncpg.ReadOnlySQLTransactionError:
        raise RefusedLoginError(
            "This server is a standby, or read-only: pages for support need one that can be written to, since each read is "
            "recorded. Give --as-user, or the address of the primary."
        ) from None
    assert who is not None
    if viewer.user is not None and (who["service"] or who["user_id"] != viewer.user):
        raise RefusedLoginError(
            "The login of DATABASE_URL is another end user (memoryd.logins), and cannot act as this one. "
            "Give --as-user that user's id, or use another login."
        )
