"""`memoryd web` outlives its database: while that is lost or hangs each page says so, and comes again by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest

from tests.faults.conftest import OwnPostgres
from tests.support.rows import remember
from tests.support.services.web_pages import Reader, served
from tests.support.waiting import BLOCKED, until

AT_ONCE = ("/", "/memories", "/documents", "/knowledge", "/dreams", "/trail", "/memories?agent=alice")
"""More than there are connections."""
NO_ANSWER = "The database does not answer. Load this page again in a moment."
LONGEST = 110.0
"""A limit for what never comes, below that of the driver for a statement (120 s)."""
NONE_IN_USE = """
select count(*) <= 3 and bool_and(state = 'idle') is not false
from pg_stat_activity where application_name = 'memoryd web'
"""


@pytest.fixture
async def reader(own_postgres: OwnPostgres, tmp_path: Path) -> AsyncIterator[Reader]:
    """Pages with a memory on them."""
    await remembered(own_postgres.url)
    async with served(own_postgres.url, tmp_path, "--edit") as made:
        yield made


async def remembered(url: str) -> None:
    """Stores it."""
    connection = await asyncpg.connect(url)
    await remember(connection, "the ladder is behind the shed")
    await connection.close()


@contextmanager
def frozen(postmaster: int) -> Iterator[None]:
    """A server none of whose processes does anything."""
    server = psutil.Process(postmaster)
    server.suspend()
    while server.status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    # From here on it starts no process, and none that ends is gone before it goes on: so it is resumed last.
    processes = [*server.children(), server]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


async def asked(reader: Reader) -> list[tuple[int, str]]:
    """The status and the text of many pages, asked at once."""
    answers = await asyncio.gather(*(reader.http.get(path, timeout=LONGEST) for path in AT_ONCE))
    return [(answer.status_code, answer.text) for answer in answers]


async def come_again(reader: Reader, url: str) -> None:
    """Waits for all pages, and for all connections to be given back."""
    async with asyncio.timeout(LONGEST):
        while {status for status, _ in await asked(reader)} != {200}:
            await asyncio.sleep(0.1)
    assert "behind the shed" in await reader.read("/memories")
    connection = await asyncpg.connect(url)
    await until(connection, NONE_IN_USE)
    await connection.close()


async def test_pages_outlive_a_server_that_ends(own_postgres: OwnPostgres, reader: Reader) -> None:
    server = own_postgres.server
    for _ in range(2):
        await come_again(reader, own_postgres.url)
        await asyncio.to_thread(server.stop, "immediate")
        assert [status for status, said in await asked(reader) if NO_ANSWER in said] == [503] * len(AT_ONCE)
        await asyncio.to_thread(server.start)
    await come_again(reader, own_postgres.url)


async def test_pages_outlive_connections_that_are_killed_as_they_answer(
    own_postgres: OwnPostgres, reader: Reader
) -> None:
    await come_again(reader, own_postgres.url)
    connection = await asyncpg.connect(own_postgres.url)
    await connection.execute("begin; lock table agent_memory, documents")
    asking = asyncio.create_task(asked(reader))
    waiting = (
        "select pid from pg_stat_activity where application_name = 'memoryd web' and wait_event_type = 'Lock'"
    )
    backend = await until(connection, f"select ({waiting} limit 1)")
    os.kill(backend, signal.SIGKILL)
    answers = await asking
    assert {status for status, _ in answers} <= {200, 503, 504}
    assert 503 in {status for status, _ in answers}
    connection.terminate()
    await come_again(reader, own_postgres.url)


async def test_a_server_that_hangs_holds_no_page(own_postgres: OwnPostgres, tmp_path: Path) -> None:
    postmaster = own_postgres.server.postmaster_pid()
    assert postmaster is not None
    async with AsyncExitStack() as stack:
        reader = await stack.enter_async_context(served(own_postgres.url, tmp_path, page_seconds=2))
        await remembered(own_postgres.url)
        await come_again(reader, own_postgres.url)
        with frozen(postmaster):
            # Whether a connection is open, or wanted, or waited for.
            assert [status for status, said in await asked(reader) if NO_ANSWER in said] == [503] * len(
                AT_ONCE
            )
        await come_again(reader, own_postgres.url)
        with frozen(postmaster):
            await stack.aclose()  # It ends as it should, without its database.


async def test_a_server_that_ends_within_an_erasure_has_erased_nothing_and_the_page_says_so(
    own_postgres: OwnPostgres, reader: Reader
) -> None:
    user = uuid.uuid4()
    path = f"/users/{user}/erasure"
    kept = "select count(*) from agent_memory where user_id = $1"
    connection = await asyncpg.connect(own_postgres.url)
    await remember(connection, "likes tea", user_id=user)
    other = await asyncpg.connect(own_postgres.url)
    await other.execute("begin; update agent_memory set source = 'held' where content = 'likes tea'")
    assert (await reader.send(path, {"sure": "yes"})).status_code == 303
    await until(connection, BLOCKED)
    await asyncio.to_thread(own_postgres.server.stop, "immediate")
    connection.terminate()
    other.terminate()
    await asyncio.to_thread(own_postgres.server.start)
    await come_again(reader, own_postgres.url)
    said = await reader.read_done(path, "erasure", lacks="being deleted since")
    assert "Nothing was deleted: the connection to the database was lost." in said
    connection = await asyncpg.connect(own_postgres.url)
    assert await connection.fetchval(kept, user) == 1
    assert (await reader.send(path, {"sure": "yes"})).status_code == 303
    said = await reader.read_done(path, "erasure", lacks="being deleted since")
    assert "a copy made now has nothing of them" in said
    assert await connection.fetchval(kept, user) == 0
    await connection.close()
