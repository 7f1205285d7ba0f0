"""Reads tables of other roles without running their code.

A query on a table can call code of the table's owner: a cast of a column's type, a policy, a view, and already while it is
planned the functions of an index's condition. COPY of a table plans nothing, and calls only the output functions of types.

Promise: no function, operator, cast, policy or rule of the table's owner is called with the reader's rights.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

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


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as it is read: as text, unless its type is one of Postgres or pgvector."""

    name: str
    type: str


async def _columns_of(connection: AnyConnection, table: str) -> list[_Column]:
    """The columns that `_copy_out` writes of a table (named with its schema), in this order. Generated ones are not copied."""
    async with postgres_names(connection):
        return [_Column(**row) for row in await connection.fetch(_COLUMNS, table)]


async def _copy_out(
    connection: AnyConnection, table: str, columns: Sequence[_Column], file: BinaryIO, *, seconds: float
) -> None:
    """Writes the rows of a table, its partitions and heirs by COPY. Raises NotReadableError."""
    async with postgres_names(connection):
        parts = await connection.fetch(_PARTS, table)
    names = [column.name for column in columns]
    for part in parts:
        if part["kind"] != "r":
            raise NotReadableError(f"{part['schema']}.{part['name']} is not a table of this database")
        await connection.copy_from_table(
            part["name"], schema_name=part["schema"], columns=names, output=file, timeout=seconds
        )


async def stage(connection: AnyConnection, table: str, name: str, *, seconds: float) -> None:
    """Makes a temporary table of this name with the rows of a table. Raises NotReadableError."""
    columns = await _columns_of(connection, table)
    async with postgres_names(connection):
        made = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
        await connection.execute(f"create temporary table {name} ({made}) on commit drop")
    with tempfile.TemporaryFile() as file:
        await _copy_out(connection, table, columns, file, seconds=seconds)
        file.seek(0)
        names = [column.name for column in columns]
        await connection.copy_to_table(
            name, schema_name="pg_temp", columns=names, source=file, timeout=seconds
        )
