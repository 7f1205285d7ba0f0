"""A real Postgres for every test that needs one: a fresh, migrated database each, and real daemons on it.

MEMORYD_TEST_POSTGRES says which: nothing or `embedded` (the default), `testcontainers`, or the URL of a server on
which databases may be created.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from daemon.embedded_postgres import EmbeddedPostgres
from daemon.migrator import migrate
from tests.support.daemons import DaemonProcess, Daemons

DIMENSIONS = 256
EMBEDDER = "local/wordllama-256"


@dataclass(frozen=True, slots=True)
class Server:
    """A Postgres on which tests make their databases."""

    admin_url: str

    def url_of(self, database: str) -> str:
        """The URL of one of its databases."""
        parts = urlsplit(self.admin_url)
        return urlunsplit(parts._replace(path=f"/{database}"))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server that all tests share."""
    choice = os.environ.get("MEMORYD_TEST_POSTGRES", "embedded")
    if choice == "embedded":
        # Not under pytest's own folder, which the next session closes to others, and so to the server's user.
        with tempfile.TemporaryDirectory(prefix="memoryd-test-") as folder:
            # A test never pulls the plug on the machine, so nothing need reach the disk.
            options = {"fsync": "off", "max_connections": "200"}
            postgres = EmbeddedPostgres(Path(folder), options=options)
            postgres.start()
            try:
                yield Server(postgres.socket_url)
            finally:
                postgres.stop()
    elif choice == "testcontainers":
        # Only where an engine is there to talk to.
        from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415

        with PostgresContainer("pgvector/pgvector:pg18", driver=None) as container:
            yield Server(container.get_connection_url())
    else:
        yield Server(choice)


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """A migrated database to copy."""
    name = f"memoryd_template_{uuid.uuid4().hex[:8]}"

    async def make() -> None:
        admin = await asyncpg.connect(server.admin_url)
        await admin.execute(f"create database {name}")
        await admin.close()
        connection = await asyncpg.connect(server.url_of(name))
        await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
        await connection.close()

    asyncio.run(make())
    return name


@pytest.fixture
async def empty_url(server: Server) -> AsyncIterator[str]:
    """A database with nothing in it."""
    async for url in _database(server, "template1"):
        yield url


@pytest.fixture
async def database_url(server: Server, template: str) -> AsyncIterator[str]:
    """A migrated database."""
    async for url in _database(server, template):
        yield url


async def _database(server: Server, source: str) -> AsyncIterator[str]:
    name = f"memoryd_test_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(server.admin_url)
    try:
        await admin.execute(f"create database {name} template {source}")
        yield server.url_of(name)
        await admin.execute(f"drop database if exists {name} with (force)")
    finally:
        await admin.close()


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the migrated database, as its owner."""
    opened = await asyncpg.connect(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def daemons(database_url: str, tmp_path: Path) -> AsyncIterator[Daemons]:
    """Starts real daemons on the migrated database; those left over are killed at the end."""
    started = Daemons(database_url, tmp_path)
    yield started
    await started.kill_all()


@pytest.fixture
async def daemon(daemons: Daemons) -> DaemonProcess:
    """One running daemon."""
    return await daemons.start()
