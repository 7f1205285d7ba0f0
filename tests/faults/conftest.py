"""What only the fault tests need: a Postgres that may be broken, a remote embedder that may be down, many databases."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from daemon.db.migrator import migrate
from plugins.embedded.server import EmbeddedPostgres
from tests.conftest import RUN, make_templates
from tests.integration.conftest import both_reused, connection, daemon, daemons, database_url, reused
from tests.support.database.many import Many, many_databases
from tests.support.database.owners import make_owner
from tests.support.database.schemas import EMBEDDER, connected
from tests.support.database.servers import Server, wanted
from tests.support.database.templates import BARE, PGVECTOR, make_once, repeatedly
from tests.support.folders import quiet_port, server_folder
from tests.support.processes.daemons import Daemons
from tests.support.rows import DIMENSIONS

__all__ = ["both_reused", "connection", "daemon", "daemons", "database_url", "reused"]
"""Each file has one database, which is emptied after each test."""

OWN_EMPTY, OWN_TEMPLATE = "memoryd_empty", "memoryd_test_template"
"""On the server of the tests that break it."""


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
async def own_postgres(own_server: EmbeddedPostgres, server: Server) -> AsyncIterator[OwnPostgres]:
    """The server, up, with a migrated database in it."""
    own_server.start()
    here = Server(own_server.socket_url, server.programs, server.owner)
    await make_owner(here.admin_url, here.owner)
    await make_once(here, OWN_EMPTY, lambda one: one.execute(PGVECTOR), source=BARE, by_admin=True)
    await make_once(here, OWN_TEMPLATE, migrated, source=OWN_EMPTY)
    name = f"memoryd_test_{uuid.uuid4().hex[:12]}"
    async with connected(here.admin_url) as admin:
        await admin.execute(
            f"create database {name} template {OWN_TEMPLATE} strategy file_copy owner {here.owner}"
        )
    yield OwnPostgres(own_server, here.url_of(name))
    own_server.start()


async def migrated(connection: asyncpg.Connection) -> None:
    """Fills the database."""
    await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)


@pytest.fixture(scope="session")
def two_servers(
    server: Server, template: str, pytestconfig: pytest.Config
) -> Iterator[list[tuple[Server, str]]]:
    """Two servers with their templates; the same twice, where the tests have only one."""
    run = pytestconfig.stash[RUN]
    with ExitStack() as stack:
        other = server
        if len(wanted()) > 1:
            other = repeatedly("a second server", lambda: stack.enter_context(run.server(wanted()[1])))
            make_templates(other, run)
        yield [(server, template), (other, template)]


@pytest.fixture
async def many(two_servers: list[tuple[Server, str]], tmp_path: Path) -> AsyncIterator[Many]:
    """Two databases on each server."""
    async with many_databases(two_servers, 2, tmp_path) as made:
        yield made


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Daemons]:
    """Starts processes that serve many databases."""
    started = Daemons("postgresql://nobody@127.0.0.1:1/not-used", tmp_path)
    yield started
    await started.kill_all()
