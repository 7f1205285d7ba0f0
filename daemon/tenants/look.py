"""All tenants at a glance: which can be reached, how big they are, whether their schema is this memoryd's.

Promise: one that does not answer keeps nobody waiting for longer than its time limit, and few connections are open at once.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import asyncpg

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.functions import read_applied
from daemon.db.migrator import read_ledger
from daemon.db.plan import schema_trouble
from daemon.db.pool import connect
from daemon.db.presence import ALIVE
from daemon.settings.databases import NamedDatabase
from daemon.tenants.server import APPLICATION
from daemon.tenants.urls import database_of, host_of

AT_ONCE = 16
SECONDS = 5.0
CLOSED = (asyncpg.InvalidCatalogNameError, asyncpg.ObjectNotInPrerequisiteStateError)
"""What a database says that is being moved."""
_SILENCE = 60.0
_DAEMONS = f"select d.pid from memoryd.daemons d where {ALIVE} and d.host = $2 order by d.seen_at desc"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Tenant:
    """One line of the list, and what its database says."""

    name: str
    host: str
    database: str
    reachable: bool = False
    error: str | None = None
    schema_version: int | None = None
    up_to_date: bool | None = None
    trouble: str | None = None
    bytes: int | None = None


async def look(databases: Iterable[NamedDatabase], *, seconds: float = SECONDS) -> list[Tenant]:
    """All of them, in their order; each is given this many seconds."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(named: NamedDatabase) -> Tenant:
        async with room:
            return await _look_at(named, seconds)

    return list(await asyncio.gather(*(one(each) for each in databases)))


async def _look_at(named: NamedDatabase, seconds: float) -> Tenant:
    host, database = host_of(named.url), database_of(named.url)
    try:
        async with asyncio.timeout(seconds):
            # What works behind a transaction pooler works everywhere.
            connection = await connect(named.url, pooled=True, timeout=seconds)
            try:
                ledger = await read_ledger(connection)
                trouble = schema_trouble(ledger, await read_applied(connection))
                size = await connection.fetchval("select pg_database_size(current_database())")
            finally:
                connection.terminate()
    except TimeoutError:
        return Tenant(named.name, host, database, error=f"no answer within {seconds:g} s")
    except (*DATABASE_FAULTS, ValueError) as error:
        return Tenant(named.name, host, database, error=_said(named.name, error))
    version = max((one[0] for one in ledger), default=None)
    return Tenant(
        named.name,
        host,
        database,
        reachable=True,
        schema_version=version,
        up_to_date=trouble is None,
        trouble=trouble,
        bytes=size,
    )


def _said(name: str, error: BaseException) -> str:
    said = str(error.args[0]) if isinstance(error, asyncpg.PostgresError) and error.args else str(error)
    said = (said or type(error).__name__).partition("\n")[0]
    return (
        f"{said}; after a move that was cut off: memoryd tenant move {name} --undo"
        if isinstance(error, CLOSED)
        else said
    )


async def daemons_here(databases: Iterable[NamedDatabase]) -> list[int]:
    """Process ids of the daemons of this machine that work with the first of these that answers."""
    for named in databases:
        with suppress(*DATABASE_FAULTS, ValueError):
            async with asyncio.timeout(2.0):
                connection = await connect(named.url, pooled=True, application=APPLICATION)
                try:
                    rows = await connection.fetch(_DAEMONS, _SILENCE, socket.gethostname())
                finally:
                    connection.terminate()
                return [row["pid"] for row in rows if _runs(row["pid"])]
        return []
    return []


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
