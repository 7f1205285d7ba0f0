"""Several daemons on one database do everything once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime

import asyncpg
import pytest
from structlog.testing import capture_logs

from daemon.db.pool import Database
from daemon.logs import get_logger
from daemon.schedule import Schedule, Tick
from daemon.settings import load_settings
from daemon.topics import build_dreamer
from handlers.dream.dreamer import Dreamer
from handlers.shared.embedding import Embedding
from providers.local_embedder import LocalEmbedder
from tests.support.content.finished import all_done
from tests.support.processes.daemons import Daemons
from tests.support.processes.load import load_on
from tests.support.processes.workers import open_database
from tests.support.waiting import beats, until

ROUNDS = 6

REQUESTS = """
insert into memory_requests (kind, agent_id, query)
select kind, 'agent ' || n, 'deploy service ' || n from unnest('{recall,context}'::text[]) kind, generate_series(0, 5) n
"""

OVERLAPPING_DREAMS = """
select count(*) from dream_sessions a join dream_sessions b on a.id < b.id
where tstzrange(a.started_at, a.finished_at) && tstzrange(b.started_at, b.finished_at)
"""


async def test_every_topic_is_done_once(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    both = [
        await daemons.start(poll_seconds=0.3, cleanup_seconds=1, executor_command="cat") for _ in range(2)
    ]
    await connection.execute(
        """
        insert into agent_memory (agent_id, content, expires_at)
        select 'forgetful', 'note ' || n, now() from generate_series(1, 300) n
        """
    )
    async with load_on(database_url, rounds=ROUNDS, pause=0.01):
        for _ in range(2):
            await connection.execute(REQUESTS)
    await until(connection, "select not exists (select from agent_memory where agent_id = 'forgetful')")
    await all_done(connection)
    counts = await connection.fetchrow(
        """
        select (select count(*) from agent_commands) as commands,
               (select count(*) from agent_memory where command_id is not null) as remembered,
               (select count(*) from agent_memory where command_id is null) as notes,
               (select count(*) from memory_requests where status = 'done' and result is not null) as answers,
               (select count(*) from memory_queries where command_id is not null) as contexts,
               (select count(distinct command_id) from memory_queries) as commands_with_context,
               (select count(*) from memory_queries where command_id is null) as asked_for
        """
    )
    assert counts is not None
    assert dict(counts) == {
        "commands": ROUNDS * 13,
        "remembered": ROUNDS * 13,
        "notes": ROUNDS * 10,
        "answers": 24,
        "contexts": ROUNDS * 3,
        "commands_with_context": ROUNDS * 3,
        "asked_for": 24,
    }
    for daemon in both:
        assert await daemon.stop() == 0
        assert not [line for line in daemon.lines if line.get("level", "error") in ("warning", "error")], (
            daemon.text()
        )
    assert sum(line["memories"] for daemon in both for line in daemon.events("memories_expired")) == 300
    executed = [line["command"] for daemon in both for line in daemon.events("command_executed")]
    assert len(executed) == len(set(executed)) == ROUNDS * 3


async def test_a_tick_is_run_by_one_daemon(database_url: str) -> None:
    runs: list[datetime] = []
    enough = asyncio.Event()
    slot = "select not_before from memoryd.lanes where topic = 'tick' and lane = 'count'"

    async with open_database(database_url) as database:

        async def run() -> None:
            runs.append(await database.fetchval(slot))
            if len(runs) == 3:
                enough.set()

        schedules = [Schedule(database=database, logger=get_logger()) for _ in range(4)]
        for schedule in schedules:
            schedule.add(Tick("count", 1, run))
            schedule.start()
        await asyncio.wait_for(enough.wait(), 60)
        await asyncio.gather(*(schedule.stop() for schedule in schedules))
    assert runs == sorted(set(runs))


async def test_a_tick_that_is_running_when_the_daemon_stops_ends_first(
    database_url: str, connection: asyncpg.Connection
) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        began.set()
        await asyncio.sleep(0.1)
        ended.set()

    async with open_database(database_url) as database:
        schedule = Schedule(database=database, logger=get_logger())
        schedule.add(Tick("slow", 1, run))
        schedule.start()
        await asyncio.wait_for(began.wait(), 90)
        await schedule.stop()
    assert ended.is_set()
    assert await connection.fetchval("select count(*) from memoryd.lanes where topic = 'tick'") == 1


async def test_a_tick_with_a_bug_is_logged_and_runs_again(database_url: str) -> None:
    runs: list[int] = []
    again = asyncio.Event()

    async def run() -> None:
        runs.append(1)
        if len(runs) == 2:
            again.set()
        raise KeyError("what a user said")

    with capture_logs() as lines:
        async with open_database(database_url) as database:
            schedule = Schedule(database=database, logger=get_logger())
            schedule.add(Tick("faulty", 1, run))
            schedule.start()
            await asyncio.wait_for(again.wait(), 90)
            await schedule.stop()
    [line, *_] = [line for line in lines if line["event"] == "tick_failed"]
    assert (line["tick"], line["error"], line["log_level"]) == ("faulty", "KeyError", "error")
    assert line["at"][-1].startswith("test_two_daemons.py:")


@pytest.fixture
async def dreamers(database_url: str) -> AsyncIterator[tuple[Dreamer, Dreamer]]:
    """Two daemons' dreamers."""
    settings = load_settings(dream_idle_hours=1e-9, dream_every_hours=1)
    async with open_database(database_url) as one, open_database(database_url) as two:

        def dreamer(database: Database) -> Dreamer:
            embedding = Embedding(LocalEmbedder(dimensions=256), database)
            return build_dreamer(settings, database, embedding, None, get_logger())

        yield dreamer(one), dreamer(two)


