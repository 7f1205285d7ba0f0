"""/TABLE: the SQL with which PostgREST reads, inserts, updates and deletes rows.

Part of tests/support/postgrest/server.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.postgrest.calls import Connection, Statement
from tests.support.postgrest.errors import RefusedError
from tests.support.postgrest.request import (
    Request,
    columns_of,
    filtered,
    identifier,
    limited,
    not_covered,
    parsed,
    selected,
)

COLUMNS = """
select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type,
       coalesce(a.attnum = any(k.conkey), false) as is_key
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
where n.nspname = $1 and c.relname = $2 and c.relkind in ('r', 'p', 'v', 'm', 'f')
order by a.attnum
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view of the schema that is exposed."""

    types: Mapping[str, str]
    """By columns, with their schemas."""
    keys: Sequence[str]


async def table_named(connection: Connection, schema: str, name: str) -> Table:
    """The table. Raises RefusedError when there is none."""
    async with connection.transaction():
        await connection.execute("set local search_path = ''")
        rows = await connection.fetch(COLUMNS, schema, name)
    if not rows:
        said = f"Could not find the table '{schema}.{name}' in the schema cache"
        raise RefusedError(404, "PGRST205", said)
    return Table({row["name"]: row["type"] for row in rows}, [row["name"] for row in rows if row["is_key"]])


def statement(known: Table, request: Request, schema: str, name: str) -> Statement:
    """What a request to a table runs. Raises RefusedError."""
    table = f"{identifier(schema)}.{identifier(name)}"
    match request.method:
        case "GET" | "HEAD":
            return _read(request, table)
        case "POST":
            changed, parameters = _insert(request, table, known)
            status = 201
        case "PATCH":
            changed, parameters = _update(request, table, known.types)
            status = 200 if request.prefers("return=representation") else 204
        case "DELETE":
            changed, parameters = f"delete from {table}{filtered(request, table)}", ()
            status = 200 if request.prefers("return=representation") else 204
        case _:
            raise RefusedError(405, "PGRST117", f"Unsupported HTTP method: {request.method}")
    full = request.prefers("return=representation")
    changed += f" returning {selected(request, table) if full else '1'}"
    body = _as_json(one=request.wants_one) if full else "''"
    sql = (
        f"with pgrst_source as ({changed}) select null::bigint as total, pg_catalog.count(_postgrest_t) as page, "
        f"{body} as body from (select * from pgrst_source) _postgrest_t"
    )
    return Statement(sql, parameters, read_only=False, status=status, has_body=full)


def _read(request: Request, table: str) -> Statement:
    where = filtered(request, table)
    source = f"select {selected(request, table)} from {table}{where}{limited(request, table)}"
    total = f"(select count(*) from {table}{where})" if request.prefers("count=exact") else "null::bigint"
    sql = (
        f"with pgrst_source as ({source}) select {total} as total, pg_catalog.count(_postgrest_t) as page, "
        f"{_as_json(one=request.wants_one)} as body from (select * from pgrst_source) _postgrest_t"
    )
    return Statement(sql, (), read_only=True, status=200)


def _insert(request: Request, table: str, known: Table) -> tuple[str, tuple[str, ...]]:
    body = parsed(request)
    names = columns_of(request, body)
    if request.prefers("missing=default"):
        not_covered("Prefer: missing=default")
    sql = f"insert into {table}"
    if names:
        sql += f"({', '.join(map(identifier, names))}) "
        sql += f"select {', '.join(map(identifier, names))} {_from_body(body, names, known.types, table)}"
    else:
        sql += " select from (values (1)) _"
    asked = request.parameter("on_conflict")
    keys = asked.split(",") if asked else known.keys
    conflict = f" on conflict ({', '.join(map(identifier, keys))}) do "
    if request.prefers("resolution=ignore-duplicates"):
        sql += conflict + "nothing"
    elif request.prefers("resolution=merge-duplicates"):
        # All columns of the body, its keys too: whoever upserts so needs the right to update the keys.
        sql += (
            conflict + "update set " + ", ".join(f"{identifier(n)} = excluded.{identifier(n)}" for n in names)
        )
    return sql, (request.body.decode(),) if names else ()


def _update(request: Request, table: str, types: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    body = parsed(request)
    names = columns_of(request, body)
    if not names:
        not_covered("an update of nothing")
    values = ", ".join(f"{identifier(name)} = pgrst_body.{identifier(name)}" for name in names)
    sql = f"update {table} set {values} {_from_body(body, names, types, table)}{filtered(request, table)}"
    return sql, (request.body.decode(),)


def _from_body(body: object, names: list[str], types: Mapping[str, str], table: str) -> str:
    for name in names:
        if name not in types:
            said = f"Could not find the '{name}' column of {table.split('.')[1]} in the schema cache"
            raise RefusedError(400, "PGRST204", said.replace('"', "'"))
    record = "json_to_recordset" if isinstance(body, list) else "json_to_record"
    columns = ", ".join(map(identifier, names))
    typed = ", ".join(f"{identifier(name)} {types[name]}" for name in names)
    return (
        f"from (select $1::json as json_data) pgrst_payload, "
        f"lateral (select {columns} from {record}(pgrst_payload.json_data) as _({typed})) pgrst_body"
    )


def _as_json(*, one: bool) -> str:
    if one:
        return "coalesce((json_agg(_postgrest_t) -> 0)::text, 'null')"
    return "coalesce(json_agg(_postgrest_t)::text, '[]')"
