"""The effects of an adoption on a database, read from its catalog without a lock and without a change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from daemon.db.errors import MigrationError
from daemon.db.foreign import Obstacle, postgres_names, read_obstacles
from daemon.db.migration_files import MigrationFiles
from daemon.db.pool import quoted
from handlers.shared.ports import AnyConnection
from plugins.move_in.adopt.columns import read_columns
from plugins.move_in.adopt.designs import DESIGN_FUNCTIONS, DESIGNS, is_like

# Postgres keeps all of these working: they still use the tables that were moved aside.
_DEPENDANTS = """
select 'the foreign key ' || quote_ident(c.conname) || ' of ' || c.conrelid::regclass || ' refers to '
       || c.confrelid::regclass as says
from pg_constraint c
where c.contype = 'f' and c.confrelid = any($1::text[]::regclass[]) and c.conrelid <> all($1::text[]::regclass[])
union
select 'the view ' || w.ev_class::regclass || ' reads ' || d.refobjid::regclass
from pg_depend d
join pg_rewrite w on w.oid = d.objid
where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass
  and d.refobjid = any($1::text[]::regclass[]) and w.ev_class <> all($1::text[]::regclass[])
union
select 'publication ' || quote_ident(p.pubname) || ' has ' || r.prrelid::regclass
from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
where r.prrelid = any($1::text[]::regclass[])
order by 1
"""
# Their bodies are text, in which the names now mean memoryd's tables.
_BODIES = """
select 'the function ' || p.oid::regprocedure || ' names ' || string_agg(n.name, ', ' order by n.name) as says
from pg_proc p
join pg_namespace s on s.oid = p.pronamespace and s.nspname not in ('pg_catalog', 'information_schema', 'memoryd')
join pg_language l on l.oid = p.prolang and l.lanname in ('sql', 'plpgsql')
join unnest($1::text[]) as n(name) on p.prosrc ~ ('\\m' || n.name || '\\M')
where p.oid::regprocedure::text <> all($2::text[])
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
group by p.oid
order by 1
"""


@dataclass(frozen=True, slots=True)
class Survey:
    """The objects with memoryd's names, and what would happen to them."""

    moved: tuple[Obstacle, ...]
    """Indexes move with their tables."""
    designs: tuple[str, ...]
    """Tables whose rows are taken in, in this order."""
    unlike: tuple[Obstacle, ...]
    """Objects that match no design and were not named."""
    remarks: tuple[str, ...]
    """Objects of the application that use the tables."""


async def survey(connection: AnyConnection, files: MigrationFiles, *, also: Collection[str]) -> Survey:
    """Reads the catalog. `also`: names of objects that may be moved although they match no design.

    Raises MigrationError if memoryd has no object of a name in `also`.
    """
    async with postgres_names(connection):
        return await _survey(connection, files, also)


async def _survey(connection: AnyConnection, files: MigrationFiles, also: Collection[str]) -> Survey:
    found = await read_obstacles(connection, files)
    if unknown := sorted(set(also) - {one.name for one in found}):
        raise MigrationError(
            f"No object with the name {unknown[0]} is in memoryd's way: leave out --also {unknown[0]}."
        )
    like = {
        one.name
        for one in found
        if one.kind == "table" and is_like(one.name, await _types(connection, one.identity))
    }
    moved: list[Obstacle] = []
    unlike: list[Obstacle] = []
    for one in found:
        known = (
            one.name in like
            or (one.kind == "function" and one.name in DESIGN_FUNCTIONS)
            or (one.kind == "view" and one.name == "shared_memory" and "agent_memory" in like)
        )
        # An index cannot leave its table.
        movable = one.kind in ("table", "view", "materialized view", "function")
        (moved if known or (movable and one.name in also) else unlike).append(one)
    tables = [one.identity for one in moved if one.kind != "function"]
    functions = [one.identity for one in moved if one.kind == "function"]
    uses = await connection.fetch(_DEPENDANTS, tables)
    bodies = await connection.fetch(_BODIES, [one.name for one in moved], functions)
    return Survey(
        moved=tuple(moved),
        designs=tuple(name for name in DESIGNS if name in like),
        unlike=tuple(unlike),
        remarks=tuple(row["says"].replace("public.", "") for row in (*uses, *bodies)),
    )


async def _types(connection: AnyConnection, table: str) -> dict[str, str]:
    return {column.name: column.type for column in (await read_columns(connection, table)).values()}


def refuse(unlike: Sequence[Obstacle]) -> str:
    """The sentence about objects that match no design."""
    first = unlike[0]
    names = ", ".join(dict.fromkeys(f"{one.kind} {one.shown}" for one in unlike))
    if first.belongs_to is not None:
        return (
            f"In the way, and like none of the designs: {names}. Nothing was changed. Rename the index, which breaks "
            f"nothing: alter index {first.shown} rename to {quoted(first.name + '_of_ours')}"
        )
    return (
        f"In the way, and like none of the designs that memoryd knows: {names}. Nothing was changed. Your application "
        "would break if it were moved, so rename it there and here, or give memoryd a database of its own. Where "
        f"nothing uses it any more, name it to have it moved aside too: --also {first.name}"
    )
