"""Reads tables of other roles without running their code.

A query on a table can call code of the table's owner: a cast of a column's type, a policy, a view, and already while it is
planned the functions of an index's condition. COPY of a table plans nothing, and calls only the output functions of types.

Promise: no function, operator, cast, policy or rule of the table's owner is called with the reader's rights.
"""

from __future__ import annotations

import tempfile

from daemon.db.foreign import postgres_names
from daemon.db.pool import quoted
from handlers.shared.ports import AnyConnection

# A domain is written as its base type. Every value can be read as text; for arrays the elements decide.
_COLUMNS = """
with recursive made as (
    select a.attnum, a.attname, a.attgenerated, a.atttypid as type, a.atttypmod as modifier
    from pg_attribute a
    where a.attrelid = $1::regclass and a.attnum > 0 and not a.attisdropped
    union all
    select m.attnum, m.attname, m.attgenerated, t.typbasetype, case when m.modifier = -1 then t.typtypmod else m.modifier end
    from made m
    join pg_type t on t.oid = m.type
    where t.typtype = 'd'
)
select m.attname as name,
       case when trusted.own then format_type(m.type, m.modifier)
            when part.typcategory is not null then 'text[]' else 'text' end as type
from made m
join pg_type t on t.oid = m.type and t.typtype <> 'd'
left join pg_type part on part.oid = t.typelem and t.typcategory = 'A'
cross join lateral (
    select coalesce(part.typnamespace, t.typnamespace) = 'pg_catalog'::regnamespace
           or exists (select from pg_depend d
                      join pg_extension e on e.oid = d.refobjid and e.extname = 'vector'
                      where d.classid = 'pg_type'::regclass and d.objid = t.oid and d.deptype = 'e') as own
) trusted
where m.attgenerated = ''
order by m.attnum
"""
# The table itself, its partitions, and what inherits from it.
_PARTS = """
with recursive part as (
    select $1::regclass::oid as id
    union
    select i.inhrelid from pg_inherits i join part p on p.id = i.inhparent
)
select n.nspname as schema, c.relname as name, c.relkind::text as kind
from part p
join pg_class c on c.oid = p.id
join pg_namespace n on n.oid = c.relnamespace
where c.relkind <> 'p'
order by c.oid
"""


class NotReadableError(Exception):
    """A table cannot be read in this way; the message says why."""


async def stage(connection: AnyConnection, table: str, name: str, *, seconds: float) -> None:
    """Makes a temporary table of this name with the rows of a table, its partitions and heirs. Raises NotReadableError.

    A column is read as text, unless its type is one of Postgres or pgvector. Generated ones are left out.
    """
    async with postgres_names(connection):
        columns = await connection.fetch(_COLUMNS, table)
        parts = await connection.fetch(_PARTS, table)
        made = ", ".join(f"{quoted(column['name'])} {column['type']}" for column in columns)
        await connection.execute(f"create temporary table {name} ({made}) on commit drop")
    names = [column["name"] for column in columns]
    with tempfile.TemporaryFile() as file:
        for part in parts:
            if part["kind"] != "r":
                raise NotReadableError(f"{part['schema']}.{part['name']} is not a table of this database")
            await connection.copy_from_table(
                part["name"], schema_name=part["schema"], columns=names, output=file, timeout=seconds
            )
        file.seek(0)
        await connection.copy_to_table(
            name, schema_name="pg_temp", columns=names, source=file, timeout=seconds
        )
