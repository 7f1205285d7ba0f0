"""Objects of others in schema public, under names of Postgres' own or of memoryd's.

Under Postgres' own names: Postgres takes what fits best of all schemas in the search path, not the first:
`public.lower(varchar)` goes before its own `lower(text)`. Whoever may create functions there so has others run theirs, with
the others' rights. Within `postgres_names()` none of another role's is called.

Under memoryd's names: obstacles stand where the first migration would make its own. Later somebody may have pasted a design's
SQL (docs/from/): functions of the same names, views in place of memoryd's, policies and triggers on its tables. Nothing is
dropped: functions and views are moved into another schema, policies and triggers stay without effect. The names are read from
the SQL files, so no second list can be wrong.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache

import asyncpg

from daemon.db.catalog import changed_since, made_functions
from daemon.db.errors import MigrationError
from daemon.db.migration_files import MigrationFiles, load_files, tables_of
from daemon.db.pool import POSTGRES_NAMES, quoted
from handlers.shared.ports import AnyConnection

_BEFORE = "select pg_catalog.current_setting('search_path')"
_SET = "select pg_catalog.set_config('search_path', $1, true)"

# Of schema public and the one of pgvector, which statements of memoryd have in their path, what has a name of Postgres' own or
# of pgvector's. What belongs to a role with our rights is trusted, as what extensions bring does. That it is a member of one
# says nothing: the owner of an extension may add to it.
_LOOKALIKES = """
with vector as (
    select e.oid, e.extnamespace as schema from pg_extension e where e.extname = 'vector'
), of_extension as (
    select d.classid, d.objid, d.refobjid as extension
    from pg_depend d
    where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass
), found as (
    select 'routine' as kind, 'pg_proc'::regclass::oid as catalog, p.oid, p.proname as name, p.proowner as owner,
           p.pronamespace as schema
    from pg_proc p
    union all
    select 'operator', 'pg_operator'::regclass, o.oid, o.oprname, o.oprowner, o.oprnamespace from pg_operator o
)
select f.kind, f.oid, quote_ident(n.nspname) as schema, r.rolname as owner,
       case f.kind when 'routine' then f.oid::regprocedure::text else f.oid::regoperator::text end as name,
       pg_has_role(current_user, r.oid, 'usage') as movable
from found f
join pg_namespace n on n.oid = f.schema and (n.nspname = 'public' or n.oid = (select v.schema from vector v))
join pg_roles r on r.oid = f.owner
where not r.rolsuper and r.rolname <> current_user and not pg_has_role(r.oid, current_user, 'member')
  and exists (select from found b
              where b.kind = f.kind and b.name = f.name
                and (b.schema = 'pg_catalog'::regnamespace
                     or exists (select from of_extension e join vector v on v.oid = e.extension
                                where e.classid = b.catalog and e.objid = b.oid)))
order by 1, 5
"""
_MOVES = """
select format('alter %s %s set schema %s', m.kind, case m.kind when 'routine' then m.oid::regprocedure::text
                                                   else m.oid::regoperator::text end, $3::text) as statement
from unnest($1::text[], $2::oid[]) as m(kind, oid)
"""


@dataclass(frozen=True, slots=True)
class Lookalike:
    """An object of another role that a statement may take for Postgres' own."""

    kind: str
    oid: int
    schema: str
    owner: str
    name: str
    """With its schema and its types, as SQL has it."""
    movable: bool
    """Whether this role may move it."""


@asynccontextmanager
async def postgres_names(connection: AnyConnection) -> AsyncIterator[None]:
    """Within it names without a schema are Postgres' own, or of temporary tables. It is, or becomes, a transaction."""
    if not connection.is_in_transaction():
        async with connection.transaction(), postgres_names(connection):
            yield
        return
    before = await connection.fetchval(_BEFORE)
    await connection.execute(_SET, POSTGRES_NAMES)
    yield
    # After an error all is rolled back, this too.
    await connection.execute(_SET, before)


async def read_lookalikes(connection: AnyConnection) -> list[Lookalike]:
    """Objects of other roles that memoryd's statements would find before those of Postgres or pgvector."""
    async with postgres_names(connection):
        return [Lookalike(**row) for row in await connection.fetch(_LOOKALIKES)]


