"""Databases to copy: what is dear to make is made once a run, by the first process that needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg

from tests.support.servers import Server


async def make_once(
    server: Server,
    name: str,
    fill: Callable[[asyncpg.Connection], Awaitable[object]],
    *,
    source: str = "template1",
) -> None:
    """A database of that name, filled, and connected to no longer. Others that want it meanwhile wait."""
    admin = await asyncpg.connect(server.admin_url)
    try:
        await admin.execute("select pg_advisory_lock(hashtext($1))", name)
        if await admin.fetchval("select exists (select from pg_database where datname = $1)", name):
            return
        # Under its name it is whole.
        await admin.execute(f"drop database if exists {name}_half")
        await admin.execute(f"create database {name}_half template {source}")
        connection = await asyncpg.connect(server.url_of(f"{name}_half"))
        try:
            await fill(connection)
        finally:
            await connection.close()
        await admin.execute(f"alter database {name}_half rename to {name}")
    finally:
        await admin.close()
