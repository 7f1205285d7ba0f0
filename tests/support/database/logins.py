"""Logins of single end users, who connect without a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

GONE = "grant {0} to current_user with inherit true; drop owned by {0}; drop role {0}"
"""SQL by which who has made a role drops it: a plain owner only with its rights, which it does not have by itself."""
BECOME = "create role {0}; grant {0} to current_user with inherit false, set true"
"""SQL by which a plain owner makes a role that it can take: of roles that it makes it may only give away."""


def login_url(url: str, name: str, password: str) -> str:
    """The same URL for a login with a password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}"))


@asynccontextmanager
async def login(
    owner: asyncpg.Connection, url: str, *, role: str = "memoryd_user", inherit: bool = True
) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    """A login with the rights of a role, made by the owner, and a connection of its own; both are gone after the block."""
    name = f"login_{uuid4().hex[:8]}"
    parts = urlsplit(url)
    await owner.execute(
        f"create role {name} login password 'secret' {'inherit' if inherit else 'noinherit'} in role {role}; "
        f'grant connect on database "{parts.path[1:]}" to {name}'
    )
    try:
        opened = await asyncpg.connect(login_url(url, name, "secret"))
        try:
            yield name, opened
        finally:
            await opened.close()
    finally:
        await owner.execute(GONE.format(name))