async def set_aside(connection: AnyConnection) -> tuple[str, list[Lookalike]]:
    """Moves what this role may move of it into a schema, until `put_back`. Returns both.

    Both are in one transaction, so no other session sees it moved.
    """
    found = [one for one in await read_lookalikes(connection) if one.movable]
    # Nobody else can have made a schema of this name before.
    aside = f"memoryd_aside_{secrets.token_hex(8)}"
    if found:
        await connection.execute(f"create schema {aside}")
        await _move(connection, found, aside)
    return aside, found


async def put_back(connection: AnyConnection, aside: str, moved: Sequence[Lookalike]) -> None:
    """Moves it to where it was."""
    if not moved:
        return
    for schema in sorted({one.schema for one in moved}):
        await _move(connection, [one for one in moved if one.schema == schema], schema)
    await connection.execute(f"drop schema {aside}")


async def _move(connection: AnyConnection, these: Sequence[Lookalike], schema: str) -> None:
    async with postgres_names(connection):
        rows = await connection.fetch(_MOVES, [one.kind for one in these], [one.oid for one in these], schema)
        await connection.execute("; ".join(row["statement"] for row in rows))


_RELATION = re.compile(r"^create (?:or replace )?(?:table|view) public\.(\w+)", re.MULTILINE)
_INDEX = re.compile(
    r"^create (?:unique )?index (\w+)\s+on public\.|^    constraint (\w+) (?:unique|primary)", re.MULTILINE
)
_FUNCTION = re.compile(r"^create (?:or replace )?function public\.(\"[^\"]+\"|\w+)\s*\(", re.MULTILINE)
# What an extension brought is its own. An index or a sequence moves with its table, so only those of other tables count.
_READ = """
select case c.relkind when 'r' then 'table' when 'p' then 'table' when 'v' then 'view' when 'm' then 'materialized view'
                      when 'f' then 'foreign table' when 'S' then 'sequence' when 'c' then 'type' else 'index' end as kind,
       c.relname as name, c.oid::regclass::text as identity, i.indrelid::regclass::text as belongs_to
from pg_class c
left join pg_index i on i.indexrelid = c.oid
left join pg_class t on t.oid = i.indrelid
where c.relnamespace = 'public'::regnamespace
  and (c.relname = any($1) or c.relname = any($2) and (t.relname <> all($1)) is not false)
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
union all
select 'function', p.proname, p.oid::regprocedure::text, null
from pg_proc p
where p.pronamespace = 'public'::regnamespace and p.proname = any($3)
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
order by 1 desc, 2, 3
"""
_MOVE = {"function": "routine"}
ASIDE = "memoryd_adopted"
"""Where `memoryd adopt` moves what stands in the way, too."""
# What files of functions made is noted with its arguments. $1: the names in the files; $2: what numbered files made;
# $3: the names that the last upgrade noted as made, for where the record of a file is lost.
_MADE_ONCE = re.compile(r"^create function (public\.\w+)\(([^)]*)\)", re.MULTILINE)
_OVERLOADS = """
with made as materialized (
    select substr(o.object, 10) as signature
    from memoryd.function_files f cross join unnest(f.objects) as o(object)
    where o.object like 'function public.%'
    union
    select unnest($2::text[])
), names as materialized (
    select (parse_ident(split_part(m.signature, '(', 1)))[2] as name, false as is_new from made m
    union
    select n.name, true from unnest($1::text[]) as n(name) where n.name <> all($3)
    except
    select (parse_ident(split_part(m.signature, '(', 1)))[2], true from made m
)
select p.proname as name, p.oid::regprocedure::text as identity, n.is_new, quote_ident(pg_get_userbyid(p.proowner)) as owner,
       pg_has_role(current_user, p.proowner, 'usage') as mine
from pg_proc p
join names n on n.name = p.proname
cross join (select coalesce((select e.extnamespace::regnamespace || '.' from pg_extension e
                             where e.extname = 'vector'), ' ') as prefix) v
-- As it is noted: with pgvector's types by their bare names, wherever pgvector is.
cross join lateral (
    select format('public.%I(%s)', p.proname, replace(
        (select string_agg(format_type(a.type, null), ', ' order by a.nth)
         from unnest(p.proargtypes) with ordinality as a(type, nth)), v.prefix, '')) as signature) c
where p.pronamespace = 'public'::regnamespace
  and not exists (select from made m where m.signature = c.signature)
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
order by 1, 2
"""
# By the names that the designs give them: other policies and triggers that somebody has added are intended.
_PASTED = """
select format('policy %I on %s', p.polname, p.polrelid::regclass) as thing,
       format('alter policy %I on %s to memoryd_service', p.polname, p.polrelid::regclass) as mend
from pg_policy p join pg_class c on c.oid = p.polrelid
where c.relnamespace = 'public'::regnamespace and c.relname = any($1) and p.polpermissive
  and p.polroles <> array['memoryd_service'::regrole::oid]
  and p.polname ~ ('^(Users can (read|insert|update|delete) their own (memory|sessions|logs)'
                   '|Admins can view all (memory|logs)|Service role can insert logs)$')
union all
select format('trigger %I on %s', t.tgname, t.tgrelid::regclass),
       format('alter table %s disable trigger %I', t.tgrelid::regclass, t.tgname)
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc f on f.oid = t.tgfoid
where c.relnamespace = 'public'::regnamespace and c.relname = any($1) and not t.tgisinternal and t.tgenabled <> 'D'
  and f.pronamespace <> 'memoryd'::regnamespace
  and (t.tgname = 'agent_memory_updated' or t.tgname ~ '^(update_.+|sk)_updated_at$')
order by 1
"""
# All of memoryd's have the rights of who reads them. 0.1.0 noted no definitions.
_WITH_OWNERS_RIGHTS = """
select c.relname::text as name
from memoryd.function_files f cross join unnest(f.objects) as o(object)
join pg_class c on c.oid = to_regclass(substr(o.object, 6))
where o.object like 'view public.%' and not coalesce(c.reloptions @> '{security_invoker=true}', false)
"""
_TAKEN = """
select exists (select from pg_proc p where p.pronamespace = to_regnamespace($1) and p.proname = any($2))
    or exists (select from pg_class c where c.relnamespace = to_regnamespace($1) and c.relname = any($2))
"""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One object of the application."""

    kind: str
    name: str
    identity: str
    """Its name as SQL has it, with its schema; of a function with its types."""
    belongs_to: str | None
    """Of an index: its table."""

    @property
    def shown(self) -> str:
        """Its name, without the schema that all of them are in."""
        return self.identity.replace("public.", "")


@dataclass(frozen=True, slots=True)
class Overload:
    """A function of a name of memoryd's in schema public that is not memoryd's."""

    name: str
    identity: str
    is_new: bool
    """Whether memoryd has no function of the name in this database yet: the files have one."""
    owner: str
    mine: bool
    """Whether the role that asks may move it."""

    @property
    def obstacle(self) -> Obstacle:
        """This object as an obstacle."""
        return Obstacle("function", self.name, self.identity, None)


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """A policy or a trigger of a design on a table of memoryd's."""

    thing: str
    mend: str
    """The statement after which it has no effect."""


