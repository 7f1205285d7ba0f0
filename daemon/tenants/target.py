"""The database that a tenant is moved to: made if it is not there, else it must be empty.

Promise: a database that has rows, or memoryd's schema, is never written to, and one that the move did not make is never
dropped. What a move made and left half-way has a comment that says so, by which the next one makes it again.
"""

from __future__ import annotations

import asyncpg

from daemon.db.pool import quoted
from daemon.tenants.identity import table_with_rows
from daemon.tenants.server import check_may_create, reach
from daemon.tenants.urls import TenantError, database_of

MARK = "memoryd tenant move: not whole yet"
_STATE = """
select d.datallowconn as is_open, coalesce(shobj_description(d.oid, 'pg_database'), '') = $2 as is_half
from pg_database d where d.datname = $1
"""
_HAS_SCHEMA = "select to_regnamespace('memoryd') is not null"


async def make_room(server: asyncpg.Connection, url: str, *, encoding: str) -> bool:
    """Whether the database was made by this. Raises TenantError where it cannot be, or has something in it."""
    database = database_of(url)
    state = await server.fetchrow(_STATE, database, MARK)
    if state is not None and state["is_half"]:
        await drop(server, database)
        state = None
    if state is None:
        await check_may_create(server)
        await server.execute(
            f"create database {quoted(database)} template template0 encoding '{encoding}'", timeout=None
        )
        await server.execute(f"comment on database {quoted(database)} is '{MARK}'")
        return True
    if not state["is_open"]:
        raise TenantError(
            f"The database {database} is there already, and closed to connections, as a tenant that was moved leaves one. "
            "Drop it, or choose another name."
        )
    connection = await reach(url)
    try:
        if await connection.fetchval(_HAS_SCHEMA):
            raise TenantError(
                f"The database {database} is there already, and has a memoryd schema. Drop it, or choose another name."
            )
        table = await table_with_rows(connection)
        if table is not None:
            raise TenantError(
                f"The database {database} is there already, and has rows ({table}). Choose another name."
            )
    finally:
        await connection.close()
    return False


async def declare_whole(server: asyncpg.Connection, database: str) -> None:
    """Before the list names it: what is in the list is never dropped."""
    await server.execute(f"comment on database {quoted(database)} is null")


async def drop(server: asyncpg.Connection, database: str) -> None:
    """Of what make_room() made."""
    await server.execute(f"drop database if exists {quoted(database)} with (force)")
