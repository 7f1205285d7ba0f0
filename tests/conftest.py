"""A real Postgres for every test that needs one: a migrated database, and real daemons on it.

All of it belongs to a plain owner (tests/support/database/owners.py), and tests and daemons connect as this owner. Each such
test runs on every server that `tests/support/database/servers.py` names.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import hypothesis
import pytest
import structlog

from daemon.cli.common import reach_this_machine_directly
from daemon.db.migrator import migrate
from daemon.db.pool import Database
from plugins.embedded.server import EmbeddedPostgres
from tests.support.database import data_folders
from tests.support.database.schemas import EMBEDDER, connected
from tests.support.database.servers import Run, Server, wanted
from tests.support.database.templates import BARE, PGVECTOR, copied, make_once, repeatedly
from tests.support.database.tokens import leave_tokens_out, put_tokens_in
from tests.support.folders import made_once, server_folder
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.processes.workers import CREATE_DONE, open_database
from tests.support.rows import DIMENSIONS
from tests.support.services.remote import Remote, remote_embedder

MAX_WORKERS = 8

# The same cases in each run, so that a run tells of this change alone. To look for new ones: --hypothesis-profile=default
# No deadline: how long a case takes depends on what else the machine does.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("repeatable")

# The servers that tests start are on this machine.
reach_this_machine_directly(os.environ)

RUN = pytest.StashKey[Run]()


def pytest_configure(config: pytest.Config) -> None:
    """Begins the test run, or joins it: of its processes, one leads."""
    # Thousands of tests are collected and stay: to look through them for garbage again and again takes seconds.
    gc.disable()
    # Told to end, a run ends as at Ctrl-C, and leaves no server behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    led = getattr(config, "workerinput", None)
    config.stash[RUN] = Run(Path(led["run"])) if led is not None else Run.begin()


def pytest_collection_finish() -> None:
    """From here on only what the tests themselves make is garbage."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a process where the run's things are."""
    node.workerinput["run"] = str(node.config.stash[RUN].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the run once all its processes have ended."""
    if RUN in config.stash and not hasattr(config, "workerinput"):
        config.stash[RUN].end()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """A server that cannot start is told once, before the first test; the processes of the run find those that did."""
    for name in wanted():
        if any(f"[{name}" in each for each in ids):
            with ExitStack() as stack:
                _start(node.config, name, stack)


def _start(config: pytest.Config, name: str, stack: ExitStack) -> Server:
    try:
        return repeatedly(name, lambda: stack.enter_context(config.stash[RUN].server(name)))
    except Exception as error:
        if hasattr(config, "workerinput"):
            raise
        pytest.exit(f"No test can have its database, since {name} does not start: {error}", returncode=1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many processes `-n auto` is: one more than cores, since tests also wait."""
    return min((os.cpu_count() or 1) + 1, MAX_WORKERS)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command that runs in this process sets its level of logs; the tests after it must not have it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)


ON_EVERY_SERVER = (
    "acceptance/test_cli_backup_verify.py", "faults/test_fencing.py",
    "integration/conversations/test_conversations.py", "integration/conversations/test_history_view.py",
    "integration/db/test_bad_input.py",
    "integration/db/test_dense_indexes.py", "integration/db/test_migrations.py",
    "integration/db/test_ownership.py", "integration/db/test_query_plans.py",
    "integration/documents/test_documents_tables.py",
    "integration/knowledge/test_knowledge.py", "integration/recall/test_match_memory.py",
    "integration/recall/test_recall_index.py", "integration/users/test_escalation.py",
    "integration/users/test_isolation_leaks.py", "integration/users/test_row_level_security.py",
    "security/test_identity.py", "security/test_table_locks.py",
)  # fmt: skip
"""What depends on the server is tested on each: plans, locks, policies, constraints, statements.

What processes, programs, the network or the text of functions decide is tested on the first of the servers only: all other
files, and in these the tests that are marked `first_server`."""


SLOWEST = (
    "acceptance/test_make_run.py", "faults/test_pages.py", "faults/test_demoted.py", "faults/test_many_databases.py",
    "web/test_hostile_forms.py", "web/test_every_page.py", "web/test_hostile_texts.py", "integration/replica/test_sequences.py",
    "faults/test_kill.py", "faults/test_listener.py", "faults/test_database_lost.py", "faults/test_reembed.py",
    "faults/test_turns_of_databases.py", "faults/test_embedder_down.py", "acceptance/test_replica.py",
    "security/test_erasure_in_flight.py", "security/test_lock_squatting.py", "acceptance/test_tested_releases.py",
    "integration/rest/test_typescript_client.py", "integration/audit/test_find.py",
)  # fmt: skip
"""Tests that wait for seconds. One process takes them all, first of all; the others do the rest meanwhile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the slowest files first."""
    items.sort(key=lambda item: _place_of(item) not in SLOWEST)


