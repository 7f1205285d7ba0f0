"""Brings a database's schema up to date: numbered files once each, files of functions again when one of them changed.

Promise: an upgrade is one transaction, so a kill leaves all of it or nothing, and ten daemons that start at once apply it once.
A numbered file changed after it was applied, or a schema newer than this code, stops with one sentence. Tables in use are
locked together, for less than half a second; where they cannot be locked at once, everything is undone and tried again.
Dimensions are fixed by the first migration, and checked at each later one and at each start of a daemon.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version as package_version

import asyncpg

from daemon.db.functions import (
    CREATE_FILES,
    AppliedFile,
    drop_functions,
    drop_gone,
    drop_policies,
    read_applied,
    record,
)
from daemon.db.migration_files import FunctionFile, MigrationFiles, load_files
from daemon.db.plan import MigrationError, Upgrade, plan, schema_trouble
from daemon.db.pool import FIND_VECTOR_SCHEMA, search_path
from handlers.shared.ports import AnyConnection

_VARIABLE = re.compile(r"(?<!:):(dimensions|vector_schema)\b")
OLDEST_POSTGRES = 160000
# Before there is a ledger, the catalog's own unique indexes let one migrate after the other.
_RACES_LOST = (
    asyncpg.UniqueViolationError,
    asyncpg.DuplicateObjectError,
    asyncpg.DuplicateSchemaError,
    asyncpg.DuplicateTableError,
)
_MAX_RACES = 20
# Unlike an advisory lock with a known key, no other role may take it. Transactions that only read the table go on.
_LOCK = "lock table memoryd.migrations in share row exclusive mode"

LOCK_MILLISECONDS = 250
"""How long an upgrade waits for the tables that it locks. Transactions that come meanwhile wait behind it, so it is short."""
PATIENCE_SECONDS = 120.0
"""How long it tries again, before it fails and names the transactions that it waited for."""
OPEN_TRANSACTIONS = "select pid, state, xact_start, query from pg_stat_activity order by xact_start"
_IN_THE_WAY = (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
_TABLES_IN_USE = """
select string_agg(c.oid::regclass::text, ', ' order by c.oid::regclass::text)
from pg_class c
where c.relkind = 'r' and c.relname <> 'migrations'
  and (c.relnamespace = 'memoryd'::regnamespace or c.oid in (
      select p.polrelid from pg_policy p join pg_roles r on r.oid = any(p.polroles) and r.rolname = 'memoryd_service'
      where p.polname = 'service'))
"""

_CREATE_LEDGER = """
create table if not exists memoryd.migrations (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
)
"""
READ_LEDGER = "select version, name, checksum from memoryd.migrations order by version"
_WRITE_LEDGER = "insert into memoryd.migrations (version, name, checksum) values ($1, $2, $3)"
READ_SETTING = "select value #>> '{}' from memoryd.settings where key = $1"
WRITE_SETTINGS = """
insert into memoryd.settings (key, value)
select key, value from unnest($1::text[], $2::jsonb[]) as s(key, value)
on conflict (key) do update
set value = excluded.value, updated_at = now()
where settings.value <> excluded.value
"""


class _CannotReplace(Exception):  # noqa: N818 - no error: the upgrade begins anew
    """A file gives a function another result than it had: what the file made before must be dropped first."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.file = file


async def migrate(
    connection: asyncpg.Connection,
    *,
    dimensions: int,
    embedder: str,
    dry_run: bool = False,
    files: MigrationFiles | None = None,
) -> Upgrade:
    """Brings the schema up to date; returns what was applied (with dry_run: what would be). Raises MigrationError.

    `connection` must not be in a transaction; behind a transaction pooler the lock is taken by the upgrade's own transaction.
    """
    files = load_files() if files is None else files
    if dry_run:
        return plan(files, await read_ledger(connection), await read_applied(connection))
    await _check_server(connection)
    until = time.monotonic() + PATIENCE_SECONDS
    dropped_first: set[str] = set()
    while True:
        try:
            done = await _upgrade(
                connection, files, dimensions=dimensions, embedder=embedder, drop_first=dropped_first
            )
        except _CannotReplace as found:
            dropped_first.add(found.file)
            continue
        except asyncpg.DependentObjectsStillExistError as error:
            raise MigrationError(
                f"Something uses what this version drops or changes: {error.detail}. Drop or change that first."
            ) from None
        except _IN_THE_WAY as error:
            if time.monotonic() > until:
                raise MigrationError(
                    f"Other transactions have been in the way for {PATIENCE_SECONDS:.0f} s ({error}). Nothing was "
                    f"changed. End what stands open, then try again: {OPEN_TRANSACTIONS}"
                ) from None
            await asyncio.sleep(random.uniform(0.1, 0.5))
            continue
        await check_dimensions(connection, dimensions)
        return done


