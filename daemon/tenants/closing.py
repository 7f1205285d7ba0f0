"""Closing a tenant's database to everybody but the command that moves it, and opening it again.

To write is what must end, and a setting (read-only transactions) ends it only for clients that leave it alone. To connect is
what the server decides: `allow_connections false` lets nobody in, not even superusers, and with it not pg_dump either; a
connection limit of 0 lets superusers in, so those that write, too. So the database also gets a name that no client knows, and
under that name it takes connections again. Each step needs its owner, with the right to create databases, and no superuser:

    name              connections
    acme              yes            as it was
    acme              no             everybody is being disconnected
    moving_..._acme   no
    moving_..._acme   yes            it is dumped
    moving_..._acme   no             it is dumped
    acme              no             it was moved

Promise: the server itself remembers how far it is, so that after a kill `reopen` brings each of these back to the first.
"""

from __future__ import annotations

import asyncio
import hashlib

import asyncpg

from daemon.db.pool import quoted
from daemon.tenants.urls import TenantError

MAX_BYTES = 63
"""Of a name in Postgres."""
TRIES = 10
PAUSE = 0.2

_STATE = "select datallowconn from pg_database where datname = $1"
_END = """
select count(pg_terminate_backend(pid))
from pg_stat_activity
where datname = $1 and pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender')
"""
_MINE = """
select pg_has_role(d.datdba, 'usage') and (r.rolsuper or r.rolcreatedb) as may, r.rolname, pg_get_userbyid(d.datdba) as owner
from pg_database d, pg_roles r
where d.datname = any($1) and r.rolname = current_user
"""


def hidden_name(database: str) -> str:
    """What a database is called while it is moved."""
    begins = f"moving_{hashlib.sha256(database.encode()).hexdigest()[:8]}_"
    return begins + database.encode()[: MAX_BYTES - len(begins)].decode("utf-8", "ignore")


async def check_may_close(server: asyncpg.Connection, database: str) -> None:
    """Raises TenantError where there is no such database, or this role may not close it."""
    row = await server.fetchrow(_MINE, [database, hidden_name(database)])
    if row is None:
        raise TenantError(f"The server has no database {database}.")
    if not row["may"]:
        raise TenantError(
            f'The role "{row["rolname"]}" may not close the database {database}: that needs its owner ("{row["owner"]}") with '
            f'the right to create databases (alter role "{row["owner"]}" createdb), or a superuser.'
        )


async def close(server: asyncpg.Connection, database: str) -> str:
    """Ends all sessions; from then on only who knows the name that is returned gets in. Raises TenantError, PostgresError."""
    hidden = hidden_name(database)
    await _put_aside(server, database, hidden)
    await server.execute(f"alter database {quoted(hidden)} with allow_connections true")
    return hidden


async def shut(server: asyncpg.Connection, hidden: str) -> None:
    """From then on nobody gets in."""
    await server.execute(f"alter database {quoted(hidden)} with allow_connections false")


async def reopen(server: asyncpg.Connection, database: str) -> bool:
    """Brings the database back from wherever it is; False where nothing was to be done. Raises TenantError, PostgresError."""
    hidden = hidden_name(database)
    if await _is_there(server, hidden):
        await _put_aside(server, hidden, database)
    elif await server.fetchval(_STATE, database) is not False:
        return False
    await server.execute(f"alter database {quoted(database)} with allow_connections true")
    return True


async def leave_closed(server: asyncpg.Connection, database: str) -> None:
    """After a move: it has its name again, and nobody gets in."""
    await _put_aside(server, hidden_name(database), database)


async def _put_aside(server: asyncpg.Connection, name: str, other: str) -> None:
    """Closes the database and gives it its other name, if it has it not yet."""
    if await _is_there(server, other):
        if await _is_there(server, name):
            raise TenantError(
                f"The server has both {name} and {other}, of a move that was cut off. Look which one has your "
                "rows, and rename or drop the other one."
            )
        await shut(server, other)
        await _end_sessions(server, other)
        return
    await shut(server, name)
    for left in reversed(range(TRIES)):
        await _end_sessions(server, name)
        try:
            await server.execute(f"alter database {quoted(name)} rename to {quoted(other)}", timeout=None)
            return
        except asyncpg.ObjectInUseError as error:
            # The server itself has waited for five seconds. A prepared transaction does not end by itself.
            if not left or "prepared" in (error.detail or ""):
                raise TenantError(
                    f"The database {name} is in use: {error.detail or error.args[0]}. End that, then try again."
                ) from None
            await asyncio.sleep(PAUSE)


async def _end_sessions(server: asyncpg.Connection, name: str) -> None:
    try:
        await server.fetchval(_END, name)
    except asyncpg.InsufficientPrivilegeError as error:
        raise TenantError(
            f"Sessions of other roles are in the database {name}, and this role may not end them ({error.args[0]}). Stop those "
            "clients, or have an administrator grant pg_signal_backend to this role."
        ) from None


async def _is_there(server: asyncpg.Connection, name: str) -> bool:
    return await server.fetchval(_STATE, name) is not None
