"""Guards unqualified names of functions and operators in statements against objects of other roles.

Postgres takes what fits best of all schemas in the search path, not the first: `public.lower(varchar)` goes before its own
`lower(text)`. Whoever may create functions in such a schema so has others run theirs, with the others' rights.

Promise: within `postgres_names()` none of another role's is called, whatever stands in schema public.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from daemon.db.pool import POSTGRES_NAMES
from handlers.shared.ports import AnyConnection

_BEFORE = "select pg_catalog.current_setting('search_path')"
_SET = "select pg_catalog.set_config('search_path', $1, true)"

# Of schema public and the one of pgvector, which statements of memoryd have in their path, what has a name of Postgres' own or
# of pgvector's. What belongs to a role with our rights is trusted, as what extensions bring does. That it is a member of one
# says nothing: the owner of an extension may add to it.
_LOOKALIKES = """
with vector as (
    select e.oid, e.extnamespace as schema from pg_extension e where e.extname = 'vector'
), of_extension as (
    select d.classid, d.objid, d.refobjid as extension
    from pg_depend d
    where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass
), found as (
    select 'routine' as kind, 'pg_proc'::regclass::oid as catalog, p.oid, p.proname as name, p.proowner as owner,
           p.pronamespace as schema
    from pg_proc p
    union all
    select 'operator', 'pg_operator'::regclass, o.oid, o.oprname, o.oprowner, o.oprnamespace from pg_operator o
)
select f.kind, f.oid, quote_ident(n.nspname) as schema, r.rolname as owner,
       case f.kind when 'routine' then f.oid::regprocedure::text else f.oid::regoperator::text end as name,
       pg_has_role(current_user, r.oid, 'usage') as movable
from found f
join pg_namespace n on n.oid = f.schema and (n.nspname = 'public' or n.oid = (select v.schema from vector v))
join pg_roles r on r.oid = f.owner
where not r.rolsuper and r.rolname <> current_user and not pg_has_role(r.oid, current_user, 'member')
  and exists (select from found b
              where b.kind = f.kind and b.name = f.name
                and (b.schema = 'pg_catalog'::regnamespace
                     or exists (select from of_extension e join vector v on v.oid = e.extension
                                where e.classid = b.catalog and e.objid = b.oid)))
order by 1, 5
"""
_MOVES = """
select format('alter %s %s set schema %s', m.kind, case m.kind when 'routine' then m.oid::regprocedure::text
                                                   else m.oid::regoperator::text end, $3::text) as statement
from unnest($1::text[], $2::oid[]) as m(kind, oid)
"""


@dataclass(frozen=True, slots=True)
class Lookalike:
    """An object of another role that a statement may take for Postgres' own."""

    kind: str
    oid: int
    schema: str
    owner: str
    name: str
    """With its schema and its types, as SQL has it."""
    movable: bool
    """Whether this role may move it."""


@asynccontextmanager
async def postgres_names(connection: AnyConnection) -> AsyncIterator[None]:
    """Within it names without a schema are Postgres' own, or of temporary tables. It is, or becomes, a transaction."""
    if not connection.is_in_transaction():
        async with connection.transaction(), postgres_names(connection):
            yield
        return
    before = await connection.fetchval(_BEFORE)
    await connection.execute(_SET, POSTGRES_NAMES)
    yield
    # After an error all is rolled back, this too.
    await connection.execute(_SET, before)


async def read_lookalikes(connection: AnyConnection) -> list[Lookalike]:
    """Objects of other roles that memoryd's statements would find before those of Postgres or pgvector."""
    async with postgres_names(connection):
        return [Lookalike(**row) for row in await connection.fetch(_LOOKALIKES)]


async def set_aside(connection: AnyConnection) -> tuple[str, list[Lookalike]]:
    """Moves what this role may move of it into a schema, until `put_back`. Returns both.

    Both are in one transaction, so no other session sees it moved.
    """
    found = [one for one in await read_lookalikes(connection) if one.movable]
    # Nobody else can have made a schema of this name before.
    aside = f"memoryd_aside_{secrets.token_hex(8)}"
    if found:
        await connection.execute(f"create schema {aside}")
        await _move(connection, found, aside)
    return aside, found


async def put_back(connection: AnyConnection, aside: str, moved: Sequence[Lookalike]) -> None:
    """Moves it to where it was."""
    if not moved:
        return
    for schema in sorted({one.schema for one in moved}):
        await _move(connection, [one for one in moved if one.schema == schema], schema)
    await connection.execute(f"drop schema {aside}")


async def _move(connection: AnyConnection, these: Sequence[Lookalike], schema: str) -> None:
    async with postgres_names(connection):
        rows = await connection.fetch(_MOVES, [one.kind for one in these], [one.oid for one in these], schema)
        await connection.execute("; ".join(row["statement"] for row in rows))