async def read_overloads(connection: AnyConnection, files: MigrationFiles | None = None) -> list[Overload]:
    """Functions of others under public names of memoryd's, of this database's version or of the files'."""
    files = load_files() if files is None else files
    once = [
        f"{name}({', '.join(one.split(' ', 1)[1] for one in arguments.split(', '))})"
        for file in files.schema
        for name, arguments in _MADE_ONCE.findall(file.sql)
    ]
    async with postgres_names(connection):
        rows = await connection.fetch(_OVERLOADS, _names(files)[2], once, await made_functions(connection))
    return [Overload(**row) for row in rows]


async def read_pasted(connection: AnyConnection, files: MigrationFiles | None = None) -> list[ForeignObject]:
    """Policies and triggers of designs that have an effect."""
    tables = tables_of((load_files() if files is None else files).schema)
    async with postgres_names(connection):
        return [ForeignObject(**row) for row in await connection.fetch(_PASTED, tables)]


async def read_replaced_views(connection: AnyConnection) -> list[Obstacle]:
    """memoryd's views in schema public whose definition was changed."""
    before = await connection.fetchval("select current_setting('search_path')")
    changed = (re.fullmatch(r"view public\.(\S+) is changed", one) for one in await changed_since(connection))
    names = {one[1] for one in changed if one is not None} | {
        row["name"] for row in await connection.fetch(_WITH_OWNERS_RIGHTS)
    }
    await connection.execute("select set_config('search_path', $1, true)", before)
    return [Obstacle("view", name, f"public.{name}", None) for name in sorted(names)]


