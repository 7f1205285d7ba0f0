"""A tenant's way to another server: closed, dumped, restored, compared, and then another URL in the list.

Promise: the URL in the list is that of a whole database at every moment, and rows are written to one of the two only. Whatever
fails before the list is changed, the old one is opened again: at once, or after a kill by the next move or by `undo`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from daemon.backup.archive import Manifest, check_archive
from daemon.backup.dump import PART, Keys, make_backup
from daemon.backup.restore import compare, finish, restore_backup
from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pooler import hears_notifications
from daemon.settings.databases import NamedDatabase, parse_databases
from daemon.tenants import listed
from daemon.tenants.carried import carry, read_carried
from daemon.tenants.closing import (
    check_may_close,
    close,
    hidden_name,
    leave_closed,
    reopen,
    shut,
)
from daemon.tenants.server import outside, reach, take
from daemon.tenants.target import declare_whole, drop, make_room
from daemon.tenants.template import Migrate
from daemon.tenants.urls import TenantError, database_of, on_database

SHOWN = 5
"""Differences that are named."""
_ENCODING = "select pg_encoding_to_char(encoding) from pg_database where datname = $1"
_OTHER = "select current_database()"
# What a dump of the schemas public and memoryd has not.
_NOT_DUMPED = """
select format('%I.%I', n.nspname, x.name)
from (select oid, relnamespace as namespace, relname as name, 'pg_class'::regclass as of from pg_class
      where relkind in ('r', 'p', 'v', 'm', 'f', 'S')
      union all select oid, pronamespace, proname, 'pg_proc'::regclass from pg_proc) x
join pg_namespace n on n.oid = x.namespace
where n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'public', 'memoryd')
  and not exists (select from pg_depend d where d.classid = x.of and d.objid = x.oid and d.deptype = 'e')
union all
select 'a large object' from pg_largeobject_metadata
limit 1
"""


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move has done, and what is left for a person."""

    rows: int
    without_login: Sequence[str]
    """Roles that could log in on the old server, and on the new one have no password."""
    left: Sequence[str]
    """Rights and settings of the database that the new server did not take."""
    from_elsewhere: str
    """A database of the old server from which the old one can be dropped."""


async def move_tenant(
    file: Path, tenant: NamedDatabase, new: str, *, dump: Path, migrate: Migrate, tell: Callable[[str], None]
) -> Moved:
    """Moves the database of a name in the list; `dump` is the file that its rows go through, `tell` hears of each step.

    Raises TenantError, BackupError, MigrationError, ValueError, OSError, PostgresError.
    """
    old = tenant.url
    _check_url(file, tenant, new)
    database, target = database_of(old), database_of(new)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(outside(old, besides=database))
        there = await stack.enter_async_context(outside(new, besides=target))
        await take(server, database)
        await take(there, target)
        await check_may_close(server, database)
        if await reopen(server, database):
            tell("A move that was cut off is undone first.")
        await _check_source(old)
        carried = await read_carried(server, database)
        made = await make_room(there, new, encoding=await server.fetchval(_ENCODING, database))
        try:
            manifest = await _dumped(server, old, dump, tell)
            without_login = await _restored(new, dump, manifest, migrate, tell)
            left = await carry(there, target, carried)
            if made:
                await declare_whole(there, target)
            listed.switch(file, tenant.name, before=old, after=new)
        except BaseException:
            # Ctrl-C may come after the last step.
            if all(one.url != new for one in listed.read_listed(file)):
                await _bring_back(tenant)
                if made:
                    with suppress(*DATABASE_FAULTS):  # its comment says what it is
                        await drop(there, target)
            raise
        finally:
            remove(dump)
        await leave_closed(server, database)
        return Moved(
            rows=sum(manifest.contents.rows.values()),
            without_login=without_login,
            left=left,
            from_elsewhere=on_database(old, await server.fetchval(_OTHER)),
        )


def _check_url(file: Path, tenant: NamedDatabase, new: str) -> None:
    """Raises ValueError where the list could not have this URL, TenantError where it leads to the same database."""
    others = [f"{one.name}={one.url}" for one in listed.read_listed(file) if one.name != tenant.name]
    parse_databases([*others, f"{tenant.name}={new}"], where=str(file))
    try:
        parse_databases([f"old={tenant.url}", f"new={new}"], where="URL")
    except ValueError:
        raise TenantError(f"{tenant.name} is there already.") from None


async def _check_source(old: str) -> None:
    """Raises TenantError where a dump would not have all of the database, or cannot be made."""
    if not await hears_notifications(old):
        raise TenantError("The URL leads through a transaction pooler: in the list name the database itself.")
    connection = await reach(old)
    try:
        found = await connection.fetchval(_NOT_DUMPED)
    finally:
        await connection.close()
    if found is not None:
        raise TenantError(
            f"The database has more than the schemas public and memoryd ({found}), which memoryd would not move. Move it with "
            "pg_dump and pg_restore while its clients are stopped, then change its line in the list."
        )


async def undo(old: str, *, dump: Path) -> bool:
    """Opens a database again whose move was cut off; False where it is open. Raises TenantError, PostgresError."""
    database = database_of(old)
    async with outside(old, besides=database) as server:
        await take(server, database)
        await check_may_close(server, database)
        remove(dump)
        return await reopen(server, database)


def remove(dump: Path) -> None:
    """The dump, whole or half."""
    for path in (dump, dump.with_name(dump.name + PART)):
        path.unlink(missing_ok=True)


async def _dumped(server: asyncpg.Connection, old: str, dump: Path, tell: Callable[[str], None]) -> Manifest:
    database = database_of(old)
    tell("Closing the database, and dumping it.")
    hidden = await close(server, database)
    manifest = await make_backup(on_database(old, hidden), dump, keys=Keys({}))
    # Nobody who has found the name writes what the dump has not.
    await shut(server, hidden)
    return manifest


async def _restored(
    new: str, dump: Path, manifest: Manifest, migrate: Migrate, tell: Callable[[str], None]
) -> list[str]:
    tell("Restoring it.")
    check_archive(dump, manifest, tell=lambda _bytes: None)
    made = await restore_backup(new, dump, manifest)
    tell("Comparing rows, triggers, policies, functions.")
    unlike = await compare(new, manifest.contents)
    if unlike:
        more = f"; and {len(unlike) - SHOWN:,} more" if len(unlike) > SHOWN else ""
        raise TenantError(f"What was restored is not what was dumped: {'; '.join(unlike[:SHOWN])}{more}")
    await migrate(new)
    await finish(new)
    return made


async def _bring_back(tenant: NamedDatabase) -> None:
    """By a session of its own: the one of before may be what was lost."""
    database = database_of(tenant.url)
    try:
        async with outside(tenant.url, besides=database) as server:
            await reopen(server, database)
    except (TenantError, *DATABASE_FAULTS) as error:
        raise TenantError(
            f"The move failed, and the old database could not be opened again ({error}). It is whole, and on its server it is "
            f"called {hidden_name(database)} or {database}. To open it: memoryd tenant move {tenant.name} --undo"
        ) from None
