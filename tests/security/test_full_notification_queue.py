"""A full notification queue fails no insert, whatever filled it; the daemon then finds its work by the poll."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from daemon.db.migrator import migrate
from daemon.queue import queue
from plugins.embedded.server import EmbeddedPostgres
from tests.support.content.index import UNINDEXED
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import EMBEDDER
from tests.support.database.servers import Server
from tests.support.folders import server_folder
from tests.support.processes.daemons import Daemons
from tests.support.processes.workers import open_database
from tests.support.rows import DIMENSIONS, column
from tests.support.waiting import IDLE, until

FILL = "select count(pg_notify('noise', repeat('x', 7000) || n)) from generate_series(1, 8) n"
USAGE = "select pg_notification_queue_usage()"


@pytest.fixture(scope="module")
def small_queue(server: Server) -> Iterator[EmbeddedPostgres]:
    """A server whose notification queue has half a megabyte instead of eight gigabytes."""
    if server.programs.version < 17:
        pytest.skip("the size of the queue is a setting from Postgres 17 on")
    with server_folder() as folder:
        options = {"fsync": "off", "shared_buffers": "32MB", "max_notify_queue_pages": "64"}
        postgres = EmbeddedPostgres(folder, options=options, programs=server.programs)
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.stop()


@pytest.fixture
async def url(small_queue: EmbeddedPostgres) -> AsyncIterator[str]:
    """A migrated database on it."""
    admin = await asyncpg.connect(small_queue.socket_url)
    name = f"memoryd_test_{uuid.uuid4().hex[:12]}"
    await admin.execute(f"create database {name}")
    made = small_queue.socket_url.replace("/memoryd?", f"/{name}?")
    connection = await asyncpg.connect(made)
    await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
    await connection.close()
    yield made
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


async def fill(sender: asyncpg.Connection) -> None:
    """Notifies until the server refuses. What listeners of before have left is cleared away by asking how full it is."""
    await sender.fetchval(USAGE)
    while True:
        await sender.execute(FILL)


@pytest.fixture
async def full(url: str) -> AsyncIterator[None]:
    """The queue, filled by any login while a listener stands idle in a transaction."""
    idle, sender = await asyncpg.connect(url), await asyncpg.connect(url)
    await idle.execute("listen noise")
    transaction = idle.transaction()
    await transaction.start()
    await idle.execute("select 1")
    with pytest.raises(asyncpg.ProgramLimitExceededError):
        await fill(sender)
    assert await sender.fetchval(USAGE) > 0.5
    yield
    await transaction.rollback()
    await idle.close()
    await sender.close()


@pytest.fixture
async def daemons_at(url: str, tmp_path: Path) -> AsyncIterator[Daemons]:
    """Starts daemons on the server with the small queue."""
    started = Daemons(url, tmp_path)
    yield started
    await started.kill_all()


async def work(connection: asyncpg.Connection) -> None:
    """A row of every kind that makes work or is announced."""
    await one_of_each(connection, "boats in May")
    await connection.execute("insert into agent_commands (agent_id, message) values ('alice', 'sail')")
    await connection.execute(
        "insert into agent_commands (agent_id, message, status) values ('alice', 'sail', 'completed'), ('bob', 'row', 'ready')"
    )
    await connection.execute("insert into memory_requests (kind, query) values ('recall', 'boats')")
    await connection.execute("insert into memory_requests (kind) values ('dream')")
    await connection.execute("update agent_memory set content = 'boats in June'")
    await connection.execute("delete from conversation_messages")


async def test_with_a_full_notification_queue_rows_are_written_and_processed_by_the_poll(
    url: str, full: None, daemons_at: Daemons
) -> None:
    connection = await asyncpg.connect(url)
    await work(connection)
    # It starts meanwhile, and waits for no notification.
    daemon = await daemons_at.start(poll_seconds=0.2)
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    assert await column(connection, UNINDEXED, "memory") == []
    await work(connection)
    await until(connection, IDLE)
    assert await connection.fetchval(USAGE) > 0.5
    assert (await daemon.event("daemon_started"))["wake_up"] == "listen"
    assert not daemon.events("job_retried")
    await connection.close()


async def test_dead_letters_are_requeued(url: str, full: None) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "insert into memoryd.dead_letters (id, topic, attempts, error, created_at) values (1, 'index', 1, 'x', now())"
    )
    async with open_database(url) as database:
        assert await queue.requeue(database) == 1
    await connection.close()
