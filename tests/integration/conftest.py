"""A database with a running daemon that the tests of one file share: for the many that change nothing for each other.

Such a file says `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.daemons import DaemonProcess, Daemons


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_url(server: Server, template: str) -> AsyncIterator[str]:
    """A migrated database for the tests of this file."""
    async with copied(server, template) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_daemon(
    shared_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DaemonProcess]:
    """A daemon on it."""
    started = Daemons(shared_url, tmp_path_factory.mktemp("daemon"))
    yield await started.start()
    await started.kill_all()


@pytest_asyncio.fixture(loop_scope="module")
async def served(shared_url: str, shared_daemon: DaemonProcess) -> AsyncIterator[asyncpg.Connection]:
    """A connection to it, while the daemon runs."""
    assert shared_daemon.process.returncode is None
    opened = await asyncpg.connect(shared_url)
    yield opened
    await opened.close()


@pytest.fixture
async def scratch(shared_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection whose transaction is undone: for tests whose rows neither a daemon nor another session needs to see."""
    async with undone(shared_url) as opened:
        yield opened


@pytest.fixture
async def admin_scratch(server: Server, shared_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The same as the superuser, for tests that say what they need it for."""
    async with undone(server.admin_url_of(urlsplit(shared_url).path[1:])) as opened:
        yield opened


@asynccontextmanager
async def undone(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection whose transaction is undone."""
    opened = await asyncpg.connect(url)
    transaction = opened.transaction()
    await transaction.start()
    yield opened
    await transaction.rollback()
    await opened.close()
