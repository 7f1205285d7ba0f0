"""What only the fault tests need: a Postgres that may be broken, and a remote embedder that may be down."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from daemon.db.migrator import migrate
from daemon.embedded.server import EmbeddedPostgres
from tests.support.database.schemas import EMBEDDER
from tests.support.database.servers import Server
from tests.support.folders import quiet_port, server_folder
from tests.support.rows import DIMENSIONS
from tests.support.services.remote import Remote, remote_embedder


@dataclass(frozen=True, slots=True)
class OwnPostgres:
    """A server of the test's own, and a migrated database on it."""

    server: EmbeddedPostgres
    url: str


@pytest.fixture(scope="session")
def own_server(server: Server) -> Iterator[EmbeddedPostgres]:
    """A server beside the shared one, for tests that restart it or send signals to its processes."""
    # Without TCP the port is but a part of the socket's name, and no other server takes it while this one is down.
    options = {"fsync": "off", "listen_addresses": ""}
    with server_folder() as folder:
        postgres = EmbeddedPostgres(folder, port=quiet_port(), options=options, programs=server.programs)
        try:
            yield postgres
        finally:
            postgres.stop()


@pytest.fixture
async def own_postgres(own_server: EmbeddedPostgres) -> AsyncIterator[OwnPostgres]:
    """The server, up, with a database in it."""
    own_server.start()
    name = f"memoryd_test_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(own_server.socket_url)
    await admin.execute(f"create database {name}")
    await admin.close()
    url = own_server.socket_url.replace("/memoryd?", f"/{name}?")
    connection = await asyncpg.connect(url)
    await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
    await connection.close()
    yield OwnPostgres(own_server, url)
    own_server.start()


@pytest.fixture
async def remote(empty_url: str, tmp_path: Path) -> AsyncIterator[Remote]:
    """A remote embedder, and a database made for it."""
    async with remote_embedder(empty_url, tmp_path) as made:
        yield made
