"""Brings a database's schema up to date: numbered files once each, files of functions again when one of them changed.

Promise: an upgrade is one transaction, so a kill leaves all of it or nothing, and ten daemons that start at once apply it once.
A numbered file changed after it was applied, or a schema newer than this code, stops with one sentence. Tables in use are
locked together, for a moment that benchmarks/load/upgrade.py measures; where they cannot be, everything is undone and tried
again.
The first migration notes the embedder and its dimensions; `memoryd reembed` changes them (plugins/reembed/).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Protocol

import asyncpg

from daemon.db.administrator import PART, MissingRights, describe_missing, read_missing_rights
from daemon.db.apply import (
    LOCK_MILLISECONDS,
    Conflicts,
    Patience,
    RestartUpgrade,
    Run,
    apply_functions,
    lacking_rights,
    lock_tables,
)
from daemon.db.catalog import record_made
from daemon.db.errors import IN_THE_WAY, MigrationError
from daemon.db.foreign import describe_obstacles, postgres_names, put_back, read_obstacles, set_aside, settle
from daemon.db.indexes import build_late_indexes
from daemon.db.migration_files import Migration, MigrationFiles, load_files
from daemon.db.plan import Upgrade, plan, read_applied, read_ledger, refuse_schema_of_others
from daemon.db.pool import FIND_VECTOR_SCHEMA, POSTGRES_NAMES, pin, quoted, search_path
from daemon.db.server import refuse_server, refuse_standby
from daemon.db.settings import NO_INSTRUCTIONS, WRITE_SETTINGS, Model, is_like, read_models, refuse_model
from daemon.plugins import service
from handlers.shared.ports import AnyConnection
from providers.ports import Instructions

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

# No function has lost the rights that everybody has to a new one; a user may have added one of their own.
_WITHOUT_RIGHTS = """
select bool_and(p.proacl is null) from pg_catalog.pg_proc p where p.pronamespace = pg_catalog.to_regnamespace('memoryd')
"""

VALIDATION_SECONDS = 7 * 86_400.0
"""How long one check may read old rows: as long as the table is. Without a number the connection's own timeout would end it."""
_NOT_VALIDATED = """
select conrelid::regclass::text, conname
from pg_constraint
where not convalidated and contype = 'c'
  and (connamespace = 'memoryd'::regnamespace
       or connamespace = 'public'::regnamespace and pg_get_constraintdef(oid) ~ 'memoryd\\.')
order by 1, 2
"""

_CREATE_LEDGER = """
create table if not exists memoryd.migrations (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
)
"""
_WRITE_LEDGER = "insert into memoryd.migrations (version, name, checksum) values ($1, $2, $3)"


class Adoption(Protocol):
    """The handling of an application's own tables with memoryd's names (plugins/move_in/adopt/)."""

    async def move_aside(self, connection: AnyConnection, files: MigrationFiles) -> None:
        """Before the schema is made."""

    async def take_in(self, connection: AnyConnection, *, dimensions: int) -> None:
        """After it was made."""


async def migrate(  # noqa: PLR0913 - what it is to do, one each
    connection: asyncpg.Connection,
    *,
    dimensions: int,
    embedder: str,
    instructions: Instructions = NO_INSTRUCTIONS,
    dry_run: bool = False,
    files: MigrationFiles | None = None,
    admin_roles: Sequence[str] = (),
    repair: bool = False,
    adoption: Adoption | None = None,
) -> Upgrade:
    """Brings the schema up to date; returns the applied changes (dry_run: the pending ones). Raises MigrationError.

    `repair`: makes roles, row-level security, functions, views, triggers, policies and rights again, whatever became of them,
    and moves aside what others have put beside them (daemon/db/foreign.py).
    `adoption`: what is done, in the transaction of the first migration, with what stands in its way.

    `connection` must not be in a transaction; behind a transaction pooler the lock is taken by the upgrade's own transaction.
    """
    files = load_files() if files is None else files
    await refuse_standby(connection)
    async with postgres_names(connection):
        await refuse_server(connection)
    if dry_run:
        ledger = await read_ledger(connection)
        if not ledger:
            await _check_clear(connection, files)
        upgrade = plan(files, ledger, await read_applied(connection))
        return replace(upgrade, left=_left_to_administrator(await read_missing_rights(connection)))
    lacking = await read_missing_rights(connection)
    if lacking.needed and not await read_ledger(connection):
        raise MigrationError(
            describe_missing(lacking, await connection.fetchval("select current_database()"))
        )
    conflicts, patience = Conflicts(), Patience()
    while True:
        try:
            done = await _upgrade(
                connection,
                files,
                model=Model(embedder, dimensions, instructions),
                conflicts=conflicts,
                repair=repair,
                adoption=adoption,
            )
        except RestartUpgrade:
            continue
        except asyncpg.DependentObjectsStillExistError as error:
            raise MigrationError(
                f"Something uses what this version drops or changes: {error.detail}. Drop or change that first."
            ) from None
        except IN_THE_WAY as error:
            await patience.wait(error)
            continue
        await _validate_checks(connection)
        await build_late_indexes(connection)
        await check_dimensions(connection, dimensions=dimensions, embedder=embedder)
        join = service("join_platform")
        left = () if join is None else await join(connection, admin_roles)
        return replace(done, left=left + _left_to_administrator(await read_missing_rights(connection)))


def _left_to_administrator(lacking: MissingRights) -> tuple[tuple[str, str], ...]:
    return tuple((PART, statement) for statement in lacking.statements)


