"""A new tenant: a migrated database of its name, closed to others, and a line in the list.

Promise: the line comes last, so each listed database is complete. After a kill the same command continues: an unfinished
database has a comment that says so; a database without this comment is not ours, and is left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from daemon.db.pool import connect, quoted
from daemon.settings.databases import parse_databases
from plugins.tenants import listed
from plugins.tenants.urls import TenantError, database_of, host_of, on_database

RESERVED = ("postgres", "template0", "template1")
"""Databases that belong to no tenant."""
MARK = "memoryd tenant add: not whole yet"
_STATE = "select coalesce(shobj_description(oid, 'pg_database'), '') from pg_database where datname = $1"
_LET_US_IN_NOT = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.InvalidAuthorizationSpecificationError,
)
"""Errors after which another database may still accept a connection."""


async def add_tenant(
    file: Path, name: str, server_url: str, *, migrate: Callable[[str], Awaitable[object]]
) -> str:
    """Makes the database, and adds it to the file; returns its URL.

    `migrate`: the database of a URL. Raises TenantError, ValueError, OSError, PostgresError, and what migrating raises.
    """
    if name in RESERVED:
        raise TenantError(f"{name} is the name of a database of the server's own. Choose another one.")
    url = on_database(server_url, name)
    parse_databases(
        [*(f"{one.name}={one.url}" for one in listed.read_listed(file) if one.name != name), f"{name}={url}"],
        where=str(file),
    )
    async with _outside(server_url, besides=name) as server:
        await _make(server, file, name)
        await migrate(url)
        await server.execute(f"comment on database {quoted(name)} is null")
        listed.add(file, name, url)
    return url


async def _make(server: asyncpg.Connection, file: Path, name: str) -> None:
    """Makes the database, unless an interrupted `add` has made it. Raises TenantError if it belongs to somebody else."""
    state = await server.fetchval(_STATE, name)
    if state is None:
        try:
            await server.execute(
                f"create database {quoted(name)} template template0 encoding 'UTF8'", timeout=None
            )
        except asyncpg.InsufficientPrivilegeError:
            role = await server.fetchval("select current_user")
            raise TenantError(
                f'The role "{role}" may not create databases. Name one that may (--server), '
                f'or have an administrator run: alter role "{role}" createdb'
            ) from None
        except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            raise TenantError(f"Another memoryd tenant makes the database {name}. Wait for it.") from None
        await server.execute(f"comment on database {quoted(name)} is '{MARK}'")
    elif state != MARK:
        raise TenantError(
            f"The database {name} exists already. Choose another name; or, to use it for this tenant, add it to "
            f"{file} yourself: {name}=URL"
        )
    # Roles belong to the whole server, and so to all its tenants.
    await server.execute(f"revoke connect on database {quoted(name)} from public")


@asynccontextmanager
async def _outside(url: str, *, besides: str) -> AsyncIterator[asyncpg.Connection]:
    """A session in a database other than `besides`, if possible in postgres. Raises TenantError."""
    names = dict.fromkeys(name for name in ("postgres", database_of(url), "template1") if name)
    refused = None
    for name in names:
        if name == besides:
            continue
        try:
            connection = await _reach(on_database(url, name))
        except _LET_US_IN_NOT as error:
            refused = refused or error
            continue
        try:
            yield connection
        finally:
            await connection.close()
        return
    said = refused.args[0] if refused is not None else "it has no other database"
    raise TenantError(f"The server {host_of(url)} refused the connection: {said}.")


async def _reach(url: str) -> asyncpg.Connection:
    """A session in the URL's database. Raises TenantError if the server cannot be reached, else PostgresError."""
    try:
        # What works behind a transaction pooler works everywhere.
        return await connect(url, pooled=True, application="memoryd tenant")
    except (asyncpg.InvalidPasswordError, asyncpg.ClientConfigurationError) as error:
        said = error.args[0] if isinstance(error, asyncpg.PostgresError) else "its URL cannot be read"
        raise TenantError(
            f"The server {host_of(url)} refused the connection: {said}. Check its URL, with user and password."
        ) from None
    except (OSError, TimeoutError) as error:
        reason = str(error) or "no answer"
        raise TenantError(f"The server {host_of(url)} cannot be reached: {reason}. Is it running?") from None
