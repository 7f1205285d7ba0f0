"""All tenants at a glance: which can be reached, how big they are, whether their schema is this memoryd's.

Promise: one that does not answer keeps nobody waiting for longer than its time limit, and few connections are open at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import asyncpg

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.functions import read_applied
from daemon.db.migrator import read_ledger
from daemon.db.plan import schema_trouble
from daemon.db.pool import connect
from daemon.settings.databases import NamedDatabase
from daemon.tenants.urls import database_of, host_of

AT_ONCE = 16
SECONDS = 5.0


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
        return Tenant(named.name, host, database, error=_said(error))
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


def _said(error: BaseException) -> str:
    said = str(error.args[0]) if isinstance(error, asyncpg.PostgresError) and error.args else str(error)
    return (said or type(error).__name__).partition("\n")[0]
