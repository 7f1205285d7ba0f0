"""memoryd_template: a migrated database without rows, which new tenants are copies of.

Promise: under its name it is whole, and nobody is connected to it, so it can always be copied. It is made again where the
schema, the functions, the embedder or the role are others; commands that need it at once make it once. A database of that
name which memoryd did not make is left alone.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

import asyncpg

from daemon.db.migration_files import load_files
from daemon.db.models import Model
from daemon.db.plan import MigrationError
from daemon.db.pool import quoted
from daemon.tenants.server import key_of, reach
from daemon.tenants.urls import TenantError, on_database
from providers.local_embedder import NAME as LOCAL
from providers.local_tokens import fingerprint

TEMPLATE = "memoryd_template"
HALF = "memoryd_template_half"
"""Its name until it is whole."""
MARK = "memoryd template "
"""Begins the comment of a template that is memoryd's; what it was made of follows."""
TRIES = 5

Migrate = Callable[[str], Awaitable[object]]
"""Migrates the database of a URL, as these settings say."""

_STATE = """
select coalesce(shobj_description(d.oid, 'pg_database'), '') as mark, d.datallowconn as is_open,
       d.datdba = (select oid from pg_roles where rolname = current_user) as is_mine
from pg_database d where d.datname = $1
"""


def mark_of(model: Model, *, admin_roles: Sequence[str], postgres: int) -> str:
    """The comment of a template that this memoryd makes with these settings."""
    files = load_files()
    made_of = [
        version("memoryd"),
        str(postgres),
        repr(model),
        repr(sorted(admin_roles)),
        fingerprint() if model.embedder == LOCAL else "",
        *(f"{one.version} {one.name} {one.checksum}" for one in files.schema),
        *(f"{one.name} {one.checksum}" for one in files.functions),
    ]
    return MARK + hashlib.sha256("\n".join(made_of).encode()).hexdigest()


async def copy_template(
    server: asyncpg.Connection, url: str, database: str, *, mark: str, migrate: Migrate
) -> None:
    """Makes a database as a copy of the template, which is made where it is missing or another one.

    Raises TenantError, asyncpg.DuplicateDatabaseError, and what migrating raises.
    """
    for _ in range(TRIES):
        async with _locked(server, shared=True):
            if await _is_usable(server, mark):
                await _unless_in_use(
                    server, f"create database {quoted(database)} template {quoted(TEMPLATE)}"
                )
                return
        async with _locked(server):
            if not await _is_usable(server, mark):
                await _make(server, url, mark, migrate)
    raise TenantError(
        f"Another memoryd, of another version or with other settings, makes {TEMPLATE} again and again."
    )


async def _is_usable(server: asyncpg.Connection, mark: str) -> bool:
    state = await server.fetchrow(_STATE, TEMPLATE)
    if state is None:
        return False
    if not state["mark"].startswith(MARK):
        raise TenantError(
            f"The server has a database {TEMPLATE} that memoryd did not make. Give it another name: "
            f"alter database {TEMPLATE} rename to ..."
        )
    return bool(state["mark"] == mark and state["is_mine"] and not state["is_open"])


async def _make(server: asyncpg.Connection, url: str, mark: str, migrate: Migrate) -> None:
    try:
        if not await _is_ready_for_schema(server, url):
            await server.execute(f"drop database if exists {HALF} with (force)")
            # From template0: template1 cannot be copied while a session is in it, and may have what others put there.
            await server.execute(f"create database {HALF} template template0 encoding 'UTF8'")
            await server.execute(f"revoke connect on database {HALF} from public")
        await migrate(on_database(url, HALF))
        await _vacuum(on_database(url, HALF))
        await server.execute(f"alter database {HALF} with allow_connections false")
        await server.execute(f"comment on database {HALF} is '{mark}'")
        await server.execute(f"drop database if exists {TEMPLATE} with (force)")
        await _unless_in_use(server, f"alter database {HALF} rename to {TEMPLATE}")
    except MigrationError as error:
        raise TenantError(f"The database {HALF}, from which tenants are made: {error}") from None
    except asyncpg.InsufficientPrivilegeError as error:
        raise TenantError(
            f"{TEMPLATE} cannot be made ({error.args[0]}). If another role has made it, connect as that one (--server), or "
            f"have an administrator run: drop database {TEMPLATE}"
        ) from None


async def _is_ready_for_schema(server: asyncpg.Connection, url: str) -> bool:
    """Whether it was made and not migrated: where an administrator had to make an extension in it, that stays."""
    state = await server.fetchrow(_STATE, HALF)
    if state is None or not state["is_mine"] or not state["is_open"]:
        return False
    connection = await reach(on_database(url, HALF))
    try:
        return bool(await connection.fetchval("select to_regnamespace('memoryd') is null"))
    finally:
        await connection.close()


async def _vacuum(url: str) -> None:
    """So that no copy has to do it: a copy has the template's statistics, and its pages as they are."""
    connection = await reach(url)
    try:
        await connection.execute("vacuum (freeze, analyze)", timeout=None)
    finally:
        await connection.close()


async def _unless_in_use(server: asyncpg.Connection, sql: str) -> None:
    """Does it again while somebody is in the database: a session that was closed may take a while to end."""
    for left in reversed(range(TRIES)):
        try:
            await server.execute(sql, timeout=None)
            return
        except asyncpg.ObjectInUseError:  # after five seconds, which the server itself waits
            if not left:
                raise
            await asyncio.sleep(0.2)


@asynccontextmanager
async def _locked(server: asyncpg.Connection, *, shared: bool = False) -> AsyncIterator[None]:
    """Copies are made at once; who makes the template is alone. Of this session, which a kill ends."""
    suffix = "_shared" if shared else ""
    await server.execute(f"select pg_advisory_lock{suffix}($1)", key_of(TEMPLATE), timeout=None)
    try:
        yield
    finally:
        if not server.is_closed():
            await server.execute(f"select pg_advisory_unlock{suffix}($1)", key_of(TEMPLATE))