async def _upgrade(
    connection: asyncpg.Connection,
    files: MigrationFiles,
    *,
    dimensions: int,
    embedder: str,
    drop_first: Collection[str],
) -> Upgrade:
    async with _locked_ledger(connection) as vector_schema:
        applied = await read_applied(connection)
        ledger = await read_ledger(connection)
        upgrade = plan(files, ledger, applied)
        if not upgrade:
            return upgrade
        run = _Run(connection, {"dimensions": str(dimensions), "vector_schema": f'"{vector_schema}"'})
        await connection.execute(f"set local search_path = {search_path(vector_schema)}")
        await connection.execute(f"set local lock_timeout = {LOCK_MILLISECONDS}")
        if ledger and (upgrade.schema or upgrade.carried_over):
            await _lock_tables(connection)
        if upgrade.carried_over:
            await run.script("The carry-over", files.carry_over)
            await connection.execute("delete from memoryd.migrations")
            await connection.executemany(
                _WRITE_LEDGER, [(m.version, m.name, m.checksum) for m in files.schema]
            )
        for migration in upgrade.schema:
            await run.script(f"Migration {migration}", migration.sql)
            await connection.execute(_WRITE_LEDGER, migration.version, migration.name, migration.checksum)
        dropped = await _apply_functions(run, files.functions, applied, upgrade, drop_first=drop_first)
        if not ledger:
            values = [json.dumps(dimensions), json.dumps(embedder)]
            await connection.execute(WRITE_SETTINGS, ["dimensions", "embedder"], values)
        return replace(upgrade, dropped=tuple(dropped))


async def _apply_functions(
    run: _Run,
    files: Sequence[FunctionFile],
    applied: dict[str, AppliedFile],
    upgrade: Upgrade,
    *,
    drop_first: Collection[str],
) -> list[str]:
    """All files of functions in order, but for those of tables that did not change; then drops what is gone."""
    await run.connection.execute(CREATE_FILES)
    changed = {file.name for file in upgrade.functions}
    made: list[str] = []
    locked = bool(upgrade.schema or upgrade.carried_over)
    for file in files:
        before = applied.get(file.name)
        if before is not None and file.hangs_on_tables and file.name not in changed:
            made += before.objects
            continue
        if before is not None and file.hangs_on_tables:
            if not locked:
                await _lock_tables(run.connection)
                locked = True
            await drop_policies(run.connection, before)
        try:
            if before is not None and file.name in drop_first:
                await drop_functions(run.connection, before)
            await run.script(f"functions/{file.name}.sql", file.sql)
        except asyncpg.InvalidFunctionDefinitionError as error:
            if before is None or file.name in drop_first:
                raise MigrationError(f"functions/{file.name}.sql failed: {error}") from error
            raise _CannotReplace(file.name) from None
        made += await record(run.connection, file, version=package_version("memoryd"))
    return await drop_gone(run.connection, applied, now=files, made=made)


async def _lock_tables(connection: asyncpg.Connection) -> None:
    """Locks every table of memoryd's at once, in one order, or fails after LOCK_MILLISECONDS."""
    names = await connection.fetchval(_TABLES_IN_USE)
    if names is None:
        return
    await connection.execute(f"set local statement_timeout = {LOCK_MILLISECONDS}")
    await connection.execute(f"lock table {names} in access exclusive mode")
    await connection.execute("set local statement_timeout = 0")


async def check_schema(connection: AnyConnection, *, dimensions: int) -> None:
    """Fails closed where the schema is missing, older, newer or of other dimensions. Raises MigrationError."""
    trouble = schema_trouble(await read_ledger(connection), await read_applied(connection))
    if trouble is not None:
        raise MigrationError(trouble)
    await check_dimensions(connection, dimensions)


