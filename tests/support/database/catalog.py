"""What a database is made of, as lines of text: two databases with the same lines differ in their rows only."""

from __future__ import annotations

import asyncpg

_SCHEMAS = "('public'::regnamespace, 'memoryd'::regnamespace)"
_OURS = "not exists (select from pg_depend d where d.objid = {}.oid and d.deptype = 'e')"

_PARTS = (
    # Tables, views and indexes, with their options, comments and the rights to them.
    f"""
    select format('relation %s %s %s%s %s %s %s', c.oid::regclass, c.relkind, c.relrowsecurity, c.relforcerowsecurity,
                  c.reloptions, obj_description(c.oid, 'pg_class'),
                  (select string_agg(a::text, ',' order by a::text)
                   from unnest(coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's'::"char" else 'r'::"char" end,
                                                             c.relowner))) a
                   where c.relkind <> 'i'))
    from pg_class c
    where c.relnamespace in {_SCHEMAS} and c.relkind in ('r', 'v', 'i', 'S') and {_OURS.format("c")}
    """,
    f"""
    select format('column %s.%s %s %s %s %s %s %s %s', a.attrelid::regclass, a.attname, a.attnum,
                  format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated, pg_get_expr(d.adbin, d.adrelid),
                  col_description(a.attrelid, a.attnum),
                  (select string_agg(x::text, ',' order by x::text) from unnest(a.attacl) x))
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where c.relnamespace in {_SCHEMAS} and c.relkind in ('r', 'v', 'c') and a.attnum > 0 and {_OURS.format("c")}
    """,
    f"""
    select 'index ' || pg_get_indexdef(i.indexrelid)
    from pg_index i join pg_class c on c.oid = i.indrelid
    where c.relnamespace in {_SCHEMAS}
    """,
    # Not null is among the columns; Postgres 18 also gives it a name, which a renamed column keeps.
    f"""
    select format('constraint %s %s %s %s', conrelid::regclass, conname, convalidated, pg_get_constraintdef(oid))
    from pg_constraint where connamespace in {_SCHEMAS} and contype <> 'n'
    """,
    "select 'trigger ' || pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
    """
    select format('policy %s %s %s %s %s %s %s', polrelid::regclass, polname, polcmd, polpermissive,
                  (select string_agg(rolname, ',' order by rolname) from pg_roles where oid = any(polroles)),
                  pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
    from pg_policy
    """,
    f"""
    select format('function %s %s %s %s', p.oid::regprocedure, pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc'),
                  (select string_agg(a::text, ',' order by a::text)
                   from unnest(coalesce(p.proacl, acldefault('f', p.proowner))) a))
    from pg_proc p where p.pronamespace in {_SCHEMAS} and {_OURS.format("p")}
    """,
    f"""
    select format('view %s %s', c.oid::regclass, pg_get_viewdef(c.oid))
    from pg_class c where c.relnamespace in {_SCHEMAS} and c.relkind = 'v'
    """,
    "select 'setting ' || key from memoryd.settings",
    "select 'lock ' || lane from memoryd.lanes where topic = 'lock'",
    "select format('migration %s %s %s', version, name, checksum) from memoryd.migrations",
    "select format('file %s %s %s', name, checksum, objects) from memoryd.function_files",
)


async def catalog(connection: asyncpg.Connection) -> list[str]:
    """The lines, in order."""
    lines = [row[0] for part in _PARTS for row in await connection.fetch(part)]
    return sorted(lines)
