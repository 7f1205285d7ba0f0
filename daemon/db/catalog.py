"""The objects of a database: tables, columns, constraints, indexes, views, functions, triggers, policies and rights.

Promise: two databases with the same catalog differ in their rows only, whoever owns them. An upgrade notes what memoryd made,
so that what somebody changed since is found, and nothing that is the user's own counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon.db.migration_files import AppliedFile, Migration, tables_of
from handlers.shared.ports import AnyConnection

# The kind and name of each thing, what it belongs to, and its definition, without the brackets that a dump adds. `not null` is
# among the columns: Postgres 18 gives such a constraint a name of its own. The owner has all rights, and Postgres 17 has one
# more than 16.
_CATALOG = r"""
with relations as materialized (
    select c.*, format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('public', 'memoryd') and c.relkind in ('r', 'v', 'i', 'S', 'c')
      and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
), functions as materialized (
    select p.*,
           format('function %I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) as thing
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('public', 'memoryd') and p.prokind in ('f', 'p')
      and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
), columns as materialized (
    select r.name as of, r.relowner, format('column %s.%I', r.name, a.attname) as thing, a.attacl,
           format('%s %s %s %s', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated,
                  pg_get_expr(d.adbin, d.adrelid, true)) as definition
    from relations r
    join pg_attribute a on a.attrelid = r.oid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where r.relkind in ('r', 'c') and a.attnum > 0 and not a.attisdropped
), acls as (
    select format('%s %s', case r.relkind when 'r' then 'table' when 'v' then 'view' else 'sequence' end, r.name) as thing,
           r.name as of, r.relowner as owner,
           coalesce(r.relacl, acldefault(case r.relkind when 'S' then 's'::"char" else 'r'::"char" end, r.relowner)) as acl
    from relations r where r.relkind in ('r', 'v', 'S')
    union all
    select f.thing, f.oid::text, f.proowner, coalesce(f.proacl, acldefault('f', f.proowner)) from functions f
    union all
    select c.thing, c.of, c.relowner, c.attacl from columns c where c.attacl is not null
)
select format('rights of %s on %s', g.who, a.thing) as name, a.of, g.rights as definition
from acls a
cross join lateral (
    select case x.grantee when 0 then 'public' else x.grantee::regrole::text end as who,
           string_agg(x.privilege_type || case when x.is_grantable then '*' else '' end, ' '
                      order by x.privilege_type) as rights
    from aclexplode(a.acl) x where x.grantee <> a.owner and x.privilege_type <> 'MAINTAIN'
    group by x.grantee) g
union all
select format('table %s', r.name), r.name, ''
from relations r where r.relkind = 'r'
union all
select format('row-level-security on %s', r.name), r.name, format('%s %s', r.relrowsecurity, r.relforcerowsecurity)
from relations r where r.relkind = 'r'
union all
select c.thing, c.of, c.definition from columns c
union all
select format('index %s', r.name), i.indrelid::regclass::text, pg_get_indexdef(r.oid)
from relations r join pg_index i on i.indexrelid = r.oid where r.relkind = 'i'
union all
-- A dump names columns that have no name of their own.
select format('view %s', r.name), r.name,
       format('%s %s', r.reloptions, regexp_replace(pg_get_viewdef(r.oid, true), ' AS \w+', '', 'g'))
from relations r where r.relkind = 'v'
union all
select format('constraint %I on %s', c.conname, r.name), r.name, replace(pg_get_constraintdef(c.oid, true), ' NOT VALID', '')
from relations r join pg_constraint c on c.conrelid = r.oid where c.contype <> 'n'
union all
select format('trigger %I on %s', t.tgname, r.name), r.name, format('%s %s', t.tgenabled, pg_get_triggerdef(t.oid, true))
from relations r join pg_trigger t on t.tgrelid = r.oid where not t.tgisinternal
union all
select format('policy %I on %s', p.polname, r.name), r.name,
       format('%s %s %s %s %s', p.polcmd, p.polpermissive,
              (select string_agg(o.rolname, ',' order by o.rolname) from pg_roles o where o.oid = any(p.polroles)),
              pg_get_expr(p.polqual, p.polrelid, true), pg_get_expr(p.polwithcheck, p.polrelid, true))
from relations r join pg_policy p on p.polrelid = r.oid
union all
select f.thing, f.oid::text, pg_get_functiondef(f.oid) from functions f
order by 1
"""

# What the last upgrade made, each with a hash of its definition.
_RECORD = """
insert into memoryd.settings (key, value) values ('made_objects', $1::jsonb)
on conflict (key) do update set value = excluded.value, updated_at = now()
"""
_NOTED = "select value from memoryd.settings where key = 'made_objects'"
_FUNCTION = re.compile(r'function public\.("[^"]+"|\w+)\(')
# With their arguments: others may have functions of the same names.
_FUNCTIONS = "select to_regprocedure(f.signature)::oid::text as oid from unnest($1::text[]) as f(signature)"

OUR_ROLES = ("memoryd_service", "memoryd_user", "memoryd_admin", "public")
OF_TABLES = ("table ", "column ", "constraint ", "index ")
"""The kinds of things that only a numbered file makes."""
POSTGRES = "postgres"
GENERATIONS = frozenset({"memoryd.entries", "memoryd.spare_entries"})
"""They change their names with each other (memoryd reembed), and daemons make indexes for them."""
_INDEX = re.compile(r"^create (?:unique )?index (\w+)", re.MULTILINE)
_RIGHTS = re.compile(r"rights of (\S+) on (.+)")


@dataclass(frozen=True, slots=True)
class CatalogObject:
    """An object of a database. `of`: the table that it belongs to; for a function its number in this database."""

    name: str
    of: str
    hash: str


async def read_catalog(connection: AnyConnection) -> list[CatalogObject]:
    """The objects of the database. Needs a transaction, and sets its search path to pg_catalog."""
    await connection.execute("set local search_path = pg_catalog")
    return [
        CatalogObject(name, of, hashlib.sha256(str(definition).encode()).hexdigest()[:16])
        for name, of, definition in await connection.fetch(_CATALOG)
    ]


async def record_made(
    connection: AnyConnection,
    schema: Sequence[Migration],
    applied: Mapping[str, AppliedFile],
    *,
    changes_tables: bool,
) -> None:
    """Notes the current state of memoryd's own objects in this database.

    Unless the upgrade `changes_tables`, what was noted of tables stays: that somebody changed them is still to be told.
    """
    objects = {one for file in applied.values() for one in file.objects}
    signatures = [one.removeprefix("function ") for one in objects if one.startswith("function ")]
    functions = {row["oid"] for row in await connection.fetch(_FUNCTIONS, signatures)}
    made = {
        one.name: one.hash
        for one in _ours(await read_catalog(connection), schema, objects=objects, functions=functions)
    }
    made[POSTGRES] = str(connection.get_server_version().major)
    noted = await _read_noted(connection)
    if not changes_tables and noted.get(POSTGRES) == made[POSTGRES]:
        made |= {name: hash_ for name, hash_ in noted.items() if name.startswith(OF_TABLES)}
    await connection.execute(_RECORD, json.dumps(made))


async def made_functions(connection: AnyConnection) -> list[str]:
    """The names of the functions of schema public that the last upgrade noted; none of a version that noted nothing."""
    found = (_FUNCTION.match(name) for name in await _read_noted(connection))
    return sorted({one[1].strip('"') for one in found if one is not None})


async def changed_since(connection: AnyConnection) -> list[str]:
    """Noted objects that are missing, or have another definition or more rights now. In a transaction, as read_catalog()."""
    noted = await _read_noted(connection)
    # Another version writes definitions in other words.
    if noted.pop(POSTGRES, None) != str(connection.get_server_version().major):
        return []
    now = {one.name: one.hash for one in await read_catalog(connection)}
    lost = [
        f"{name} is {'changed' if name in now else 'missing'}"
        for name in sorted(noted)
        if now.get(name) != noted[name]
    ]
    # What a user adds is the user's, but not more rights for those that memoryd has given theirs.
    named = [_RIGHTS.fullmatch(name) for name in sorted(now.keys() - noted.keys())]
    added = [one[0] for one in named if one is not None and one[1] in OUR_ROLES and one[2] in noted]
    return lost + [f"{name} is new" for name in added]


async def _read_noted(connection: AnyConnection) -> dict[str, str]:
    noted = await connection.fetchval(_NOTED)
    return {} if noted is None else json.loads(noted)


def _ours(
    things: Sequence[CatalogObject], schema: Sequence[Migration], *, objects: set[str], functions: set[str]
) -> list[CatalogObject]:
    tables = {f"public.{name}" for name in tables_of(schema)}
    indexes = {name for migration in schema for name in _INDEX.findall(migration.sql)}

    def is_ours(one: CatalogObject) -> bool:
        named = _RIGHTS.fullmatch(one.name)
        if named is not None and named[1] not in OUR_ROLES:
            return False
        kind, _, name = (one.name if named is None else named[2]).partition(" ")
        match kind:
            case "function":
                return one.of in functions
            case "view" | "trigger" | "policy":
                return f"{kind} {name}" in objects
            case "index":
                return name.rpartition(".")[2] in indexes and one.of not in GENERATIONS
        if one.of in GENERATIONS:
            return kind == "table" and named is None
        return one.of in tables or one.of.startswith("memoryd.")

    return [one for one in things if is_ours(one)]