async def check_dimensions(connection: AnyConnection, dimensions: int) -> None:
    """Raises MigrationError where the database was made for embeddings of other dimensions."""
    fixed = await connection.fetchval(READ_SETTING, "dimensions")
    if fixed is not None and int(fixed) != dimensions:
        raise MigrationError(
            f"This database has embeddings of {fixed} dimensions, the embedder gives {dimensions}. "
            "Set MEMORYD_EMBEDDER (and MEMORYD_EMBEDDING_DIMENSIONS) back, or use a new database."
        )


async def _check_server(connection: asyncpg.Connection) -> None:
    version = int(await connection.fetchval("select current_setting('server_version_num')"))
    if version < OLDEST_POSTGRES:
        raise MigrationError(
            f"Postgres {version // 10000} is too old: memoryd needs {OLDEST_POSTGRES // 10000} or newer."
        )


@asynccontextmanager
async def _locked_ledger(connection: asyncpg.Connection) -> AsyncIterator[str]:
    """A transaction in which no other process migrates; gives the schema that pgvector is in."""
    for _ in range(_MAX_RACES):
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute("create schema if not exists memoryd")
            await connection.execute(_CREATE_LEDGER)
            await connection.execute(_LOCK)
        except _RACES_LOST:
            # The process that was first has committed by now: the server made this one wait for it.
            await transaction.rollback()
            continue
        except asyncpg.InsufficientPrivilegeError as error:
            await transaction.rollback()
            async with connection.transaction():
                # Where that is missing too, it says so first.
                await _ensure_extension(connection)
                raise _lacking_rights("The schema memoryd", error) from None
        except BaseException:
            await transaction.rollback()
            raise
        break
    else:
        raise MigrationError("Another memoryd migrates this database again and again. Try again in a moment.")
    try:
        yield await _ensure_extension(connection)
    except BaseException:
        await transaction.rollback()
        raise
    await transaction.commit()


async def _ensure_extension(connection: asyncpg.Connection) -> str:
    schema: str | None = await connection.fetchval(FIND_VECTOR_SCHEMA)
    if schema is None:
        target = (
            "extensions" if await connection.fetchval("select to_regnamespace('extensions')") else "public"
        )
        try:
            async with connection.transaction():
                await connection.execute(f"create extension vector with schema {target}")
        except asyncpg.InsufficientPrivilegeError:
            role = await connection.fetchval("select current_user")
            raise MigrationError(
                f'The role "{role}" may not create extension vector. '
                f"Ask an administrator to run once, in this database: create extension vector with schema {target}"
            ) from None
        except (asyncpg.UndefinedFileError, asyncpg.FeatureNotSupportedError):
            raise MigrationError(
                "This Postgres has no pgvector. Install it (Debian: postgresql-18-pgvector; managed services have it "
                "ready), then run again."
            ) from None
        schema = target
    return schema


async def read_ledger(connection: AnyConnection) -> list[tuple[int, str, str]]:
    """(version, name, checksum) of the numbered files that the database has; none where there is no ledger."""
    if await connection.fetchval("select to_regclass('memoryd.migrations')") is None:
        return []
    return [(r["version"], r["name"], r["checksum"]) for r in await connection.fetch(READ_LEDGER)]


@dataclass(frozen=True, slots=True)
class _Run:
    """Files applied on one connection, with the values of their variables (`:name`, as psql has them)."""

    connection: asyncpg.Connection
    variables: dict[str, str]

    async def script(self, what: str, sql: str) -> None:
        try:
            await self.connection.execute(_VARIABLE.sub(lambda m: self.variables[m[1]], sql))
        except asyncpg.InsufficientPrivilegeError as error:
            raise _lacking_rights(what, error) from None
        except (*_IN_THE_WAY, asyncpg.InvalidFunctionDefinitionError):
            raise
        except asyncpg.PostgresError as error:
            raise MigrationError(f"{what} failed: {error}") from error


def _lacking_rights(what: str, error: asyncpg.PostgresError) -> MigrationError:
    return MigrationError(
        f"{what} needs rights that this role lacks ({error.args[0]}). "
        "memoryd's owner must be able to create schemas and, once, the roles memoryd_service, memoryd_user and "
        "memoryd_admin (or an administrator creates them: create role memoryd_service nologin; create role "
        "memoryd_user nologin; create role memoryd_admin nologin; grant memoryd_service to the owner)."
    )
