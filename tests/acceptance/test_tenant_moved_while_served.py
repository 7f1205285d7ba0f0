"""memoryd tenant move of a database that a process for many databases serves: it follows, and every row is there once."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from daemon.db.errors import DATABASE_FAULTS
from tests.support.content.finished import all_done
from tests.support.database.schemas import connected
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.processes.tenants import Tenants, is_open, named
from tests.support.rows import ask, column
from tests.support.waiting import FINISHED, until

RESTS = """
select exists (
    select from memoryd.daemons d join pg_stat_activity a on a.pid = d.backend and a.datname = current_database()
    where d.wake_up = 'rest')
"""
# Said again where nobody answered: it is the same command.
SAY = """
insert into agent_commands (id, agent_id, message) values ($1, $2, 'deploy service ' || $3) on conflict do nothing
"""


@dataclass(slots=True)
class Client:
    """Asks for work all the time, at the place that the list names, each command until the database has taken it."""

    place: Callable[[], str]
    taken: set[uuid.UUID] = field(default_factory=set)
    sent: set[uuid.UUID] = field(default_factory=set)
    """Taken, or sent when it was told to stop: whether the database took the last one it did not hear."""
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def work(self) -> None:
        """Until it is cancelled."""
        while True:
            command = uuid.uuid4()
            while command not in self.taken:
                try:
                    async with connected(self.place()) as opened:
                        await self._say(opened, command)
                except DATABASE_FAULTS:
                    await asyncio.sleep(0.02)

    async def _say(self, opened: asyncpg.Connection, command: uuid.UUID) -> None:
        """This one, and more, until the connection is lost."""
        while True:
            number = len(self.taken)
            self.sent.add(command)
            await opened.execute(SAY, command, f"agent {number % 3}", str(number))
            async with self.news:
                self.taken.add(command)
                self.news.notify_all()
            command = uuid.uuid4()
            await asyncio.sleep(0.02)

    async def more(self, number: int = 5) -> None:
        """Waits until so many more are taken."""
        wanted = len(self.taken) + number
        async with self.news, asyncio.timeout(60):
            await self.news.wait_for(lambda: len(self.taken) >= wanted)


@asynccontextmanager
async def working(place: Callable[[], str]) -> AsyncIterator[Client]:
    """A client that is at work."""
    client = Client(place)
    task = asyncio.create_task(client.work())
    try:
        yield client
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled(), task.exception()


@pytest.fixture
async def process(tenants: Tenants, tmp_path: Path) -> AsyncIterator[DaemonProcess]:
    """Serves two tenants, and runs their commands."""
    await tenants.add("one")
    await tenants.add("other")
    daemons = Daemons("", tmp_path)
    yield await daemons.start(
        database_urls=tenants.file,
        executor_command="cat",
        rest_seconds=1,
        poll_seconds=1,
        heartbeat_seconds=1,
        claim_seconds=3,
        # What waits for the old place is not waited for.
        shutdown_seconds=600,
    )
    await daemons.kill_all()


async def moved(tenants: Tenants, process: DaemonProcess) -> str:
    """Moves the first tenant, and tells the process; the new place."""
    name, new = tenants.name("one"), named(tenants.urls()[tenants.name("one")], tenants.name("two"))
    done = await tenants("move", name, new)
    assert done.code == 0, done.err
    assert f"kill -HUP {process.process.pid}" in done.err
    process.process.send_signal(signal.SIGHUP)
    await process.event("databases_read", changed=1)
    return new


async def test_what_clients_write_before_and_after_is_there_once(
    tenants: Tenants, process: DaemonProcess
) -> None:
    one, other = tenants.name("one"), tenants.name("other")
    old = tenants.urls()[one]
    async with connected(tenants.urls()[other]) as beside:
        async with working(lambda: tenants.urls()[one]) as client:
            await client.more()
            before = set(client.taken)
            new = await moved(tenants, process)
            await client.more()
            assert before < client.taken
            # The other one did not notice.
            await until(beside, FINISHED, await ask(beside, "restart the worker"))
        async with connected(new) as opened:
            await all_done(opened)
            commands = await opened.fetch("select id, status, output from agent_commands")
    assert client.taken <= {row["id"] for row in commands} <= client.sent
    assert {row["status"] for row in commands} == {"completed"}
    assert not await is_open(old)
    assert [line for line in process.lines if line["level"] in ("error", "critical")] == []
    assert await process.stop() == 0


async def test_a_database_that_rests_is_served_at_its_new_place(
    tenants: Tenants, process: DaemonProcess
) -> None:
    async with connected(tenants.urls()[tenants.name("one")]) as opened:
        first = await ask(opened, "deploy the staging server")
        await until(opened, RESTS)
    new = await moved(tenants, process)
    async with connected(new) as opened:
        second = await ask(opened, "restart the worker")
        await all_done(opened)
        assert await column(opened, "select id from agent_commands order by created_at") == [first, second]
        await until(opened, RESTS)
