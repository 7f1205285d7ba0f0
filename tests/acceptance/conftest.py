"""The `memoryd` command, on the database of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from plugins.embedded.server import EmbeddedPostgres
from tests.conftest import RUN
from tests.integration.conftest import both_reused, connection, daemons, database_url, reused
from tests.support.access.acting import ANN, BOB
from tests.support.access.users import whole_user
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.folders import made_once, server_folder
from tests.support.processes.commands import Commands
from tests.support.processes.tenants import Tenants
from tests.support.repository import ROOT, build

__all__ = ["both_reused", "connection", "daemons", "database_url", "reused"]
"""Each file has one database, which is emptied after each test."""


@pytest.fixture(scope="session")
def wheel(pytestconfig: pytest.Config) -> Path:
    """memoryd's, which is built once a run."""
    folder = made_once(pytestconfig.stash[RUN].folder, "wheel", lambda half: build(ROOT, half))
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture
def memoryd(database_url: str, tmp_path: Path) -> Commands:
    """Runs commands on the migrated database."""
    return Commands(database_url, tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(server: Server, template: str) -> AsyncIterator[str]:
    """A migrated database for all tests of a file."""
    async with copied(server, template) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def db(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to it, as its owner."""
    async with connected(url) as opened:
        yield opened


@pytest.fixture
async def backup(memoryd: Commands, connection: asyncpg.Connection, tmp_path: Path) -> Path:
    """A backup of a database with two users, and a table that is not memoryd's."""
    await whole_user(connection, ANN, 'wombat ★ "quoted" 💾')
    await whole_user(connection, BOB, "numbat")
    await connection.execute("create table mine (id integer primary key, said text)")
    await connection.execute("insert into mine values (1, 'kept')")
    done = await memoryd("backup", str(tmp_path / "one.backup"))
    assert done.code == 0, done.err
    return tmp_path / "one.backup"


@pytest.fixture
async def tenants(server: Server, tmp_path: Path) -> AsyncIterator[Tenants]:
    """No tenant yet."""
    made = Tenants(server, tmp_path)
    yield made
    await made.drop()


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The URL of a second server, with a password in it."""
    with server_folder() as folder:
        postgres = EmbeddedPostgres(folder / "data")
        postgres.start()
        yield postgres.tcp_url
        postgres.stop("immediate")