async def settle(
    connection: AnyConnection, files: MigrationFiles, *, repair: bool, views: bool
) -> tuple[str, ...]:
    """Before an upgrade: a repair moves overloads aside, and takes its effect from what was pasted; says what it did.

    `views`: whether it moves views that somebody has replaced aside, too. Raises MigrationError; without `repair` where a
    function has a name that this version adds, since the upgrade could replace it.
    """
    if await connection.fetchval("select to_regclass('memoryd.function_files') is null"):
        return ()
    overloads = await read_overloads(connection, files)
    if not repair:
        if new := [one for one in overloads if one.is_new]:
            raise MigrationError(
                f"{describe_overloads(new)} Nothing was changed. Run: memoryd migrate --repair"
            )
        return ()
    if theirs := [one for one in overloads if not one.mine]:
        raise MigrationError(
            f"{describe_overloads(theirs)} Nothing was changed. {advise_on_overloads(theirs)}"
        )
    found = [one.obstacle for one in overloads] + (await read_replaced_views(connection) if views else [])
    schema = await _free_schema(connection, [one.name for one in found])
    try:
        await move_aside(connection, found, schema)
    except asyncpg.InsufficientPrivilegeError as error:
        raise MigrationError(
            f"To move functions aside needs a schema {schema} in which this role may create ({error.args[0]}). "
            "Nothing was changed. An administrator makes it, for the role that runs memoryd migrate --repair"
        ) from None
    pasted = await read_pasted(connection, files)
    for one in pasted:
        await connection.execute(one.mend)
    return (
        *(f"moved {one.kind} {one.shown} into {schema}" for one in found),
        *(f"took its effect from {one.thing}: {one.mend}" for one in pasted),
    )


async def _free_schema(connection: AnyConnection, names: Sequence[str]) -> str:
    """The first that has nothing of these names: somebody may paste twice."""
    schema, nth = ASIDE, 1
    while await connection.fetchval(_TAKEN, schema, names):
        nth += 1
        schema = f"{ASIDE}_{nth}"
    return schema


def describe_overloads(found: Sequence[Overload]) -> str:
    """The sentence about them."""
    names = ", ".join(one.obstacle.shown for one in found)
    return (
        f"Not memoryd's, but named as its functions are, so that calls reach them or are ambiguous: {names}."
    )


def advise_on_overloads(found: Sequence[Overload]) -> str:
    """Advice on them."""
    theirs = [one for one in found if not one.mine]
    if not theirs:
        return f"memoryd migrate --repair moves them into schema {ASIDE}."
    owners = ", ".join(sorted({one.owner for one in theirs}))
    statements = "; ".join(move_statement(one.obstacle, ASIDE) for one in theirs)
    return f"Their owner ({owners}) or a superuser runs: create schema if not exists {ASIDE}; {statements}"


async def read_obstacles(connection: AnyConnection, files: MigrationFiles) -> list[Obstacle]:
    """The obstacles to a first migration of this database."""
    async with postgres_names(connection):
        return [Obstacle(**row) for row in await connection.fetch(_READ, *_names(files))]


def describe_obstacles(found: Sequence[Obstacle]) -> str:
    """The sentence for who wanted to migrate."""
    names = list(dict.fromkeys(one.name for one in found))
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"Schema public has objects of your application under names that memoryd needs: {shown}. Nothing was changed. "
        "See what could be moved aside, and which rows be taken in: memoryd adopt --dry-run"
    )


async def move_aside(connection: AnyConnection, found: Sequence[Obstacle], schema: str) -> None:
    """Moves all of it into the schema, which is made where it is missing."""
    if found:
        await connection.execute(f"create schema if not exists {quoted(schema)}")
    for one in found:
        await connection.execute(move_statement(one, schema))


def move_statement(one: Obstacle, schema: str) -> str:
    """The statement that moves it."""
    return f"alter {_MOVE.get(one.kind, one.kind)} {one.identity} set schema {quoted(schema)}"


@cache
def _names(files: MigrationFiles) -> tuple[list[str], list[str], list[str]]:
    """The names of tables and views, of indexes, and of functions."""
    texts = [*(one.sql for one in files.schema), *(one.sql for one in files.functions)]
    relations = [name for text in texts for name in _RELATION.findall(text)]
    indexes = [a or b for text in texts for a, b in _INDEX.findall(text)]
    functions = [name.strip('"') for text in texts for name in _FUNCTION.findall(text)]
    return relations, [*indexes, *(f"{name}_pkey" for name in relations)], functions
