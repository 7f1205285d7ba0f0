"""Joining what an application has beside memoryd: a Supabase project's accounts, its publication, Broadcast, its support.

Promise: what needs more rights than this role has, or is locked, is returned as a statement, and does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from daemon.db.errors import MigrationError

_ARE_USERS = "select min(name) from memoryd.roles_of_users($1::text[]) as r(name)"
_WRITE_ADMIN_ROLES = """
with unset as (delete from memoryd.settings where key = 'admin_roles' and $1::text[] = '{}')
insert into memoryd.settings (key, value)
select 'admin_roles', to_jsonb($1::text[]) where $1::text[] <> '{}'
on conflict (key) do update set value = excluded.value, updated_at = now()
where settings.value <> excluded.value
"""
_CAN_JOIN = "select to_regprocedure('memoryd.join_supabase()') is not null"
_JOIN = "select part, statement from memoryd.join_supabase()"


async def join(connection: asyncpg.Connection, admin_roles: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Joins the existing parts; returns the remaining ones, as part and statement.

    Raises MigrationError where a role of end users is to be one of support.
    """
    if not await connection.fetchval(_CAN_JOIN):
        return ()
    users = await connection.fetchval(_ARE_USERS, list(admin_roles))
    if users is not None:
        raise MigrationError(
            f"MEMORYD_ADMIN_ROLES names {users}, a role of end users: each of them would read everybody's memory. "
            "Name the role of your support."
        )
    async with connection.transaction():
        await connection.execute(_WRITE_ADMIN_ROLES, list(admin_roles))
        return tuple((row["part"], row["statement"]) for row in await connection.fetch(_JOIN))
