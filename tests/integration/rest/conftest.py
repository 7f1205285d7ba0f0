"""A project as Supabase makes it, with a running daemon and its HTTP interface, for the tests of this folder together.

The tests of this folder say `pytestmark = pytest.mark.asyncio(loop_scope="package")`.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from plugins.embedded.server import EmbeddedPostgres
from tests.support.database.schemas import connected
from tests.support.database.supabase import ROLES, Project
from tests.support.postgrest.requests import Rest
from tests.support.postgrest.server import PostgrestServer
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.processes.node import INSTALL_SECONDS, NODE, NPM, run
from tests.support.repository import ROOT


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


@pytest.fixture(scope="package")
def npm() -> str:
    """The program."""
    found = shutil.which("npm")
    if found is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed: the TypeScript client is not tested")
    return found


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def package(npm: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with what it needs; in the checkout nothing is installed."""
    folder = tmp_path_factory.mktemp("clients") / "typescript"
    made = shutil.ignore_patterns("node_modules", "dist", "build", "examples")
    shutil.copytree(ROOT / "clients/typescript", folder, ignore=made)
    _, version = await run(folder, "node", "--version", seconds=60)
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < NODE:
        pytest.skip(f"the tests of the TypeScript client need Node 20.14 or newer; this is {version.strip()}")
    try:
        code, said = await run(folder, npm, "ci", *NPM, seconds=INSTALL_SECONDS)
    except TimeoutError:
        pytest.skip("npm could not install the packages that the TypeScript client is tested with: no answer")
    if code:
        why = re.search(r"code (E\w+)", said)
        assert why is None or why[1] not in ("EJSONPARSE", "ERESOLVE", "EINVALIDPACKAGENAME", "EUSAGE"), said
        pytest.skip(
            f"npm could not install the packages that the TypeScript client is tested with: {why and why[1]}"
        )
    return folder
