"""Reads the state of all tenants: whether they can be reached, their size, and their schema.

Promise: a database that does not answer costs at most its time limit, and few connections are open at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import asyncpg

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.plan import read_applied, read_ledger, schema_trouble
from daemon.db.pool import connect
from daemon.settings.databases import NamedDatabase
from plugins.tenants.urls import database_of, host_of

AT_ONCE = 16
SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Tenant:
    """One line of the list, with the state of its database."""

    name: str
    host: str
    database: str
    reachable: bool = False
    error: str | None = None
    schema_version: int | None = None
    up_to_date: bool | None = None
    trouble: str | None = None
    bytes: int | None = None


async def read_tenants(databases: Iterable[NamedDatabase], *, seconds: float = SECONDS) -> list[Tenant]:
    """All tenants, in their order; `seconds`: the time limit of each."""
    room = asyncio.Semaphore(AT_ONCE)

    async def read(named: NamedDatabase) -> Tenant:
        async with room:
            return await _read_tenant(named, seconds)

    return list(await asyncio.gather(*(read(named) for named in databases)))


async def _read_tenant(named: NamedDatabase, seconds: float) -> Tenant:
    host, database = host_of(named.url), database_of(named.url)
    try:
        async with asyncio.timeout(seconds):
            # Settings for a transaction pooler work everywhere.
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
        return Tenant(named.name, host, database, error=_reason(error))
    version = max((row[0] for row in ledger), default=None)
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


def _reason(error: BaseException) -> str:
    said = str(error.args[0]) if isinstance(error, asyncpg.PostgresError) and error.args else str(error)
    return (said or type(error).__name__).partition("\n")[0]
