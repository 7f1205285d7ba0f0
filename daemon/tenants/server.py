"""A session on a tenant's server, outside of the tenant's own database: from there it is made, closed, renamed, dropped.

Promise: of two commands about one database the second waits, or says that the first is at work; a kill leaves no lock.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from daemon.db.pool import connect
from daemon.db.pooler import hears_notifications
from daemon.tenants.urls import TenantError, database_of, host_of, on_database

APPLICATION = "memoryd tenant"
_ELSEWHERE = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.InvalidAuthorizationSpecificationError,
)
"""Why one database does not let us in, and another one may."""
POOLED = (
    "The URL leads through a transaction pooler, and memoryd tenant needs sessions of its own: name the server itself, "
    "or a pooler in session mode."
)
_RIGHTS = "select rolname, rolcreatedb or rolsuper as may_create from pg_roles where rolname = current_user"


@asynccontextmanager
async def outside(url: str, *, besides: str) -> AsyncIterator[asyncpg.Connection]:
    """A session in another database than `besides`: postgres, where that lets us in. Raises TenantError.

    All commands take that one if they can: advisory locks are of one database.
    """
    names = dict.fromkeys(name for name in ("postgres", database_of(url), "template1") if name)
    connection, refused = None, None
    for name in names:
        if name == besides:
            continue
        try:
            connection = await reach(on_database(url, name))
            break
        except _ELSEWHERE as error:
            refused = refused or error
    if connection is None:
        said = refused.args[0] if refused is not None else "it has no other database"
        raise TenantError(f"The server {host_of(url)} refused to let us in: {said}.")
    try:
        if await _is_pooled(connection, on_database(url, name)):
            raise TenantError(POOLED)
        yield connection
    finally:
        await connection.close()


async def _is_pooled(connection: asyncpg.Connection, url: str) -> bool:
    """Whether a transaction pooler is in the way, where no lock would stay this session's."""
    # Who is connected to the server itself was told the process that answers, so most need no second look.
    if await connection.fetchval("select pg_backend_pid()") == connection.get_server_pid():
        return False
    return not await hears_notifications(url)


async def reach(url: str) -> asyncpg.Connection:
    """A session in the URL's database. Raises TenantError where there is no way to the server, else PostgresError."""
    try:
        return await connect(url, application=APPLICATION)
    except (asyncpg.InvalidPasswordError, asyncpg.ClientConfigurationError) as error:
        said = error.args[0] if isinstance(error, asyncpg.PostgresError) else "its URL cannot be read"
        raise TenantError(
            f"The server {host_of(url)} refused to let us in: {said}. Check its URL, with user and password."
        ) from None
    except asyncpg.ProtocolViolationError as error:
        if "startup parameter" in str(error.args[0]):  # of PgBouncer
            raise TenantError(POOLED) from None
        raise
    except (OSError, TimeoutError) as error:
        reason = str(error) or "no answer"
        raise TenantError(f"The server {host_of(url)} cannot be reached: {reason}. Is it running?") from None


def key_of(what: str) -> int:
    """Of an advisory lock: a number that nothing else has by chance."""
    return int.from_bytes(hashlib.sha256(f"memoryd tenant {what}".encode()).digest()[:8], "big", signed=True)


async def wait_for(server: asyncpg.Connection, database: str) -> None:
    """Until no other command is about this database on this server; the lock is this session's until it ends."""
    await server.execute("select pg_advisory_lock($1)", key_of(database), timeout=None)


async def take(server: asyncpg.Connection, database: str) -> None:
    """The same without waiting. Raises TenantError."""
    if not await server.fetchval("select pg_try_advisory_lock($1)", key_of(database)):
        raise TenantError(f"Another memoryd tenant is at work on the database {database}. Wait for it.")


async def check_may_create(server: asyncpg.Connection) -> None:
    """Raises TenantError where this role may create no databases."""
    (role,) = await server.fetch(_RIGHTS)
    if not role["may_create"]:
        raise TenantError(
            f'The role "{role["rolname"]}" may not create databases. Name one that may (add: --server; move: the URL), '
            f'or have an administrator run: alter role "{role["rolname"]}" createdb'
        )
