"""The plain owner that tests work as, as on a managed Postgres: it may make roles and owns its databases, and is no superuser.

A test that needs a superuser asks for the fixture `admin`, or for `Server.admin_url`, and says why.
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg

ROLES = ("memoryd_service", "memoryd_user", "memoryd_admin")
_MISSING = "select r from unnest($1::text[]) r where r not in (select rolname from pg_roles)"
_NOT_ITS_OWN = """
select r.rolname from pg_roles r
where r.rolname = any($1) and not pg_has_role($2, r.oid, 'member with admin option')
"""


def as_role(url: str, role: str) -> str:
    """The same URL for another role, with the same password, if it has one."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    _, colon, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=f"{role}{colon}{password}@{host}"))


async def make_owner(admin_url: str, name: str) -> None:
    """The role, and memoryd's roles as it would make them itself; does nothing where they are there."""
    admin = await asyncpg.connect(admin_url)
    try:
        await admin.execute("select pg_advisory_lock(hashtext('the owner'))")
        if await admin.fetchval(_MISSING, [name]):
            password = urlsplit(admin_url).password
            secret = "" if password is None else f" password {_text(unquote(password))}"
            await admin.execute(f"create role {name} login createrole{secret}")
        for (role,) in await admin.fetch(_MISSING, ROLES):
            await admin.execute(f"set role {name}; create role {role} nologin; reset role")
        # Those of a given server may be somebody else's.
        for (role,) in await admin.fetch(_NOT_ITS_OWN, ROLES, name):
            await admin.execute(f"grant {role} to {name} with admin true, inherit false, set false")
    finally:
        await admin.close()


async def drop_owner(admin_url: str, name: str) -> None:
    """From a server that goes on; its databases are gone."""
    admin = await asyncpg.connect(admin_url)
    try:
        if not await admin.fetchval(_MISSING, [name]):
            await admin.execute(f"drop owned by {name}; drop role {name}")
    finally:
        await admin.close()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
