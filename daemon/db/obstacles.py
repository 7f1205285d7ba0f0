"""What stands in schema public under a name that the first migration would take.

Promise: the names are read from the SQL files, so no second list can be wrong. Nothing is dropped here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from daemon.db.migration_files import MigrationFiles
from daemon.db.names import postgres_names
from daemon.db.pool import quoted
from handlers.shared.ports import AnyConnection

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


async def read_obstacles(connection: AnyConnection, files: MigrationFiles) -> list[Obstacle]:
    """What stands in the way of memoryd, in a database that does not have it."""
    async with postgres_names(connection):
        return [Obstacle(**row) for row in await connection.fetch(_READ, *_names(files))]


def say_obstacles(found: Sequence[Obstacle]) -> str:
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


def public_functions(files: MigrationFiles) -> Sequence[str]:
    """The names of the functions of schema public."""
    return _names(files)[2]


@cache
def _names(files: MigrationFiles) -> tuple[list[str], list[str], list[str]]:
    """The names of tables and views, of indexes, and of functions."""
    texts = [*(one.sql for one in files.schema), *(one.sql for one in files.functions)]
    relations = [name for text in texts for name in _RELATION.findall(text)]
    indexes = [a or b for text in texts for a, b in _INDEX.findall(text)]
    functions = [name.strip('"') for text in texts for name in _FUNCTION.findall(text)]
    return relations, [*indexes, *(f"{name}_pkey" for name in relations)], functions
