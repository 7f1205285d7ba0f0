"""Who looks, and with whose rights each page reads and changes.

Promise: support reads as memoryd_admin, so every read of a user's rows is on the audit trail before it happens; with
`--as-user` a page has the rights of that end user and no others. What support may not do by itself (a context, an edit) is done
as memoryd_service, after it was put on record under the name of the one who looks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import asyncpg

from daemon.db.acting import act
from daemon.db.pool import Database
from daemon.ids import id_of
from daemon.web.errors import NotThereError
from handlers.shared.ports import AnyConnection

SECONDS = 10.0
"""That a statement of a page may take."""
WHO = "select memoryd.caller_id() as user_id, memoryd.caller_is_service() as service"
ON_RECORD = "select memoryd.log_support($1, $2, $3)"
SHOWN = "select memoryd.audit_admin_memories($1, $2)"
Verb = Literal["select", "insert", "update", "delete"]


class RefusedLoginError(ValueError):
    """The login of the database cannot act as the viewer; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: `user` is the end user whose rights the pages have, None: support. `name`: as the sign-in knows it."""

    name: str
    user: UUID | None = None

    @property
    def role(self) -> str:
        """The role of Postgres that reads."""
        return "memoryd_admin" if self.user is None else "memoryd_user"

    @property
    def claims(self) -> Mapping[str, str]:
        """What a gateway would say: of support who it is, for the audit trail."""
        if self.user is not None:
            return {"sub": str(self.user), "role": self.role}
        return {"sub": str(id_of(self.name)), "name": self.name, "role": self.role}


@asynccontextmanager
async def reading(
    database: Database, viewer: Viewer, *, seconds: float = SECONDS
) -> AsyncIterator[AnyConnection]:
    """A transaction in which rows are read with the viewer's rights. Changes of theirs are not meant to happen in it."""
    async with database.transaction() as connection:
        # All organisations: support helps each of them. Of an end user the setting is nothing, since knowledge is not theirs.
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

    What is to be changed is read so first: nobody changes what they may not see, and the record says whose it is.
    """
    async with reading(database, viewer) as connection:
        return await row_of(connection, sql, *args)


async def ids_found(connection: AnyConnection, viewer: Viewer, sql: str, *args: object) -> list[UUID]:
    """The ids of a query, in its order; then the rows that are shown are read by them, with the viewer's rights.

    For support the query runs as memoryd_service, since each row that a policy of support looks at is a read on record: a
    filter would put down users of whom nothing is shown. It gives ids only, and what is shown of them is on record.
    """
    return [row[0] for row in await rows_found(connection, viewer, sql, *args)]


async def rows_found(connection: AnyConnection, viewer: Viewer, sql: str, *args: object) -> list[Any]:
    """The rows of a query that has no content, as `ids_found` gives ids.

    Of support the page itself puts the users on record whose rows these are: in one statement, where a policy would do so again
    for each of thousands of rows.
    """
    if viewer.user is not None:
        rows: list[Any] = await connection.fetch(sql, *args)
        return rows
    await connection.execute("select set_config('role', 'memoryd_service', true)")
    rows = await connection.fetch(sql, *args)
    await connection.execute("select set_config('role', $1, true)", viewer.role)
    return rows


async def shown(connection: AnyConnection, viewer: Viewer, table: str, ids: Sequence[UUID]) -> None:
    """Puts on record whose rows a text shows that memoryd has made as the service, for support."""
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
    """A transaction that may do what support itself may not: change rows, build a context.

    An end user acts with their own rights. For support it is done as memoryd_service, and first put on record: what is
    done (`verb`) to which `table`, and `user`, whose rows these are (None: an agent's, which needs no record). `others`: more
    users whose rows these are.
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


async def _login(database: Database) -> str:
    """As SQL names it."""
    return str(await database.fetchval("select quote_ident(session_user)"))


async def check_viewer(database: Database, viewer: Viewer) -> None:
    """Raises RefusedLoginError where the login may not take the role, or is another end user (memoryd.logins)."""
    try:
        async with reading(database, viewer) as connection:
            who = await connection.fetchrow(WHO)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError) as error:
        raise RefusedLoginError(
            f"The login of DATABASE_URL cannot act as {viewer.role} ({error.args[0]}). "
            f"An administrator runs: grant {viewer.role} to {await _login(database)} with inherit false, set true"
        ) from None
    except asyncpg.ReadOnlySQLTransactionError:
        raise RefusedLoginError(
            "This server is a standby, or read-only: pages for support need one that can be written to, since each read is "
            "put on record. Give --as-user, or the address of the primary."
        ) from None
    assert who is not None
    if viewer.user is not None and (who["service"] or who["user_id"] != viewer.user):
        raise RefusedLoginError(
            "The login of DATABASE_URL is another end user (memoryd.logins), and can be no other. "
            "Give --as-user that user's id, or use another login."
        )
