"""The rights that only a server's administrator can grant, as one block of SQL for migrate, doctor and restore.

Promise: after an administrator has run the block in this database, nothing of it is left, and migrating, serving users and
`memoryd web` have the rights that they need. What the owner may do itself is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from daemon.db.foreign import postgres_names
from handlers.shared.ports import AnyConnection

# It reads only the catalogs, so it works on any database, for any role. "with admin option": what a role may give away; a role
# that may create roles has this right to those that it made. The schema of pgvector: where it is, or would be made.
_LACKING = """
with me as (
    select r.oid, quote_ident(r.rolname) as name, r.rolsuper or r.rolcreaterole as creates
    from pg_roles r where r.rolname = current_user
), ours as (
    select o.name, o.nth, r.oid, coalesce(pg_has_role(current_user, r.oid, 'usage'), false) as inherits,
           coalesce(pg_has_role(current_user, r.oid, 'set'), false) as becomes,
           case when r.oid is null then m.creates
                else pg_has_role(current_user, r.oid, 'member with admin option') end as gives
    from me m
    cross join unnest('{memoryd_service,memoryd_user,memoryd_admin}'::text[]) with ordinality as o(name, nth)
    left join pg_roles r on r.rolname = o.name
), vector as (
    select coalesce(n.nspname, w.name) as name, n.oid is not null as is_made, s.oid as schema,
           pg_has_role(current_user, s.nspowner, 'usage') as is_mine
    from (select case when to_regnamespace('extensions') is null then 'public' else 'extensions' end as name) w
    left join pg_extension e on e.extname = 'vector'
    left join pg_namespace n on n.oid = e.extnamespace
    join pg_namespace s on s.nspname = coalesce(n.nspname, w.name)
), closed as (
    select v.* from vector v
    where not v.is_mine and not has_schema_privilege('public', v.schema, 'usage')
      and not has_schema_privilege(v.schema, 'usage with grant option')
), mine as (
    select coalesce((select pg_has_role(current_user, n.nspowner, 'usage') from pg_namespace n
                     where n.nspname = 'memoryd'), true) as yes
)
select coalesce(json_agg(json_build_array(s.needed, s.statement) order by s.nth), '[]')
from (
    select 1 as nth, true as needed, format('create extension if not exists vector with schema %I', v.name) as statement
    from vector v, me m, pg_available_extensions a
    join pg_available_extension_versions w on w.name = a.name and w.version = a.default_version
    where a.name = 'vector' and not v.is_made
      and not (select r.rolsuper or (w.trusted and has_database_privilege(current_database(), 'create'))
               from pg_roles r where r.oid = m.oid)
    union all
    select 1 + o.nth, true, format('create role %s nologin', o.name)
    from ours o where o.oid is null and not o.gives
    union all
    select 5, true, format('grant memoryd_service to %s with inherit true', m.name)
    from me m, ours o where o.name = 'memoryd_service' and not o.inherits and not o.gives
    union all
    select 6, false, format('grant %s to %s with inherit false, set true', string_agg(o.name, ', ' order by o.nth), m.name)
    from me m, ours o where o.name <> 'memoryd_service' and not o.becomes and not o.gives
    group by m.name
    union all
    select 7, true, format('grant create on %s to %s', w.what, m.name)
    from me m, (select 'database ' || quote_ident(current_database())
                where not has_database_privilege(current_database(), 'create')
                union all
                select 'schema public' where not has_schema_privilege('public', 'create')) as w(what)
    union all
    -- With it the owner gives usage to the roles that it makes.
    select 8, true, format('grant usage on schema %I to %s with grant option', v.name, m.name)
    from me m, closed v
    where not has_schema_privilege(v.schema, 'usage') or exists (select from ours o where o.oid is null)
    union all
    select 8, true, format('grant usage on schema %I to %s', v.name, string_agg(o.name, ', ' order by o.nth))
    from closed v, ours o where not has_schema_privilege(o.oid, v.schema, 'usage')
    group by v.name
    union all
    select 9, true, format('revoke create on schema %I from public', n.nspname)
    from pg_namespace n
    where n.oid in (select v.schema from vector v union select 'public'::regnamespace)
      and has_schema_privilege('public', n.oid, 'create') and not pg_has_role(current_user, n.nspowner, 'usage')
) s, mine
-- Who is not the owner of a schema that is there needs none of this: it is the wrong login.
where mine.yes
"""

PART = "administrator"
"""Names these statements among those that are left to a role with more rights."""


@dataclass(frozen=True, slots=True)
class MissingRights:
    """The statements, in order, and whether the schema cannot be made without them."""

    statements: tuple[str, ...] = ()
    needed: bool = False

    def __bool__(self) -> bool:
        return bool(self.statements)

    def has(self, beginning: str) -> bool:
        """Whether one of them begins so."""
        return any(statement.startswith(beginning) for statement in self.statements)

    @property
    def block(self) -> str:
        """To copy."""
        return block_of(self.statements)


async def read_missing_rights(connection: AnyConnection) -> MissingRights:
    """The statements that an administrator has to run for the role of this connection, in its database."""
    async with postgres_names(connection):
        found = json.loads(await connection.fetchval(_LACKING))
    return MissingRights(tuple(statement for _, statement in found), any(needed for needed, _ in found))


def block_of(statements: Sequence[str]) -> str:
    """Statements as people copy them: a line each."""
    return "\n".join(f"{statement};" for statement in statements)


def describe_missing(lacking: MissingRights, database: str) -> str:
    """For a person who can do nothing until it is done."""
    return (
        f"memoryd's owner lacks rights. In database {database} an administrator runs once:\n{lacking.block}\n"
        "Then run again"
    )
