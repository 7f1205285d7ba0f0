"""Databases of tenants as `memoryd tenant` makes and lists them, and what is in them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.support.content.finished import all_done
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.processes.commands import Commands, Finished
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember

SECRET = "s3cret-of-tenants"


class Tenants:
    """The commands, with a file of tenants that need not be there yet.

    They work as the superuser, since each new database needs pgvector.
    """

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.file = folder / "tenants"
        self._commands = Commands("", folder)
        self._prefix = f"t{uuid.uuid4().hex[:8]}"

    def name(self, what: str) -> str:
        """A name that no other test has."""
        return f"{self._prefix}-{what}"

    async def __call__(self, *arguments: str, stdin: bytes = b"", **settings: object) -> Finished:
        """`memoryd tenant` with these arguments, at its end."""
        given = {"database_urls": self.file} | settings
        done = await self._commands("tenant", *arguments, stdin=stdin, **given)
        assert SECRET not in done.out + done.err
        return done

    async def add(self, what: str) -> str:
        """A new tenant on the server of the tests; its URL."""
        name = self.name(what)
        done = await self("add", name, "--server", self.server.admin_url)
        assert done.code == 0, done.err
        return self.urls()[name]

    async def listed(self) -> dict[str, dict[str, object]]:
        """What `tenant list` says, by name."""
        return {one["name"]: one for one in (await self("list", "--json")).json}

    def urls(self) -> dict[str, str]:
        """What the file has."""
        lines = self.file.read_text("utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    async def drop(self) -> None:
        """All databases of this test."""
        async with connected(self.server.admin_url) as admin:
            made = "select datname from pg_database where datname like '%' || $1 || '%'"
            for (name,) in await admin.fetch(made, self._prefix):
                await admin.execute(f'drop database "{name}" with (force)')


@asynccontextmanager
async def role(admin: asyncpg.Connection, *, may: str) -> AsyncIterator[str]:
    """A login with a password."""
    name = f"role_{uuid.uuid4().hex[:8]}"
    await admin.execute(f"create role {name} login {may} password '{SECRET}'")
    try:
        yield name
    finally:
        await admin.execute(f"drop role {name}")


def named(url: str, database: str) -> str:
    """The same URL with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def as_role(url: str, name: str) -> str:
    """The same URL for a role of this test."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}:{SECRET}@{parts.netloc.rpartition('@')[2]}"))


async def filled(url: str, folder: Path) -> None:
    """Three memories, indexed by a daemon."""
    async with connected(url) as opened:
        for text in ("the certificate is purple", "the staging server is in Oslo", "builds need wombats"):
            await remember(opened, text, agent_id="alice")
        daemons = Daemons(url, folder)
        try:
            await daemons.start()
            await all_done(opened)
        finally:
            await daemons.kill_all()


async def recalled(url: str, folder: Path) -> list[object]:
    """What a question finds."""
    done = await Commands(url, folder)("recall", "purple certificate of the server", "--json")
    assert done.code == 0, done.err
    return [(one["content"], one["score"]) for one in done.json]
