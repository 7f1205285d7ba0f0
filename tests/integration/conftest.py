"""What the tests of one file share: a database, connections, a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from daemon.db.pool import Database
from tests.support.database.reused import Reused
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied, make_once
from tests.support.database.tokens import put_tokens_in
from tests.support.processes.daemons import DEFAULTS, DaemonProcess, Daemons

OF_THE_CORE = ("commands", "conversations", "knowledge", "memory", "recall", "requests")
"""The tests in these folders run daemons without any plugin, as the core needs none."""
WITH_PLUGINS = ("test_context_story.py", "test_entries.py", "test_leases.py", "test_message_entries.py")
"""Except these: documents cuts documents into chunks, facts does the jobs `names` of rows that are older than the first daemon,
executor takes back commands whose executor has died."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a file, tests of the same daemon follow each other, so that it starts once."""

    def place(item: pytest.Item) -> tuple[Path, object]:
        called = getattr(item, "callspec", None)
        return item.path, called and called.params.get("server_name")

    def daemon(item: pytest.Item) -> bool:
        return "daemon" in getattr(item, "fixturenames", ())

    here = Path(__file__).parent
    items[:] = [
        item
        for (path, _), group in groupby(items, place)
        for item in (sorted(group, key=daemon) if path.is_relative_to(here) else group)
    ]


@pytest.fixture(scope="module", autouse=True)
def plugins(request: pytest.FixtureRequest) -> Iterator[None]:
    """None for daemons that tests of the core start."""
    if request.path.parent.name in OF_THE_CORE and request.path.name not in WITH_PLUGINS:
        DEFAULTS["plugins"] = ()
    yield
    DEFAULTS.pop("plugins", None)


@pytest.fixture(scope="module")
async def shared_url(server: Server, template: str) -> AsyncIterator[str]:
    """A migrated database for the tests of this file."""
    async with copied(server, template) as url:
        yield url


@pytest.fixture(scope="module")
async def shared_daemon(
    shared_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DaemonProcess]:
    """A daemon on it."""
    started = Daemons(shared_url, tmp_path_factory.mktemp("daemon"))
    yield await started.start()
    await started.kill_all()


@pytest.fixture
async def served(shared_url: str, shared_daemon: DaemonProcess) -> AsyncIterator[asyncpg.Connection]:
    """A connection to it, while the daemon runs."""
    assert shared_daemon.process.returncode is None
    opened = await asyncpg.connect(shared_url)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
async def both_reused(
    request: pytest.FixtureRequest, server: Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Reused, Reused]]:
    """Databases that are emptied after each test of this file; in `db`, where most change its catalog, a new one each.

    The second has the local embedder's tokens.
    """
    once = request.path.parent.name == "db"
    sources = (template, f"{template}_tokens")
    plain, full = (Reused(server, each, tmp_path_factory.mktemp("daemon"), once=once) for each in sources)
    yield plain, full
    await plain.close()
    await full.close()


@pytest.fixture
async def reused(
    request: pytest.FixtureRequest, server: Server, template: str, both_reused: tuple[Reused, Reused]
) -> Reused:
    """The one of the test: with tokens if it asks for `tokens`."""
    plain, full = both_reused
    if "tokens" not in request.fixturenames:
        return plain
    await make_once(server, f"{template}_tokens", put_tokens_in, source=template)
    return full


@pytest.fixture
async def database_url(request: pytest.FixtureRequest, reused: Reused) -> AsyncIterator[str]:
    """Its URL."""
    await reused.open()
    if "daemon" not in request.fixturenames:
        await reused.end_daemon()
    yield reused.url
    await reused.empty()


@pytest.fixture
async def connection(database_url: str, reused: Reused) -> asyncpg.Connection:
    """A connection to it, as its owner."""
    return reused.connection


@pytest.fixture
async def database(database_url: str, reused: Reused) -> Database:
    """The daemon's own way to it."""
    return await reused.database()


@pytest.fixture
async def daemons(database_url: str, tmp_path: Path) -> AsyncIterator[Daemons]:
    """Starts real daemons on it; those left over are killed at the end."""
    started = Daemons(database_url, tmp_path)
    yield started
    await started.kill_all()


@pytest.fixture
async def daemon(database_url: str, reused: Reused) -> DaemonProcess:
    """The daemon that runs on it from one test to the next."""
    return await reused.daemon()


@pytest.fixture(scope="module")
async def kept(shared_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The connection of `scratch`: a new one would compile a hundred functions for the first question that it asks."""
    opened = await asyncpg.connect(shared_url)
    yield opened
    await opened.close()


@pytest.fixture
async def scratch(kept: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """A connection whose transaction is undone: for tests whose rows neither a daemon nor another session needs to see."""
    async with undone(kept):
        yield kept


@pytest.fixture
async def admin_scratch(server: Server, shared_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The same as the superuser, for tests that say what they need it for."""
    async with connected(server.admin_url_of(urlsplit(shared_url).path[1:])) as opened, undone(opened):
        yield opened


@asynccontextmanager
async def undone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """Undoes all that the connection did meanwhile."""
    transaction = connection.transaction()
    await transaction.start()
    yield
    await transaction.rollback()
    await connection.reset()
