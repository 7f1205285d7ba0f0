"""Logins of single end users, who connect without a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg


async def closed(url: str) -> None:
    """Lets only roles connect to the database that have the right granted."""
    opened = await asyncpg.connect(url)
    try:
        await opened.execute(f'revoke connect on database "{urlsplit(url).path[1:]}" from public')
    finally:
        await opened.close()


@asynccontextmanager
async def login(
    owner: asyncpg.Connection, url: str, *, role: str = "memoryd_user", inherit: bool = True
) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    """A login with the rights of a role, and a connection of its own; both are gone after the block."""
    name = f"login_{uuid4().hex[:8]}"
    parts = urlsplit(url)
    await owner.execute(
        f"create role {name} login password 'secret' {'inherit' if inherit else 'noinherit'} in role {role}; "
        f'grant connect on database "{parts.path[1:]}" to {name}'
    )
    try:
        host = parts.netloc.rpartition("@")[2]
        opened = await asyncpg.connect(urlunsplit(parts._replace(netloc=f"{name}:secret@{host}")))
        try:
            yield name, opened
        finally:
            await opened.close()
    finally:
        await owner.execute(f"drop owned by {name}; drop role {name}")
