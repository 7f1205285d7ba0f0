"""Databases to copy: what is expensive to make is made once a run, by the first process that needs it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import asyncpg

from tests.support.database.servers import Server

BARE = "template0"
"""It has no connections, so it can always be copied; template1 only while no session, not even autovacuum, is in it."""
PGVECTOR = "create extension vector"
"""Only a superuser may: the extension is not trusted."""

TIMES = 3
Result = TypeVar("Result")


async def make_once(
    server: Server,
    name: str,
    fill: Callable[[asyncpg.Connection], Awaitable[object]],
    *,
    source: str,
    by_admin: bool = False,
) -> None:
    """A database of that name, filled by its owner, or by the superuser, and closed to connections.

    Others that want it meanwhile wait.
    """
    admin = await asyncpg.connect(server.admin_url)
    try:
        await admin.execute("select pg_advisory_lock(hashtext($1))", name)
        if await admin.fetchval("select exists (select from pg_database where datname = $1)", name):
            return
        # Under its name it is whole.
        await admin.execute(f"drop database if exists {name}_half with (force)")
        await admin.execute(f"create database {name}_half template {source} owner {server.owner}")
        address = server.admin_url_of if by_admin else server.url_of
        connection = await asyncpg.connect(address(f"{name}_half"))
        try:
            await fill(connection)
        finally:
            await connection.close()
        # Not to autovacuum either: a database can only be copied while no other session is in it.
        await admin.execute(f"alter database {name}_half allow_connections false")
        await unless_in_use(lambda: admin.execute(f"alter database {name}_half rename to {name}"))
    finally:
        await admin.close()


async def unless_in_use(work: Callable[[], Awaitable[Result]]) -> Result:
    """Does it again while somebody is in the database: a session that was closed may take a while to end on a busy machine."""
    async with asyncio.timeout(60):
        while True:
            # The server itself waits for five seconds.
            with suppress(asyncpg.ObjectInUseError):
                return await work()


@asynccontextmanager
async def copied(server: Server, source: str) -> AsyncIterator[str]:
    """A database of a name of its own, copied from another; its owner's URL of it, which is dropped at the end.

    Logins belong to the whole server: those of other tests may not connect, which the doctor would report here.
    Its files are copied: to write each page to the log, as Postgres does by default, takes twice as long.
    """
    name = f"memoryd_test_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(server.admin_url)
    try:
        await admin.execute(
            f"create database {name} template {source} strategy file_copy owner {server.owner}"
        )
        await admin.execute(f"revoke connect on database {name} from public")
        yield server.url_of(name)
        await admin.execute(f"drop database if exists {name} with (force)")
    finally:
        await admin.close()


def repeatedly(what: str, work: Callable[[], Result]) -> Result:
    """Does what all tests of this process stand on; tells of a failure and tries again, three times in all.

    pytest keeps the failure of a fixture of the session: one would be that of every test after it.
    """
    for _ in range(TIMES - 1):
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - the last one is raised
            logging.getLogger(__name__).warning("%s failed and is tried again: %s", what, error)
    return work()