def _place_of(item: pytest.Item) -> str:
    return str(item.path.relative_to(Path(__file__).parent))


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes items for further servers only where the server matters."""
    if "server_name" in metafunc.fixturenames:
        first = metafunc.definition.get_closest_marker("first_server") is not None
        everywhere = _place_of(metafunc.definition) in ON_EVERY_SERVER and not first
        metafunc.parametrize(
            "server_name", wanted() if everywhere else wanted()[:1], indirect=True, scope="session"
        )


@pytest.fixture(scope="session")
def server_name(request: pytest.FixtureRequest) -> str:
    """One of `wanted`."""
    return str(request.param)


@pytest.fixture(scope="session")
def server(server_name: str, pytestconfig: pytest.Config) -> Iterator[Server]:
    """The server that all tests share."""
    with ExitStack() as stack:
        yield _start(pytestconfig, server_name, stack)


@pytest.fixture(scope="session")
def empty(server: Server, pytestconfig: pytest.Config) -> str:
    """A database to copy in which an administrator has made pgvector, and nobody anything else."""
    return make_templates(server, pytestconfig.stash[RUN])[0]


@pytest.fixture(scope="session")
def template(server: Server, pytestconfig: pytest.Config) -> str:
    """A migrated database to copy."""
    return make_templates(server, pytestconfig.stash[RUN])[1]


def make_templates(server: Server, run: Run) -> tuple[str, str]:
    """The two, by their names."""

    async def make() -> None:
        await make_once(server, run.empty, lambda one: one.execute(PGVECTOR), source=BARE, by_admin=True)
        await make_once(server, run.template, fill_template, source=run.empty)

    repeatedly(run.template, lambda: asyncio.run(make()))
    return run.empty, run.template


async def fill_template(connection: asyncpg.Connection) -> None:
    await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
    await leave_tokens_out(connection)


@pytest.fixture
async def empty_url(server: Server, empty: str) -> AsyncIterator[str]:
    """A database with pgvector and nothing else in it."""
    async with copied(server, empty) as url:
        yield url


@pytest.fixture
async def database_url(request: pytest.FixtureRequest, server: Server, template: str) -> AsyncIterator[str]:
    """A migrated database; with the local embedder's tokens for tests that ask for `tokens`."""
    source = template
    if "tokens" in request.fixturenames:
        source = f"{template}_tokens"
        await make_once(server, source, put_tokens_in, source=template)
    async with copied(server, source) as url:
        yield url


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the migrated database, as its owner."""
    async with connected(database_url) as opened:
        yield opened


@pytest.fixture
async def admin(server: Server, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection to the same database, for tests that say what they need it for."""
    async with connected(server.admin_url_of(urlsplit(database_url).path[1:])) as opened:
        yield opened


@pytest.fixture
def tokens(database_url: str) -> None:
    """The local embedder's tokens in the database of `connection`: memoryd.embed() works there."""


@pytest.fixture
async def second(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Another connection to the database of `connection`."""
    async with connected(database_url) as opened:
        yield opened


@pytest.fixture
async def third(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """One more."""
    async with connected(database_url) as opened:
        yield opened


@pytest.fixture
async def database(database_url: str, connection: asyncpg.Connection) -> AsyncIterator[Database]:
    """The daemon's own way to the database of `connection`, with a table for what the workers of a test did."""
    await connection.execute(CREATE_DONE)
    async with open_database(database_url) as opened:
        yield opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder to run the daemon in; the server of `data` in it is stopped at the end."""
    with server_folder() as path:
        yield path
        EmbeddedPostgres(path / "data").stop("immediate")


@pytest.fixture(scope="session")
def made_data(pytestconfig: pytest.Config) -> Path:
    """A data folder to copy, with a migrated database."""
    run = pytestconfig.stash[RUN].folder
    return repeatedly("a data folder", lambda: made_once(run, "made", data_folders.fill)) / "data"


@pytest.fixture
def data(folder: Path, made_data: Path) -> Path:
    """The data folder in `folder`, of a memoryd that has ended: with a migrated database, and no server that runs."""
    data_folders.copy(made_data, folder / "data")
    return folder / "data"


@pytest.fixture
async def daemons(database_url: str, tmp_path: Path) -> AsyncIterator[Daemons]:
    """Starts real daemons on the migrated database; those left over are killed at the end."""
    started = Daemons(database_url, tmp_path)
    yield started
    await started.kill_all()


@pytest.fixture
async def remote(server: Server, empty: str, tmp_path: Path) -> AsyncIterator[Remote]:
    """A remote embedder, and a database made for it."""
    async with remote_embedder(server, empty, tmp_path) as made:
        yield made


@pytest.fixture
async def daemon(daemons: Daemons) -> DaemonProcess:
    """One running daemon."""
    return await daemons.start()
