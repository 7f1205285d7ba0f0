"""Applying SQL files within the transaction of an upgrade: their variables, their errors, the locks, and what stops them.

Promise: functions, triggers, policies and views may change in any way; only what users built on them stops an upgrade. The
objects that each file made are noted in memoryd.function_files: what this transaction wrote and a file names in a `create`, and
triggers and policies, whose names a loop may make. So the next upgrade drops what is gone from the files, and nothing that a
user made.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as package_version

import asyncpg

from daemon.db.errors import IN_THE_WAY, MigrationError
from daemon.db.migration_files import AppliedFile, FunctionFile
from daemon.db.plan import Upgrade

_VARIABLE = re.compile(r"(?<!:):(dimensions|vector_schema)\b")
PATIENCE_SECONDS = 120.0
"""How long an upgrade tries again, before it fails and says how to find the transactions that it waited for."""
OPEN_TRANSACTIONS = "select pid, state, xact_start, query from pg_stat_activity order by xact_start"
LOCK_MILLISECONDS = 100
"""How long an upgrade waits for its table locks. It is short, since other sessions queue behind it."""
LOCK_GROWTH, MOST_LOCK_MILLISECONDS = 1.25, 900
"""Where statements take long, a short wait never sees the last of them end. Shorter than deadlock_timeout, after which the
server would end a statement of a client."""
LOCK_TRIES = 20
"""In one transaction. Then it is undone: what is replaced and not committed keeps others from changing it."""
_REPAIR = (
    "Nothing was changed. If somebody has put functions or views of their own beside memoryd's, run: "
    "memoryd migrate --repair"
)
# In the order in which readers lock, or each would wait for the other. recall() begins with these three tables: whoever has
# to wait there holds nothing else. Then views, and those above others before them: whoever reads a view locks it, then what is
# under it.
_TABLES_AND_VIEWS = """
select string_agg(format('%I.%I', n.nspname, c.relname), ', '
                  order by array_position(array['logins', 'memory_settings', 'settings']::name[], c.relname), c.relkind = 'r',
                           array_position(array['searchable', 'searchable_by_users']::name[], c.relname),
                           n.nspname, c.relname)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where (n.nspname = 'memoryd' and c.relname <> 'migrations'
       and (c.relkind = 'v'
            or c.relkind = 'r' and ($1 or c.relname in ('logins', 'dead_letters', 'embeddings'))))
   or (n.nspname = 'public' and c.relkind = 'v' and c.relname in ('shared_memory', 'conversation_history'))
   or c.oid in (
      select p.polrelid from pg_policy p join pg_roles r on r.oid = any(p.polroles) and r.rolname = 'memoryd_service'
      where p.polname = 'service')
"""

_CREATED = re.compile(
    r"^ *create (?:or replace )?(function|view|trigger|policy) (?:\w+\.)?\"?([\w-]+)", re.MULTILINE
)
_POLICY = re.compile(r"^create policy (\w+) on ([\w.]+)", re.MULTILINE)

CREATE_FILES = """
create table if not exists memoryd.function_files (
    name text primary key,
    checksum text not null,
    objects text[] not null,
    applied_by text not null,
    applied_at timestamptz not null default now()
);
comment on table memoryd.function_files is
    'The files of migrations/functions/ that this database has, and what each of them made.';
