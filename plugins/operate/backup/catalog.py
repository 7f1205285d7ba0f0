"""The content of a database in a form that can be compared: rows, roles, and definitions of its objects."""

from __future__ import annotations

from daemon.db.catalog import read_catalog
from handlers.shared.ports import AnyConnection
from plugins.operate.backup.archive import Contents, Role

LEFT_OUT = "memoryd.tokens"
"""The local embedder's tokens come with memoryd: they are loaded again."""

_TABLES = """
select format('%I.%I', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('public', 'memoryd') and c.relkind = 'r'
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
order by 1
"""

# Roles in grants and policies of this database, memoryd's own roles, and their members. Not the owner: the role that restores
# becomes the owner.
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
    """The contents as this transaction sees them. Its search path is empty afterwards."""
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
    return Contents(
        rows=rows,
        catalog={one.name: one.hash for one in await read_catalog(connection)},
        roles=roles,
        **about,
    )


def differences(before: Contents, after: Contents) -> list[str]:
    """The differences of two databases, a line each: tables by their number of rows, other objects by name."""
    found = [
        f"{table}: {count:,} rows in the backup, {after.rows.get(table, 0):,} restored"
        for table, count in before.rows.items()
        if count != after.rows.get(table, 0)
    ]
    old, new = before.catalog, after.catalog
    return found + [
        f"{name}: {'changed' if name in old and name in new else 'missing' if name in old else 'new'}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