async def remember(connection: asyncpg.Connection, memories: int = 30) -> None:
    """Something to dream about."""
    await connection.execute(
        """
        insert into agent_memory (agent_id, kind, content)
        select 'alice', case n % 3 when 0 then 'error' else 'outcome' end, 'deploy staging server ' || n % 4 || ' attempt ' || n
        from generate_series(1, $1) n
        """,
        memories,
    )


async def test_an_idle_dream_that_two_daemons_find_due_runs_once(
    dreamers: tuple[Dreamer, Dreamer], connection: asyncpg.Connection
) -> None:
    one, two = dreamers
    await remember(connection)
    assert await one.due()
    assert await two.due()
    first = await one.dream("idle")
    assert first is not None
    assert first.status == "completed"
    assert await two.dream("idle") is None
    assert await connection.fetchval("select count(*) from dream_sessions") == 1


async def test_two_idle_daemons_dream_once(daemons: Daemons, connection: asyncpg.Connection) -> None:
    await remember(connection)
    for _ in range(2):
        await daemons.start(dream_idle_hours=1e-9, heartbeat_seconds=0.1)
    await until(connection, "select exists (select from dream_sessions where status = 'completed')")
    # Each asks itself many times more.
    await beats(connection, 10)
    assert await connection.fetchval("select count(*) from dream_sessions") == 1


async def test_dreams_asked_for_at_once_do_not_overlap(
    daemons: Daemons, database_url: str, connection: asyncpg.Connection
) -> None:
    await remember(connection, 400)
    for _ in range(2):
        await daemons.start(dream_idle_hours=1e-9, dream_every_hours=1e-4, heartbeat_seconds=0.1)

    async def ask() -> None:
        own = await asyncpg.connect(database_url)
        for _ in range(5):
            await own.execute("insert into memory_requests (kind) values ('dream')")
        await own.close()

    await asyncio.gather(ask(), ask(), ask())
    await until(connection, "select not exists (select from memory_requests where status = 'pending')")
    # The idle ones may have been quicker each time.
    for _ in range(20):
        if await connection.fetchval("select exists (select from memory_requests where status = 'done')"):
            break
        await ask()
        await until(connection, "select not exists (select from memory_requests where status = 'pending')")
    await until(connection, "select not exists (select from dream_sessions where status = 'running')")
    assert await connection.fetchval(OVERLAPPING_DREAMS) == 0
    answers = await connection.fetch("select status, result, error from memory_requests")
    assert {a["error"] for a in answers if a["status"] == "failed"} <= {
        "Another dream is running; see dream_sessions. Ask again when it has ended."
    }
    told = {json.loads(a["result"])["dream_id"] for a in answers if a["status"] == "done"}
    dreamt = {
        str(r["id"])
        for r in await connection.fetch("select id from dream_sessions where started_by = 'manual'")
    }
    assert told == dreamt
    assert told
    doubled = "select insight from dream_insights group by insight, category, agent_id having count(*) > 1"
    assert await connection.fetch(doubled) == []
