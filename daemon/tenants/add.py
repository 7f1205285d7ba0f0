"""A new tenant: a database of its name, copied from the template, with what only it has, and a line in the list.

Promise: the line comes last, so what is in the list is whole. Killed on the way, the same command goes on where it was.
"""

from __future__ import annotations

from pathlib import Path

import asyncpg

from daemon.db.models import Model
from daemon.settings.databases import parse_databases
from daemon.tenants import listed
from daemon.tenants.identity import NotNewError, close_to_others, make_its_own
from daemon.tenants.server import check_may_create, outside, wait_for
from daemon.tenants.template import HALF, TEMPLATE, Migrate, copy_template, mark_of
from daemon.tenants.urls import TenantError, on_database

_EXISTS = "select exists (select from pg_database where datname = $1)"
_VERSION = "select current_setting('server_version_num')::integer / 10000"
RESERVED = (TEMPLATE, HALF, "postgres", "template0", "template1")
"""Databases that are no tenant's."""


async def add_tenant(
    file: Path, name: str, server_url: str, *, model: Model, admin_roles: list[str], migrate: Migrate
) -> str:
    """Makes the database and adds it to the file; returns its URL. Raises TenantError, ValueError, OSError, PostgresError."""
    if name in RESERVED:
        raise TenantError(f"{name} is the name of a database of the server's own. Choose another one.")
    url = on_database(server_url, name)
    parse_databases(
        [*(f"{one.name}={one.url}" for one in listed.read_listed(file) if one.name != name), f"{name}={url}"],
        where=str(file),
    )
    async with outside(server_url, besides=name) as server:
        await wait_for(server, name)
        if any(one.name == name for one in listed.read_listed(file)):
            raise TenantError(listed.already_listed(file, name))
        if not await server.fetchval(_EXISTS, name):
            await check_may_create(server)
            mark = mark_of(model, admin_roles=admin_roles, postgres=await server.fetchval(_VERSION))
            await copy_template(server, server_url, name, mark=mark, migrate=migrate)
        try:
            await make_its_own(url)
        except NotNewError as error:
            raise TenantError(
                f"{name}: {error}. Nothing was changed. Choose another name; or, if it is to be this tenant's, add it to "
                f"{file} yourself: {name}=URL"
            ) from None
        except asyncpg.ObjectNotInPrerequisiteStateError as error:
            raise TenantError(f"{name}: {error.args[0]}. Choose another name.") from None
        await close_to_others(server, name)
        listed.add(file, name, url)
    return url
