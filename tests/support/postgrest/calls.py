"""/rpc/NAME: which function a request means, and the SQL with which PostgREST calls it.

Part of tests/support/postgrest/server.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asyncpg.pool import PoolConnectionProxy

from tests.support.postgrest.errors import RefusedError
from tests.support.postgrest.request import (
    Request,
    columns_of,
    filtered,
    identifier,
    limited,
    literal,
    not_covered,
    parsed,
    selected,
)

# As PostgREST reads its schema cache: whoever may call the function, and not those that it has no way to call.
FUNCTIONS = """
select p.oid, p.provolatile::text as volatility, p.proretset as is_set, p.prorettype = 'void'::regtype as is_void,
       t.typtype = 'c' or coalesce(p.proargmodes::text[] && '{t,b,o}', false) as is_row,
       p.provariadic <> 0 as is_variadic,
       coalesce(array_agg(coalesce(a.name, '') order by a.place) filter (where a.type is not null), '{}') as names,
       coalesce(array_agg(a.type::regtype::text order by a.place) filter (where a.type is not null), '{}') as types,
       p.pronargs - p.pronargdefaults as required
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_type t on t.oid = p.prorettype
left join lateral unnest(p.proargnames, p.proargtypes::oid[]) with ordinality as a(name, type, place)
    on a.place <= p.pronargs
where n.nspname = $1 and p.proname = $2 and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
group by p.oid, t.typtype
having count(*) filter (where a.type is not null) - count(a.name) filter (where a.type is not null) <= 1
order by p.oid
"""


Connection = PoolConnectionProxy


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the schema that is exposed."""

    schema: str
    name: str
    volatility: str
    is_set: bool
    is_void: bool
    is_row: bool
    names: Sequence[str]
    types: Sequence[str]
    required: int

    def takes(self, arguments: set[str]) -> bool:
        """Whether these arguments, by their names, call it."""
        needed = set(self.names[: self.required])
        return needed <= arguments <= set(self.names)

    @property
    def takes_a_body(self) -> bool:
        """Whether it has one argument without a name, which is the whole body."""
        return list(self.names) == [""] and self.types[0] in ("json", "jsonb")

    @property
    def signature(self) -> str:
        """As PostgREST writes it when it cannot choose."""
        said = ", ".join(f"{name} => {kind}" for name, kind in zip(self.names, self.types, strict=True))
        return f"{self.schema}.{self.name}({said})"


@dataclass(frozen=True, slots=True)
class Statement:
    """What is run for a request."""

    sql: str
    parameters: tuple[str, ...]
    read_only: bool
    status: int
    """When it goes well."""
    has_body: bool = True


async def functions_named(connection: Connection, schema: str, name: str) -> list[Function]:
    """All functions of that name that PostgREST knows. Types are written with their schemas."""
    async with connection.transaction():
        await connection.execute("set local search_path = ''")
        rows = await connection.fetch(FUNCTIONS, schema, name)
    if any(row["is_variadic"] for row in rows):
        not_covered("variadic functions")
    return [
        Function(
            schema,
            name,
            *(
                row[one]
                for one in ("volatility", "is_set", "is_void", "is_row", "names", "types", "required")
            ),
        )
        for row in rows
    ]


def chosen(known: Sequence[Function], schema: str, name: str, arguments: set[str], *, post: bool) -> Function:
    """The function that takes these arguments. Raises RefusedError when none does, or more than one."""
    fitting = [one for one in known if one.takes(arguments)]
    if not fitting and post:
        fitting = [one for one in known if one.takes_a_body]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        between = ", ".join(one.signature for one in fitting)
        raise RefusedError(
            300,
            "PGRST203",
            f"Could not choose the best candidate function between: {between}",
            hint="Try renaming the parameters or the function itself in the database so function overloading can be resolved",
        )
    said = ", ".join(sorted(arguments))
    with_these = f"({said})" if arguments else " without parameters"
    raise RefusedError(
        404,
        "PGRST202",
        f"Could not find the function {schema}.{name}{with_these} in the schema cache",
        f"Searched for the function {schema}.{name}, but no matches were found in the schema cache.",
        f"Perhaps you meant to call the function {known[0].signature}" if known else None,
    )


def call(known: Sequence[Function], request: Request, schema: str, name: str) -> Statement:
    """The statement of a call: in a read-only transaction unless it is a POST to a volatile function."""
    post = request.method == "POST"
    keys = columns_of(request, parsed(request)) if post else list(request.arguments)
    function = chosen(known, schema, name, set(keys), post=post)
    given = [(one, kind) for one, kind in zip(function.names, function.types, strict=True) if one in keys]
    parameters: tuple[str, ...] = ()
    body = request.body.decode() if request.body.strip() else "{}"
    if not post:
        passed = [f"{identifier(one)} := {literal(request.arguments[one])}::{kind}" for one, kind in given]
        called = f"from {_called(function, ', '.join(passed))}"
    elif function.takes_a_body and not function.takes(set(keys)):
        called, parameters = f"from {_called(function, f'$1::{function.types[0]}')}", (body,)
    elif given:
        columns = ", ".join(identifier(one) for one, _ in given)
        typed = ", ".join(f"{identifier(one)} {kind}" for one, kind in given)
        passed = [f"{identifier(one)} := pgrst_body.{identifier(one)}" for one, _ in given]
        called = (
            "from (select $1::json as json_data) pgrst_payload, "
            f"lateral (select {columns} from json_to_record(pgrst_payload.json_data) as _({typed}) limit 1) pgrst_body, "
            f"lateral {_called(function, ', '.join(passed))}"
        )
        parameters = (body,)
    else:
        called = f"from {_called(function, '')}"
    source = f"select pgrst_call.{'*' if function.is_row else 'pgrst_scalar'} {called}"
    rows = f"select {selected(request, 'pgrst_source')} from pgrst_source{filtered(request, 'pgrst_source')}"
    rows += limited(request, "pgrst_source")
    sql = (
        f"with pgrst_source as ({source}) select null::bigint as total, pg_catalog.count(_postgrest_t) as page, "
        f"{_as_json(function, one=request.wants_one)} as body from ({rows}) _postgrest_t"
    )
    return Statement(
        sql,
        parameters,
        read_only=not post or function.volatility != "v",
        status=204 if function.is_void else 200,
        has_body=not function.is_void,
    )


def _called(function: Function, arguments: str) -> str:
    call_of_it = f"{identifier(function.schema)}.{identifier(function.name)}({arguments})"
    return f"{call_of_it} pgrst_call" if function.is_row else f"(select {call_of_it} pgrst_scalar) pgrst_call"


def _as_json(function: Function, *, one: bool) -> str:
    if function.is_void:
        return "''"
    rows = "json_agg(_postgrest_t)" if function.is_row else "json_agg(_postgrest_t.pgrst_scalar)"
    if one or not function.is_set:
        return f"coalesce(({rows} -> 0)::text, 'null')"
    return f"coalesce({rows}::text, '[]')"
