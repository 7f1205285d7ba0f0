"""The history of what daemons did: each thing counts once, whoever writes it, and however often."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest
from structlog.testing import capture_logs

from daemon import activity as history
from daemon.activity import Activity, keep_history, measure_queue
from daemon.db.pool import Database
from daemon.logs import get_logger
from daemon.measures import MINUTES_KEPT, Measures
from daemon.queue.backlog import EXACT
from handlers.shared.ports import Job
from tests.support.access.acting import ANN, acting_as
from tests.support.processes.workers import open_database
from tests.support.rows import column
from tests.support.waiting import BLOCKED, until

ALL = "select coalesce(sum(done), 0)::integer from memoryd.activity"
ROWS = "select count(*) from memoryd.activity"
REFUSE = """
create function public.refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
create trigger refuse before insert on memoryd.activity for each statement execute function public.refuse();
"""


def counted(topic: str, jobs: int = 1) -> str:
    """What `WRITE` takes."""
    return json.dumps([{"topic": topic, "done": jobs, "failed": 0}])


def did(measures: Measures, jobs: int, topic: str = "context") -> None:
    """So many jobs, each of which waited for a moment and was done."""
    made = [Job(n, topic, None, None, None, 1, 0, datetime.now(UTC)) for n in range(jobs)]
    measures.done(topic, made, seconds=0.3)


def activity(database: Database, measures: Measures) -> Activity:
    return Activity(measures.minutes, database, logger=get_logger())


async def test_daemons_that_write_at_once_are_added_up(
    database: Database, connection: asyncpg.Connection
) -> None:
    daemons = [Measures() for _ in range(8)]
    for jobs, measures in enumerate(daemons, 1):
        for topic in ("request", "context", "index") if jobs % 2 else ("index", "context", "request"):
            did(measures, jobs, topic)
        measures.ended("index", "retried")
        measures.ended("index", "discarded")
        measures.ended("index", "handed_back", 100)
    await asyncio.gather(*(activity(database, each).end() for each in daemons))
    done = (
        "select topic, sum(done)::integer, sum(failed)::integer from memoryd.activity group by 1 order by 1"
    )
    assert [tuple(row) for row in await connection.fetch(done)] == [
        ("context", 36, 0),
        ("index", 36, 16),
        ("request", 36, 0),
    ]


async def test_a_minute_in_which_nothing_was_done_is_not_written(
    database: Database, connection: asyncpg.Connection
) -> None:
    measures = Measures()
    each = activity(database, measures)
    did(measures, 1)
    await each.end()
    await each.end()
    await measure_queue(database, ["context", "index"])
    assert await connection.fetchval(ROWS) == 1


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_minute_that_is_written_twice_counts_once(
    connection: asyncpg.Connection, second: asyncpg.Connection, is_kept: bool
) -> None:
    """The answer to the first was lost, and it is still being written when the daemon writes it again."""
    writer = uuid4()
    first = connection.transaction()
    await first.start()
    await connection.execute(history.WRITE, writer, 1, 0.0, counted("index"))
    again = asyncio.create_task(second.execute(history.WRITE, writer, 1, 0.0, counted("index")))
    await until(connection, BLOCKED)
    await (first.commit() if is_kept else first.rollback())
    await again
    await second.execute(history.WRITE, writer, 2, 0.0, counted("index"))
    await second.execute(history.WRITE, uuid4(), 1, 0.0, counted("index"))
    assert await connection.fetchval(ALL) == 3


async def test_what_could_not_be_written_is_written_later_under_its_own_time(
    database: Database, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MINUTE", 0.05)
    await connection.execute(REFUSE)
    measures = Measures()
    did(measures, 1)
    measures.minutes.close()
    measures.minutes.unwritten[0] = replace(
        measures.minutes.unwritten[0], middle=measures.minutes.unwritten[0].middle - 600
    )
    did(measures, 2)
    with capture_logs() as logged:
        running = asyncio.create_task(activity(database, measures).run())
        async with asyncio.timeout(60):
            while not logged:
                await asyncio.sleep(0.01)
        await connection.execute("drop trigger refuse on memoryd.activity")
        await until(connection, f"select ({ALL}) = 3")
        running.cancel()
        await asyncio.wait([running])
    assert {(one["event"], one["log_level"]) for one in logged} == {("activity_not_written", "error")}
    ages = "select round(extract(epoch from now() - began_at) / 60)::integer / 5, done from memoryd.activity order by 1"
    assert [tuple(row) for row in await connection.fetch(ages)] == [(0, 2), (2, 1)]


async def test_a_long_outage_loses_nothing_and_is_kept_small(
    database: Database, connection: asyncpg.Connection
) -> None:
    measures = Measures()
    for _ in range(3 * MINUTES_KEPT):
        did(measures, 1)
        measures.minutes.close()
    assert len(measures.minutes.unwritten) == MINUTES_KEPT
    await activity(database, measures).end()
    await activity(database, measures).end()
    assert await connection.fetchval(ALL) == 3 * MINUTES_KEPT


async def test_a_daemon_that_follows_in_the_same_process_writes_what_the_last_one_could_not(
    database_url: str, connection: asyncpg.Connection
) -> None:
    """As one of many databases, between two rests."""
    measures = Measures()
    did(measures, 1)
    async with open_database(database_url) as closed:
        pass
    await activity(closed, measures).end()
    assert await connection.fetchval(ROWS) == 0
    did(measures, 1)
    async with open_database(database_url) as database:
        await activity(database, measures).end()
    assert await connection.fetchval(ALL) == 2


async def test_what_waits_is_measured_and_what_is_claimed_is_not(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into memoryd.jobs (topic, created_at, visible_at) "
        "select 'index', now() - interval '90 seconds', now() - interval '90 seconds' from generate_series(1, $1)",
        4 * EXACT,
    )
    await connection.execute(
        "insert into memoryd.jobs (topic, lane, visible_at, claimed_by, attempt, snoozes) values "
        "('capture', 'alice', now(), null, 0, 0), ('context', null, now() + interval '1 hour', null, 1, 1), "
        "('context', null, now() + interval '1 hour', 7, 1, 0), ('request', null, now() + interval '1 hour', 7, 1, 0)"
    )
    await connection.execute("analyze memoryd.jobs")
    for _ in range(2):
        await measure_queue(database, ["capture", "context", "index", "request", "dream"])
    found = {row["topic"]: row for row in await connection.fetch("select * from memoryd.activity")}
    assert found.keys() == {"capture", "context", "index"}
    assert (found["capture"]["waiting"], found["context"]["waiting"]) == (1, 1)
    assert 2 * EXACT < found["index"]["waiting"] < 8 * EXACT
    assert all(row["done"] == 0 for row in found.values())
    # It is the minute whose end is nearest.
    off = "select max(abs(extract(epoch from began_at + interval '1 minute' - now()))) from memoryd.activity"
    assert await connection.fetchval(off) < 50


async def test_minutes_go_after_two_days_and_sizes_after_400(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into memoryd.activity (writer, number, began_at, topic) "
        "select gen_random_uuid(), d, now() - make_interval(days => d), 'index' from unnest('{1,3}'::integer[]) d;"
        "insert into memoryd.settings (key, value) "
        "select 'sizes', jsonb_object_agg(to_char(current_date - d, 'YYYY-MM-DD'), '{\"bytes\": 1}'::jsonb) "
        "from unnest('{399,401}'::integer[]) d"
    )
    await keep_history(database)
    await keep_history(database)
    assert await column(connection, "select number from memoryd.activity") == [1]
    sizes = "select current_date - d.key::date from memoryd.settings k, jsonb_each(k.value) d where k.key = 'sizes' order by 1"
    assert await column(connection, sizes) == [0, 399]


TABLES = ("activity", "settings")


@pytest.mark.parametrize("role", ["memoryd_service", "memoryd_user", "memoryd_admin"])
async def test_clients_have_no_right_to_it(connection: asyncpg.Connection, role: str) -> None:
    async with acting_as(connection, ANN, role=role):
        for table in TABLES:
            for right in ("select", "insert", "update", "delete"):
                asked = "select has_table_privilege(current_user, 'memoryd.' || $1, $2)"
                assert not await connection.fetchval(asked, table, right), (table, right)
