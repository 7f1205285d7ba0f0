"""From the columns of a table that was moved aside to those of memoryd's: one expression for each.

Promise: a column whose type does not fit is kept in the metadata, or is named as left out; none is lost unseen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from daemon.db.pool import quoted
from handlers.shared.ports import AnyConnection
from plugins.move_in.adopt.designs import Design

_NAMED = re.compile(r"\{(\w+)\}")
_COLUMNS = """
select a.attname as name, t.typname as type, a.atttypmod as modifier, a.attnotnull as required,
       a.attgenerated <> '' as generated, pg_get_expr(d.adbin, d.adrelid) as "default"
from pg_attribute a
join pg_type t on t.oid = a.atttypid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum and a.attgenerated = ''
where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""
_TEXTS = {"text", "varchar", "bpchar", "citext", "name"}
_NUMBERS = {"int2", "int4", "int8", "float4", "float8", "numeric"}
_TIMES = {"timestamptz", "timestamp", "date"}
# Columns that memoryd computes: an application's column of such a name means something else.
_COMPUTED = {
    "said_key", "text_changed_at", "content_hash", "file_hash", "chunked_at", "dream_id", "superseded_by",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    modifier: int
    required: bool
    generated: bool
    default: str | None


async def read_columns(connection: AnyConnection, table: str) -> dict[str, Column]:
    """The columns of a table, by name; empty if the table does not exist."""
    return {row["name"]: Column(**row) for row in await connection.fetch(_COLUMNS, table)}


def fill(expression: str, given: Mapping[str, Column]) -> str:
    """The expression over `r`, with null for columns that the table does not have."""
    return _NAMED.sub(lambda m: f"r.{quoted(m[1])}" if m[1] in given else "null", expression)


def map_columns(
    design: Design,
    given: Mapping[str, Column],
    wanted: Mapping[str, Column],
    *,
    dimensions: int,
    vector_schema: str,
) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """For each column of memoryd an expression over the row `r`; the columns that are kept in the metadata, and the others,
    which stay only in the table that was moved aside.
    """
    values: dict[str, str] = {}
    unread: dict[str, str] = {}
    used = {name for said in design.values.values() for name in _NAMED.findall(said)}
    for column in wanted.values():
        if column.generated or column.name in _COMPUTED:
            continue
        said = design.values.get(column.name)
        if said is not None:
            values[column.name] = fill(said, given)
            continue
        source = given.get(column.name)
        expression = None if source is None else _cast(source, column, dimensions, vector_schema)
        if source is None or expression is None:
            continue
        used.add(column.name)
        if column.type == "int4" and source.type in _TEXTS:
            unread[column.name] = f"case when ({expression}) is null then r.{quoted(column.name)} end"
        required = column.required and column.default is not None
        values[column.name] = f"coalesce({expression}, {column.default})" if required else expression
    rest = [one for one in given.values() if one.name not in used]
    kept = [] if design.metadata is None else [one for one in rest if "vec" not in one.type]
    # A path of another replica is not a path in memoryd's replica, so it is only noted.
    if "gdrive_replica_path" in given:
        kept.append(given["gdrive_replica_path"])
    if design.metadata is not None and (
        kept or unread or (design.metadata in given and wanted[design.metadata].required)
    ):
        values[design.metadata] = _metadata(design.metadata, given, kept, unread)
    lost = tuple(one.name for one in rest if one not in kept)
    return values, tuple(one.name for one in kept), lost


def _cast(source: Column, target: Column, dimensions: int, vector_schema: str) -> str | None:
    """The value of a column in the target's type; null if the type does not fit."""
    value = f"r.{quoted(source.name)}"
    if target.type == "vector":
        # A declared number of dimensions is the modifier.
        if source.type != "vector" or source.modifier not in (-1, dimensions):
            return None
        return (
            value
            if source.modifier == dimensions
            else f"case when {quoted(vector_schema)}.vector_dims({value}) = {dimensions} then {value} end"
        )
    if source.type == target.type:
        return value
    if target.type == "text":
        return f"{value}::text"
    if target.type == "int4" and source.type in _TEXTS:
        return f"case when {value} ~ '^\\d{{1,9}}$' then {value}::integer end"
    if target.type == "_text" and source.type in ("jsonb", "json"):
        array = f"{value}::jsonb"
        return f"case when jsonb_typeof({array}) = 'array' then array(select jsonb_array_elements_text({array})) end"
    fits = (
        (target.type in _NUMBERS and source.type in _NUMBERS)
        or (target.type == "timestamptz" and source.type in _TIMES)
        or (target.type == "jsonb" and source.type == "json")
        or (target.type == "uuid" and source.type in _TEXTS)
        or (target.type, source.type)
        in (("_text", "_varchar"), ("_float8", "_float4"), ("_float8", "_numeric"))
    )
    return f"{value}::{target.type}" if fits else None


def _metadata(name: str, given: Mapping[str, Column], kept: list[Column], unread: Mapping[str, str]) -> str:
    """The row's own metadata, with the columns that have no other place."""
    parts = [
        f"jsonb_build_object('{one.name.replace(chr(39), chr(39) * 2)}', r.{quoted(one.name)})"
        for one in kept
        if one.name != name
    ]
    parts += [f"jsonb_build_object('{one}', {said})" for one, said in unread.items()]
    extra = f"jsonb_strip_nulls({' || '.join(parts)})" if parts else "'{}'::jsonb"
    if name not in given:
        return extra
    own = f"r.{quoted(name)}::jsonb"
    return (
        f"{extra} || case when {own} is null then '{{}}' when jsonb_typeof({own}) = 'object' then {own} "
        f"else jsonb_build_object('{name}', {own}) end"
    )
