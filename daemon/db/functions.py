"""Notes the objects that the files of migrations/functions/ made in a database, and drops those that they no longer make.

Afterwards the catalog tells what they made: what this transaction wrote and a file names in a `create`; and triggers, whose
names a loop may make. That is kept in memoryd.function_files, so that the next upgrade can drop what is gone from the files,
and nothing that a user made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import asyncpg

from daemon.db.migration_files import FunctionFile
from handlers.shared.ports import AnyConnection

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
READ_FILES = "select name, checksum, objects, applied_by from memoryd.function_files"
_WRITE_FILE = """
insert into memoryd.function_files (name, checksum, objects, applied_by)
values ($1, $2, $3, $4)
on conflict (name) do update
set checksum = excluded.checksum, objects = excluded.objects, applied_by = excluded.applied_by, applied_at = now()
"""
_DELETE_FILES = "delete from memoryd.function_files where name = any($1)"

# Rows of the catalog that this transaction wrote. Files are applied outside any savepoint, since what is made inside one has
# another transaction id. $1: names that a file creates, by which the catalog has indexes: upgrades lock tables meanwhile.
# $2: whether it also makes triggers of other names.
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
where p.polname = any($1) and p.xmin = pg_current_xact_id()::xid
order by object
"""


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """A row of memoryd.function_files."""

    checksum: str
    objects: tuple[str, ...]
    applied_by: str


async def read_applied(connection: AnyConnection) -> dict[str, AppliedFile]:
    """The files that the database has, by name; none where it has no such table."""
    if await connection.fetchval("select to_regclass('memoryd.function_files')") is None:
        return {}
    rows = await connection.fetch(READ_FILES)
    return {r["name"]: AppliedFile(r["checksum"], tuple(r["objects"]), r["applied_by"]) for r in rows}


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
        if (r["kind"], r["name"]) in created or (r["kind"] == "trigger" and file.hangs_on_tables)
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
