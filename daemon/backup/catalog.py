"""What a database holds and what it is made of, in a form that can be compared with another one.

Promise: two databases with the same catalog differ in their rows only. Who owns them makes no difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from daemon.backup.archive import Contents, Role
from handlers.shared.ports import AnyConnection

LEFT_OUT = "memoryd.tokens"
"""The local embedder's tokens come with memoryd: they are loaded again."""

# Name and definition of each thing, without the brackets that a dump adds. `not null` is among the columns: Postgres 18 gives
# such a constraint a name of its own.
_CATALOG = r"""
with relations as materialized (
    select c.* from pg_class c
    where c.relnamespace = any(array['public', 'memoryd']::regnamespace[]) and c.relkind in ('r', 'v', 'i', 'S', 'c')
      and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
), functions as materialized (
    select p.* from pg_proc p
    where p.pronamespace = any(array['public', 'memoryd']::regnamespace[]) and p.prokind in ('f', 'p')
      and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
), acls as (
    select r.oid, r.relowner as owner,
           coalesce(r.relacl, acldefault(case r.relkind when 'S' then 's'::"char" else 'r'::"char" end, r.relowner)) as acl
    from relations r where r.relkind not in ('i', 'c')
    union all
    select f.oid, f.proowner, coalesce(f.proacl, acldefault('f', f.proowner)) from functions f
), rights as materialized (
    select a.oid, string_agg(g.says, ', ' order by g.says) as says
    from acls a
    cross join lateral (
        -- The owner has all rights, and Postgres 17 has one more than 16.
        select format('%s %s %s', case x.grantee when 0 then 'public' else x.grantee::regrole::text end, x.privilege_type,
                      x.is_grantable) as says
        from aclexplode(a.acl) x where x.grantee <> a.owner and x.privilege_type <> 'MAINTAIN') g
    group by a.oid
)
select format('relation %s', r.oid::regclass),
       format('%s %s%s %s %s %s', r.relkind, r.relrowsecurity, r.relforcerowsecurity, r.reloptions,
              obj_description(r.oid, 'pg_class'), g.says)
from relations r left join rights g using (oid)
union all
select format('column %s.%s', a.attrelid::regclass, a.attname),
       format('%s %s %s %s %s %s', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated,
              pg_get_expr(d.adbin, d.adrelid, true), col_description(a.attrelid, a.attnum),
              (select string_agg(x::text, ',' order by x::text) from unnest(a.attacl) x))
from relations r
join pg_attribute a on a.attrelid = r.oid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where r.relkind in ('r', 'v', 'c') and a.attnum > 0 and not a.attisdropped
union all
select format('index %s', r.oid::regclass), pg_get_indexdef(r.oid) from relations r where r.relkind = 'i'
union all
-- A dump names columns that have no name of their own.
select format('view %s', r.oid::regclass), regexp_replace(pg_get_viewdef(r.oid, true), ' AS \w+', '', 'g')
from relations r where r.relkind = 'v'
union all
select format('constraint %s %s', r.oid::regclass, c.conname),
       format('%s %s', c.convalidated, pg_get_constraintdef(c.oid, true))
from relations r join pg_constraint c on c.conrelid = r.oid where c.contype <> 'n'
union all
select format('trigger %s %s', r.oid::regclass, t.tgname), format('%s %s', t.tgenabled, pg_get_triggerdef(t.oid, true))
from relations r join pg_trigger t on t.tgrelid = r.oid where not t.tgisinternal
union all
select format('policy %s %s', r.oid::regclass, p.polname),
       format('%s %s %s %s %s', p.polcmd, p.polpermissive,
              (select string_agg(o.rolname, ',' order by o.rolname) from pg_roles o where o.oid = any(p.polroles)),
              pg_get_expr(p.polqual, p.polrelid, true), pg_get_expr(p.polwithcheck, p.polrelid, true))
from relations r join pg_policy p on p.polrelid = r.oid
union all
select format('function %s', f.oid::regprocedure),
       format('%s %s %s', pg_get_functiondef(f.oid), obj_description(f.oid, 'pg_proc'), g.says)
from functions f left join rights g using (oid)
"""

_TABLES = """
select format('%I.%I', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('public', 'memoryd') and c.relkind = 'r'
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by 1
"""

# Roles that something in this database is granted to or that a policy names; those that memoryd has; and who is a member of one
# of memoryd's. Not the owner: whoever restores is the owner.
_ROLES = """
with named as (
    select distinct r.oid, r.rolname, r.rolcanlogin
    from pg_roles r
    where r.oid <> (select nspowner from pg_namespace where nspname = 'memoryd')
      and not starts_with(r.rolname, 'pg_')
      and (starts_with(r.rolname, 'memoryd_')
           or exists (select from pg_shdepend d
                      where d.refclassid = 'pg_authid'::regclass and d.refobjid = r.oid and d.deptype in ('a', 'r')
                        and d.dbid = (select oid from pg_database where datname = current_database()))
           or exists (select from pg_auth_members m join pg_roles g on g.oid = m.roleid
                      where m.member = r.oid and starts_with(g.rolname, 'memoryd_')))
)
select n.rolname as name, n.rolcanlogin as login,
       coalesce((select array_agg(g.rolname order by g.rolname) from pg_auth_members m join named g on g.oid = m.roleid
                 where m.member = n.oid), '{}') as member_of
from named n order by 1
"""

_ABOUT = """
select current_setting('server_version_num')::integer as postgres,
       (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector')
           as vector_schema,
       (select max(version) from memoryd.migrations) as migration,
       (select value #>> '{}' from memoryd.settings where key = 'embedder') as embedder,
       (select (value #>> '{}')::integer from memoryd.settings where key = 'dimensions') as dimensions
"""


async def read_contents(connection: AnyConnection) -> Contents:
    """Of the database as this transaction sees it. Its search path is empty afterwards."""
    await connection.execute("set local search_path = pg_catalog")
    tables = [row[0] for row in await connection.fetch(_TABLES)]
    rows = {
        # Names from the catalog, quoted there.
        table: await connection.fetchval(f"select count(*) from {table}", timeout=None)  # noqa: S608
        for table in tables
        if table != LEFT_OUT
    }
    (about,) = await connection.fetch(_ABOUT)
    roles = [Role(r["name"], r["login"], r["member_of"]) for r in await connection.fetch(_ROLES)]
    return Contents(rows=rows, catalog=await read_catalog(connection), roles=roles, **about)


async def read_catalog(connection: AnyConnection) -> dict[str, str]:
    """What the database is made of: a hash of each definition, by kind and name."""
    return {
        name: hashlib.sha256(definition.encode()).hexdigest()[:16]
        for name, definition in await connection.fetch(_CATALOG)
    }


def differences(before: Contents, after: Contents) -> list[str]:
    """In what two databases differ, a line each: tables by their number of rows, the rest by name."""
    found = [
        f"{table}: {count:,} rows in the backup, {after.rows.get(table, 0):,} restored"
        for table, count in before.rows.items()
        if count != after.rows.get(table, 0)
    ]
    return found + _unlike(before.catalog, after.catalog)


def _unlike(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [
        f"{name}: {'changed' if name in before and name in after else 'missing' if name in before else 'new'}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
