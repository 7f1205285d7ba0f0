"""Applying SQL files within the transaction of an upgrade: their variables, their errors, the locks, and what stops them.

Promise: functions, triggers, policies and views may change in any way; only what users built on them stops an upgrade.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as package_version

import asyncpg

from daemon.db.functions import (
    CREATE_FILES,
    AppliedFile,
    drop_gone,
    drop_objects,
    drop_policies,
    record,
)
from daemon.db.migration_files import FunctionFile
from daemon.db.plan import MigrationError, Upgrade

_VARIABLE = re.compile(r"(?<!:):(dimensions|vector_schema)\b")
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
IN_THE_WAY = (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
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
            if 'role "memoryd_' in str(error):
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
        """Notes what the error names; False where that is nothing new."""
        ours = {one for file in applied.values() for one in file.objects if one.startswith("function ")}
        before = (len(self.functions), self.attached)
        names: list[str] = []
        if isinstance(error, asyncpg.DependentObjectsStillExistError):
            users = re.findall(r"^(.+) depends on ", error.detail or "", re.MULTILINE)
            names = [user.removeprefix("function ") for user in users if user.startswith("function ")]
            self.attached |= any(user.startswith(("trigger ", "policy ", "view ")) for user in users)
        elif said := re.search(r"DROP FUNCTION (.+) first", error.hint or "") or re.search(
            r'function (?:name )?"?(.+?)"? is not unique', str(error)
        ):
            names = [said[1]]
        for name in (one.partition("(")[0] for one in names):
            qualified = name if "." in name else f"public.{name}"
            self.functions |= {one for one in ours if one.startswith(f"function {qualified}(")}
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