async def _upgrade(
    connection: asyncpg.Connection,
    files: MigrationFiles,
    *,
    model: Model,
    conflicts: Conflicts,
    repair: bool,
    adoption: Adoption | None,
) -> Upgrade:
    async with _locked_ledger(connection) as vector_schema:
        async with postgres_names(connection):
            applied = await read_applied(connection)
            ledger = await read_ledger(connection)
        await _refuse_copy(connection, made=bool(applied), repair=repair)
        upgrade = plan(files, ledger, applied)
        if repair and ledger:
            upgrade = replace(upgrade, functions=files.functions)
        if not upgrade:
            return upgrade
        moved = await set_aside(connection)
        run = Run(connection, {"dimensions": str(model.dimensions), "vector_schema": quoted(vector_schema)})
        await pin(connection, search_path(vector_schema), lock_timeout=str(LOCK_MILLISECONDS))
        if not ledger:
            if adoption is not None:
                await adoption.move_aside(connection, files)
            await _check_clear(connection, files)
        locked = bool(ledger and (upgrade.schema or repair))
        if locked:
            await lock_tables(connection, all_tables=True)
        aside = await settle(connection, files, repair=repair, views=conflicts.views)
        for migration in upgrade.schema:
            await run.script(f"Migration {migration}", migration.sql)
            await connection.execute(_WRITE_LEDGER, migration.version, migration.name, migration.checksum)
        if repair and ledger:
            await _repair(run, files.schema)
        dropped = await apply_functions(
            run, files.functions, applied, upgrade, conflicts=conflicts, locked=locked, repair=repair
        )
        if not ledger:
            values = {
                "dimensions": model.dimensions,
                "embedder": model.embedder,
                "instructions": asdict(model.instructions),
            }
            await connection.execute(WRITE_SETTINGS, [*values], list(map(json.dumps, values.values())))
        if not ledger and adoption is not None:
            await adoption.take_in(connection, dimensions=model.dimensions)
        await record_made(
            connection, files.schema, await read_applied(connection), changes_tables=bool(upgrade.schema)
        )
        await put_back(connection, *moved)
        return replace(upgrade, dropped=tuple(dropped), aside=aside)


async def _refuse_copy(connection: asyncpg.Connection, *, made: bool, repair: bool) -> None:
    """`made`: whether memoryd has made its functions here."""
    if made and not repair and await connection.fetchval(_WITHOUT_RIGHTS):
        raise MigrationError(
            "This database is a copy without rights, as pg_dump --no-acl makes it: who may do what is not in it. "
            "Run: memoryd migrate --repair"
        )


async def _repair(run: Run, schema: Sequence[Migration]) -> None:
    """Repeats the repeatable parts of numbered files: roles, row-level security, rights to the schema."""
    for migration in schema:
        if migration.name == "roles":
            # Its first statement makes them where they are missing; after it come tables.
            await run.script("The roles", migration.sql[: migration.sql.index("\n$$;") + len("\n$$;")])
        elif migration.name == "row_security":
            await run.script(f"Migration {migration}", migration.sql)


async def _validate_checks(connection: asyncpg.Connection) -> None:
    """Checks the old rows of constraints that were added NOT VALID, while others read and write.

    What is left of it after a kill is done by the next upgrade. Raises MigrationError where a row breaks one.
    """
    for table, name in await connection.fetch(_NOT_VALIDATED):
        check = f"alter table {table} validate constraint {quoted(name)}"
        try:
            # However long the table is; alone in its transaction, as a statement that no pooler takes apart.
            async with connection.transaction():
                await pin(connection, "public")
                await connection.execute(check, timeout=VALIDATION_SECONDS)
        except asyncpg.CheckViolationError as error:
            raise MigrationError(
                f"The upgrade is done, but rows of {table} break the check {name}: {error.args[0]}. "
                "Mend them, then run: memoryd migrate"
            ) from None
        except (*IN_THE_WAY, TimeoutError) as error:
            raise MigrationError(
                f"The upgrade is done, but the check {name} of {table} could not read its old rows yet ({error}). "
                "Run again: memoryd migrate"
            ) from None


async def check_dimensions(connection: AnyConnection, *, dimensions: int, embedder: str) -> None:
    """Raises MigrationError where the database has, and had, embeddings of other dimensions only."""
    models = await read_models(connection)
    asked = Model(embedder, dimensions)
    if (
        models.used is not None
        and dimensions != models.used.dimensions
        and not any(is_like(asked, one, instructed=False) for one in models.former)
    ):
        refuse_model(asked, models.used)


async def _check_clear(connection: AnyConnection, files: MigrationFiles) -> None:
    """Raises MigrationError where an application has what the first migration would make."""
    if found := await read_obstacles(connection, files):
        raise MigrationError(describe_obstacles(found))


@asynccontextmanager
async def _locked_ledger(connection: asyncpg.Connection) -> AsyncIterator[str]:
    """A transaction in which no other process migrates; gives the schema that pgvector is in."""
    for _ in range(_MAX_RACES):
        transaction = connection.transaction(isolation="read_committed")
        await transaction.start()
        try:
            await pin(connection, POSTGRES_NAMES)
            await connection.execute("create schema if not exists memoryd")
            await refuse_schema_of_others(connection)
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
                raise lacking_rights("The schema memoryd", error) from None
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
        except asyncpg.InsufficientPrivilegeError as error:
            raise lacking_rights("The extension vector", error) from None
        except (asyncpg.UndefinedFileError, asyncpg.FeatureNotSupportedError):
            raise MigrationError(
                "This Postgres has no pgvector. Install it (Debian: postgresql-18-pgvector; managed services have it "
                "ready), then run again."
            ) from None
        schema = target
    return schema
