"""Applies migrations/NNNN_name.sql: each once, each in one transaction, in order.

Promise: ten daemons starting at once apply each file once; a file changed after it was applied, or a schema newer than
this code, stops with one sentence. Dimensions are fixed by the first migration and checked ever after.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources

import asyncpg

from daemon.db.pool import FIND_VECTOR_SCHEMA, search_path
from handlers.shared.ports import AnyConnection

_NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_VARIABLE = re.compile(r"(?<!:):(dimensions|vector_schema)\b")
OLDEST_POSTGRES = 160000
# Before there is a ledger, the catalog's own unique indexes let one migrate after the other.
_RACES_LOST = (
    asyncpg.UniqueViolationError,
    asyncpg.DuplicateObjectError,
    asyncpg.DuplicateSchemaError,
    asyncpg.DuplicateTableError,
)
_MOST_RACES = 20
# Nobody else may lock it, unlike an advisory lock with a known key. Whoever only reads it goes on.
_LOCK = "lock table memoryd.migrations in share row exclusive mode"

_CREATE_LEDGER = """
create table if not exists memoryd.migrations (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
)
"""
_READ_LEDGER = "select version, name, checksum from memoryd.migrations order by version"
_WRITE_LEDGER = "insert into memoryd.migrations (version, name, checksum) values ($1, $2, $3)"
READ_SETTING = "select value #>> '{}' from memoryd.settings where key = $1"
WRITE_SETTINGS = """
insert into memoryd.settings (key, value)
select key, value from unnest($1::text[], $2::jsonb[]) as s(key, value)
on conflict (key) do update
set value = excluded.value, updated_at = now()
where settings.value <> excluded.value
"""


class MigrationError(Exception):
    """The schema cannot be brought, or is not, where this code needs it; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str
    checksum: str


def load_migrations() -> list[Migration]:
    """The files of package `migrations`, in order."""
    found = []
    for entry in resources.files("migrations").iterdir():
        match = _NAME.match(entry.name)
        if match:
            text = entry.read_text(encoding="utf-8")
            found.append(Migration(int(match[1]), match[2], text, hashlib.sha256(text.encode()).hexdigest()))
    return sorted(found, key=lambda m: m.version)


async def migrate(
    connection: asyncpg.Connection,
    *,
    dimensions: int,
    embedder: str,
    dry_run: bool = False,
    migrations: Sequence[Migration] | None = None,
) -> list[Migration]:
    """Brings the schema up to date; returns what was applied (with dry_run: what would be). Raises MigrationError.

    `connection` must not be in a transaction; behind a transaction pooler the lock is held by each file's transaction.
    """
    files = load_migrations() if migrations is None else list(migrations)
    if dry_run:
        return pending(files, await _ledger(connection))
    applied: list[Migration] = []
    await _check_server(connection)
    while True:
        async with _locked_ledger(connection) as schema:
            todo = pending(files, await _ledger(connection))
            if not todo:
                break
            await _apply(connection, todo[0], schema=schema, dimensions=dimensions)
            if not applied and todo[0].version == files[0].version:
                await connection.execute(
                    WRITE_SETTINGS, ["dimensions", "embedder"], [json.dumps(dimensions), json.dumps(embedder)]
                )
            applied.append(todo[0])
    await check_dimensions(connection, dimensions)
    return applied


def pending(files: Sequence[Migration], ledger: Sequence[tuple[int, str, str]]) -> list[Migration]:
    """Files that the database does not have yet. Raises MigrationError where the two do not agree."""
    known = {m.version: m for m in files}
    for version, name, checksum in ledger:
        file = known.get(version)
        if file is None:
            raise MigrationError(
                f"The database's schema is newer than this memoryd: it has migration {version:04d}_{name}, "
                f"this code ends at {max(known, default=0):04d}. Upgrade memoryd."
            )
        if file.checksum != checksum:
            raise MigrationError(
                f"Migration {version:04d}_{name}.sql was changed after it was applied. "
                "Restore the file, and put the change into a new migration."
            )
    have = {version for version, _, _ in ledger}
    return [m for m in files if m.version not in have]


async def check_schema(connection: AnyConnection, *, dimensions: int) -> None:
    """Fails closed where the schema is missing, older, newer or of other dimensions. Raises MigrationError."""
    todo = pending(load_migrations(), await _ledger(connection))
    if todo:
        raise MigrationError(
            f"The database lacks migration {todo[0].version:04d}_{todo[0].name}. Run: memoryd migrate"
        )
    await check_dimensions(connection, dimensions)


async def check_dimensions(connection: AnyConnection, dimensions: int) -> None:
    """Raises MigrationError where the database was made for embeddings of other dimensions."""
    fixed = await connection.fetchval(READ_SETTING, "dimensions")
    if fixed is not None and int(fixed) != dimensions:
        raise MigrationError(
            f"This database holds embeddings of {fixed} dimensions, the embedder gives {dimensions}. "
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
    """A transaction in which nobody else migrates; gives the schema that pgvector is in."""
    for _ in range(_MOST_RACES):
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute("create schema if not exists memoryd")
            await connection.execute(_CREATE_LEDGER)
            await connection.execute(_LOCK)
        except _RACES_LOST:
            # Whoever was first has committed by now: the server made this one wait for it.
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


async def _ledger(connection: AnyConnection) -> list[tuple[int, str, str]]:
    if await connection.fetchval("select to_regclass('memoryd.migrations')") is None:
        return []
    return [(r["version"], r["name"], r["checksum"]) for r in await connection.fetch(_READ_LEDGER)]


async def _apply(
    connection: asyncpg.Connection, migration: Migration, *, schema: str, dimensions: int
) -> None:
    values = {"dimensions": str(dimensions), "vector_schema": f'"{schema}"'}
    await connection.execute(f"set local search_path = {search_path(schema)}")
    try:
        await connection.execute(_VARIABLE.sub(lambda m: values[m[1]], migration.sql))
    except asyncpg.InsufficientPrivilegeError as error:
        raise _lacking_rights(f"Migration {migration.version:04d}_{migration.name}", error) from None
    except asyncpg.PostgresError as error:
        raise MigrationError(f"Migration {migration.version:04d}_{migration.name} failed: {error}") from error
    await connection.execute(_WRITE_LEDGER, migration.version, migration.name, migration.checksum)


def _lacking_rights(what: str, error: asyncpg.PostgresError) -> MigrationError:
    return MigrationError(
        f"{what} needs rights that this role lacks ({error.args[0]}). "
        "memoryd's owner must be able to create schemas and, once, the roles memoryd_service, memoryd_user and "
        "memoryd_admin (or an administrator creates them: create role memoryd_service nologin; create role "
        "memoryd_user nologin; create role memoryd_admin nologin; grant memoryd_service to the owner)."
    )
