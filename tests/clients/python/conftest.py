"""A database with a running daemon that all tests of the Python client share. Each has agents, users and sessions of its own.

Such a file says `pytestmark = pytest.mark.asyncio(loop_scope="session")`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio
from memoryd_client import Database

from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.daemons import DaemonProcess, Daemons


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client_url(server: Server, template: str) -> AsyncIterator[str]:
    """A migrated database for all tests of the client."""
    async with copied(server, template) as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client_daemon(
    client_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DaemonProcess]:
    """A daemon on it."""
    started = Daemons(client_url, tmp_path_factory.mktemp("daemon"))
    yield await started.start(claim_seconds=3)  # so that commands of executors that died are soon run again
    await started.kill_all()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def db(client_url: str) -> AsyncIterator[Database]:
    """The client's way to it."""
    async with Database(client_url) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def owner(client_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to it as its owner."""
    async with connected(client_url) as opened:
        yield opened


@pytest.fixture
def agent() -> str:
    """An agent of the test's own."""
    return f"agent-{uuid4().hex[:8]}"


@pytest.fixture
def user() -> UUID:
    """An end user of the test's own."""
    return uuid4()
