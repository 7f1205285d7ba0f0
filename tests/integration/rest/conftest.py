"""A project as Supabase makes it, with a running daemon and its HTTP interface, for the tests of this folder together.

The tests of this folder say `pytestmark = pytest.mark.asyncio(loop_scope="package")`.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from daemon.embedded.server import EmbeddedPostgres
from tests.support.database.schemas import connected
from tests.support.database.supabase import ROLES, Project
from tests.support.postgrest.requests import Rest
from tests.support.postgrest.server import PostgrestServer
from tests.support.processes.daemons import DaemonProcess, Daemons


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def project() -> AsyncIterator[Project]:
    """A server with a database that nothing was done to yet."""
    # pytest's own folders are too long for a socket.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        postgres = EmbeddedPostgres(Path(folder) / "data", options={"fsync": "off", "shared_buffers": "32MB"})
        postgres.start()
        try:
            async with connected(postgres.socket_url) as admin:
                for statement in ROLES:
                    await admin.execute(statement)
            made = Project(postgres.socket_url)
            await made.make("app")
            yield made
        finally:
            postgres.stop()


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def daemon(project: Project, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DaemonProcess]:
    """A daemon on it, which has migrated it."""
    started = Daemons(project.url(), tmp_path_factory.mktemp("daemon"))
    yield await started.start()
    await started.kill_all()


@pytest.fixture(scope="package")
def postgrest(project: Project, daemon: DaemonProcess) -> Iterator[PostgrestServer]:
    """Its HTTP interface."""
    assert daemon.process.returncode is None
    with PostgrestServer(project.url(user="authenticator")) as started:
        yield started


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def rest(postgrest: PostgrestServer) -> AsyncIterator[Rest]:
    """A client of it."""
    async with Rest(postgrest) as opened:
        yield opened
