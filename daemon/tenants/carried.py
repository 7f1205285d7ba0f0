"""What belongs to a database and is in no dump of it: who may connect, and the settings that it gives its sessions.

Promise: what the other server does not know, or its role may not give, is returned by name, and does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from daemon.db.pool import quoted

_RIGHTS = """
select case x.grantee when 0 then '' else pg_get_userbyid(x.grantee) end as grantee, x.privilege_type as privilege
from pg_database d cross join lateral aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) x
where d.datname = $1 and x.grantee <> d.datdba
order by 1, 2
"""
_SETTINGS = """
select split_part(one, '=', 1) as name, substr(one, strpos(one, '=') + 1) as value
from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase, unnest(s.setconfig) one
where d.datname = $1 and s.setrole = 0
order by 1
"""
LISTS = frozenset({"search_path", "temp_tablespaces", "local_preload_libraries", "session_preload_libraries"})
"""Settings whose values are lists of names, each quoted by itself."""
_REFUSED = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedObjectError,
    asyncpg.DataError,
    asyncpg.CantChangeRuntimeParamError,
)


@dataclass(frozen=True, slots=True)
class Carried:
    """Rights (role, privilege; of everybody the role is empty) and settings (name, value) of one database."""

    rights: Sequence[tuple[str, str]]
    settings: Sequence[tuple[str, str]]


async def read_carried(server: asyncpg.Connection, database: str) -> Carried:
    """Of a database of this server."""
    return Carried(
        [(one["grantee"], one["privilege"]) for one in await server.fetch(_RIGHTS, database)],
        [(one["name"], one["value"]) for one in await server.fetch(_SETTINGS, database)],
    )


async def carry(server: asyncpg.Connection, database: str, carried: Carried) -> list[str]:
    """Gives them to another one; returns what could not be given."""
    left = []
    await server.execute(f"revoke all on database {quoted(database)} from public")
    for role, privilege in carried.rights:
        to = quoted(role) if role else "public"
        if not await _done(server, f"grant {privilege} on database {quoted(database)} to {to}"):
            left.append(f"{privilege.lower()} for {role or 'everybody'}")
    for name, value in carried.settings:
        # A list would have to be put in as it stands, and it may be anything: that one is given by hand.
        given = "'" + value.replace("'", "''") + "'"
        sql = f"alter database {quoted(database)} set {_setting(name)} to {given}"
        if name in LISTS or not await _done(server, sql):
            left.append(f"the setting {name}")
    return left


def _setting(name: str) -> str:
    """`work_mem`, or `app.tenant`: each part quoted."""
    return ".".join(quoted(part) for part in name.split("."))


async def _done(server: asyncpg.Connection, sql: str) -> bool:
    try:
        await server.execute(sql)
    except _REFUSED:
        return False
    return True