"""
_WRITE_FILE = """
insert into memoryd.function_files (name, checksum, objects, applied_by)
values ($1, $2, $3, $4)
on conflict (name) do update
set checksum = excluded.checksum, objects = excluded.objects, applied_by = excluded.applied_by, applied_at = now()
"""
_DELETE_FILES = "delete from memoryd.function_files where name = any($1)"

# Rows of the catalog that this transaction wrote. Files are applied outside any savepoint, since what is made inside one has
# another transaction id. $1: names that a file creates, by which the catalog has indexes: upgrades lock tables meanwhile.
# $2: whether it also makes triggers and policies of other names.
_MADE = """
select 'function' as kind, p.proname::text as name,
       format('function %I.%I(%s)', n.nspname, p.proname,
              (select string_agg(format_type(a.type, null), ', ' order by a.nth)
               from unnest(p.proargtypes) with ordinality as a(type, nth))) as object
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where p.proname = any($1) and n.nspname in ('memoryd', 'public') and p.xmin = pg_current_xact_id()::xid
union all
select 'view', c.relname, format('view %I.%I', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relname = any($1) and c.relkind = 'v' and n.nspname in ('memoryd', 'public') and c.xmin = pg_current_xact_id()::xid
union all
select 'trigger', t.tgname, format('trigger %I on %I.%I', t.tgname, n.nspname, c.relname)
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
join pg_proc p on p.oid = t.tgfoid and p.pronamespace = 'memoryd'::regnamespace
where ($2 or t.tgname = any($1)) and not t.tgisinternal and t.xmin = pg_current_xact_id()::xid
union all
select 'policy', p.polname, format('policy %I on %I.%I', p.polname, n.nspname, c.relname)
from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
where ($2 or p.polname = any($1)) and p.xmin = pg_current_xact_id()::xid
order by object
"""


_OBJECT = re.compile(r"^\w+ (?:public\.)?\"?([\w.-]+).*", re.DOTALL)
"""Of an object as it is noted, its name as Postgres' messages have it."""


class Patience:
    """Pauses between attempts, while other transactions are in the way."""

    def __init__(self) -> None:
        self._until = time.monotonic() + PATIENCE_SECONDS
        self._tries = 0

    async def wait(self, error: Exception) -> None:
        """Raises MigrationError after PATIENCE_SECONDS."""
        if time.monotonic() > self._until:
            raise MigrationError(
                f"Other transactions have been in the way for {PATIENCE_SECONDS:.0f} s ({error}). Nothing was changed. "
                f"End what stands open, then try again: {OPEN_TRANSACTIONS}"
            ) from None
        self._tries += 1
        await asyncio.sleep(random.uniform(0.5, 1) * min(self._tries, 4))


class RestartUpgrade(Exception):
    """The upgrade was undone, and begins again without what stopped it."""


@dataclass(frozen=True, slots=True)
class Run:
    """Files applied on one connection, with the values of their variables (`:name`, as psql has them)."""

    connection: asyncpg.Connection
    variables: dict[str, str]

    async def script(self, what: str, sql: str) -> None:
        try:
            await self.connection.execute(_VARIABLE.sub(lambda m: self.variables[m[1]], sql))
        except asyncpg.InsufficientPrivilegeError as error:
            raise lacking_rights(what, error) from None
        except (
            *IN_THE_WAY,
            asyncpg.AmbiguousFunctionError,
            asyncpg.DependentObjectsStillExistError,
            asyncpg.InvalidFunctionDefinitionError,
            asyncpg.InvalidTableDefinitionError,
        ):
            raise
        except asyncpg.UndefinedObjectError as error:
            # Roles are the whole server's: another database has just made this one, and this session does not see it yet.
            if re.search(r"\bmemoryd_(service|user|admin)\b", str(error)):
                raise RestartUpgrade from None
            raise MigrationError(f"{what} failed: {error}") from error
        except asyncpg.PostgresError as error:
            raise MigrationError(f"{what} failed: {error}") from error


@dataclass(slots=True)
class Conflicts:
    """The objects that stopped an upgrade: the next attempt drops them first."""

    functions: set[str] = field(default_factory=set)
    """Functions whose result or arguments were others, and those that use them; as `function schema.name(types)`."""
    attached: bool = False
    """Whether triggers, policies or views of ours use them: then these are dropped and made again too."""
    views: bool = False
    """Whether somebody has put views of other columns in place of ours: then they are moved aside first."""

    def add(self, error: asyncpg.PostgresError, applied: Mapping[str, AppliedFile]) -> bool:
        """Notes what of ours the error names, in whatever language the server tells it; False where that is nothing new."""
        before = (len(self.functions), self.attached)
        said = re.findall(r"[\w.-]*[\w-]", f"{error} {error.detail} {error.hint}")
        names = {word.removeprefix("public.") for word in said}
        ours = (one for file in applied.values() for one in file.objects)
        named = [one for one in ours if _OBJECT.sub(r"\1", one) in names]
        self.functions |= {one for one in named if one.startswith("function ")}
        if isinstance(error, asyncpg.DependentObjectsStillExistError):
            self.attached |= any(not one.startswith("function ") for one in named)
        return before != (len(self.functions), self.attached)


async def apply_functions(
    run: Run,
    files: Sequence[FunctionFile],
    applied: dict[str, AppliedFile],
    upgrade: Upgrade,
    *,
    conflicts: Conflicts,
    locked: bool,
    repair: bool = False,
) -> list[str]:
    """All files of functions in order; those of tables from the first that changed on. Then drops what is gone."""
    # Before the files, which take the rights to every table of schema memoryd from clients.
    await run.connection.execute(CREATE_FILES)
    changed = {file.name for file in upgrade.functions}
    made: list[str] = []
    version = package_version("memoryd")  # once: it parses a file
    if conflicts.functions:
        locked = await _drop_conflicts(run.connection, applied, conflicts, locked=locked)
    # A numbered file may have dropped what stands in them, and with a view its rights.
    again = conflicts.attached or bool(upgrade.schema)
    for file in files:
        before = applied.get(file.name)
        if file.hangs_on_tables:
            # What is made in one of them is made of what those above declare.
            again = again or before is None or file.name in changed
            if before is not None and not again:
                made += before.objects
                continue
            # A new database has nobody to wait for.
            if applied and not locked:
                await lock_tables(run.connection, all_tables=False)
                locked = True
            await drop_policies(run.connection, file, before)
        try:
            await run.script(f"functions/{file.name}.sql", file.sql)
        except (asyncpg.InvalidFunctionDefinitionError, asyncpg.AmbiguousFunctionError) as error:
            if conflicts.add(error, applied):
                raise RestartUpgrade from None
            raise MigrationError(f"functions/{file.name}.sql failed: {error}. {_REPAIR}") from error
        except asyncpg.InvalidTableDefinitionError as error:
            if repair and not conflicts.views:
                conflicts.views = True
                raise RestartUpgrade from None
            raise MigrationError(f"functions/{file.name}.sql failed: {error}. {_REPAIR}") from error
        # Of each file by itself: the rights to functions, in the last file, are written into all of them.
        made += await record(run.connection, file, version=version)
    return await drop_gone(run.connection, applied, now=files, made=made)


async def _drop_conflicts(
    connection: asyncpg.Connection, applied: Mapping[str, AppliedFile], conflicts: Conflicts, *, locked: bool
) -> bool:
    """Drops what stopped the upgrade; returns whether the tables are locked now."""
    ours = [one for file in applied.values() for one in file.objects]
    attached = [one for one in ours if one.startswith(("policy ", "trigger ", "view memoryd."))]
    if conflicts.attached and not locked:
        await lock_tables(connection, all_tables=True)
    try:
        await drop_objects(
            connection, [*(attached if conflicts.attached else []), *sorted(conflicts.functions)]
        )
    except asyncpg.DependentObjectsStillExistError as error:
        if conflicts.add(error, applied):
            raise RestartUpgrade from None
        raise
    return locked or conflicts.attached


async def lock_tables(connection: asyncpg.Connection, *, all_tables: bool) -> None:
    """Locks tables and views at once, in one order. Raises one of IN_THE_WAY where it cannot after some tries.

    Without `all_tables` those that have triggers or policies of functions/tables/. A try that fails gives its locks back, and
    who has waited behind it goes on: so the tries are short, and what the upgrade has done until here is not done again.
    """
    names = await connection.fetchval(_TABLES_AND_VIEWS, all_tables)
    if names is None:
        return
    before = await connection.fetchval("select current_setting('statement_timeout')")
    patience = float(LOCK_MILLISECONDS)
    for tries in range(1, LOCK_TRIES + 1):
        await connection.execute("savepoint one_try")
        try:
            await connection.execute(
                f"set local lock_timeout = 0; set local statement_timeout = {patience:.0f}"
            )
            await connection.execute(f"lock table {names} in access exclusive mode")
        except IN_THE_WAY:
            # No savepoint stays: what is made within one has another transaction id, and counts as not made.
            await connection.execute("rollback to savepoint one_try; release savepoint one_try")
            if tries == LOCK_TRIES:
                raise
            patience = min(patience * LOCK_GROWTH, MOST_LOCK_MILLISECONDS)
            await asyncio.sleep(random.uniform(0.1, 0.5))
        else:
            await connection.execute(
                f"release savepoint one_try; set local statement_timeout = '{before}'; "
                f"set local lock_timeout = {LOCK_MILLISECONDS}"
            )
            return


def lacking_rights(what: str, error: asyncpg.PostgresError) -> MigrationError:
    """Of a right that the look before had not found missing (daemon/db/administrator.py)."""
    return MigrationError(
        f"{what} needs rights that this role lacks ({error.args[0]}). "
        "memoryd doctor says what an administrator runs, if it is that; else connect as the tables' owner."
    )


async def drop_policies(
    connection: asyncpg.Connection, file: FunctionFile, before: AppliedFile | None
) -> None:
    """Drops the policies of a file that is about to be applied, recorded or not: a policy cannot be replaced."""
    policies = {f"policy {name} on {table}" for name, table in _POLICY.findall(file.sql)}
    if before is not None:
        policies |= {one for one in before.objects if one.startswith("policy ")}
    if policies:
        await connection.execute("; ".join(_drop(one) for one in sorted(policies)))


async def drop_objects(connection: asyncpg.Connection, objects: Iterable[str]) -> None:
    """Drops objects that may use one another. Raises DependentObjectsStillExistError where others use them."""
    left = list(objects)
    while left:
        in_use = [one for one in left if not await _dropped(connection, one)]
        if len(in_use) == len(left):
            # Nothing can be done any more: once again, for the error.
            await connection.execute(_drop(in_use[0]))
        left = in_use


async def _dropped(connection: asyncpg.Connection, one: str) -> bool:
    """Drops it; returns whether that succeeded. No savepoint stays: objects made within one have another transaction id."""
    await connection.execute("savepoint one_drop")
    try:
        await connection.execute(_drop(one))
    except asyncpg.DependentObjectsStillExistError:
        await connection.execute("rollback to savepoint one_drop; release savepoint one_drop")
        return False
    await connection.execute("release savepoint one_drop")
    return True


def _drop(one: str) -> str:
    return f"drop {one.replace(' ', ' if exists ', 1)}"


async def record(connection: asyncpg.Connection, file: FunctionFile, *, version: str) -> list[str]:
    """Notes that this transaction has just applied the file; returns the objects that it made."""
    created = set(_CREATED.findall(file.sql))
    rows = await connection.fetch(_MADE, sorted({name for _, name in created}), file.hangs_on_tables)
    made = [
        r["object"]
        for r in rows
        if (r["kind"], r["name"]) in created or (file.hangs_on_tables and r["kind"] in {"trigger", "policy"})
    ]
    # What is not seen as made is dropped at the end of the upgrade, as gone from the files.
    missed = {name for kind, name in created - {(r["kind"], r["name"]) for r in rows} if kind == "function"}
    if missed:
        raise RuntimeError(f"functions/{file.name}.sql has made {sorted(missed)} within a savepoint")
    await connection.execute(_WRITE_FILE, file.name, file.checksum, made, version)
    return made


async def drop_gone(
    connection: asyncpg.Connection,
    before: dict[str, AppliedFile],
    *,
    now: Sequence[FunctionFile],
    made: Iterable[str],
) -> list[str]:
    """Drops what the files made before and no longer make; returns what that was. `made`: by the files applied now."""
    present = set(made)
    old = {one for file in before.values() for one in file.objects}
    gone = sorted(old - present)
    await drop_objects(connection, gone)
    await connection.execute(_DELETE_FILES, sorted(before.keys() - {file.name for file in now}))
    return gone
