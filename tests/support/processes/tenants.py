"""Databases of tenants, in a file of MEMORYD_DATABASE_URLS, and what is in them."""

from __future__ import annotations

import uuid
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.support.content.finished import all_done
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember


class Tenants:
    """Databases on the server of the tests, and the file that lists them.

    Their owner is the superuser, since each new database needs pgvector.
    """

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.file = folder / "tenants"
        self._prefix = f"t{uuid.uuid4().hex[:8]}"

    def name(self, what: str) -> str:
        """A name that no other test has."""
        return f"{self._prefix}-{what}"

    async def add(self, what: str) -> str:
        """A new tenant; its URL."""
        name = self.name(what)
        async with connected(self.server.admin_url) as admin:
            await admin.execute(f'create database "{name}" template template0')
            await admin.execute(f'revoke connect on database "{name}" from public')
        url = named(self.server.admin_url, name)
        with self.file.open("a") as file:
            file.write(f"{name}={url}\n")
        return url

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


def named(url: str, database: str) -> str:
    """The same URL with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


async def filled(url: str, folder: Path) -> None:
    """Three memories, indexed by a daemon."""
    async with connected(url) as opened:
        daemons = Daemons(url, folder)
        try:
            await daemons.start()
            for text in ("the certificate is purple", "the staging server is in Oslo", "builds need wombats"):
                await remember(opened, text, agent_id="alice")
            await all_done(opened)
        finally:
            await daemons.kill_all()


async def recalled(url: str, folder: Path) -> list[object]:
    """What a question finds."""
    done = await Commands(url, folder)("recall", "purple certificate of the server", "--json")
    assert done.code == 0, done.err
    return [(one["content"], one["score"]) for one in done.json]
