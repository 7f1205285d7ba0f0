"""The history of what daemons did: each thing counts once, whoever writes it, and however often."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest
from structlog.testing import capture_logs

from daemon.activity import upkeep, writing
from daemon.activity.reading import read_activity, read_growth
from daemon.activity.writing import Activity, measure_queue
from daemon.db.depth import EXACT
from daemon.db.pool import Database
from daemon.logs import get_logger
from daemon.measures import MINUTES_KEPT, SECONDS, Measures
from handlers.shared.ports import Job
from tests.support.access.acting import ANN, acting_as
from tests.support.processes.workers import open_database
from tests.support.rows import column
from tests.support.waiting import BLOCKED, until

ALL = "select coalesce(sum(done), 0)::integer from memoryd.activity"
ROWS = "select count(*) from memoryd.activity"
NONE = [0] * (len(SECONDS) + 1)
ONE_SECOND = [int(bound == 1.0) for bound in (*SECONDS, None)]
REFUSE = """
create function public.refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
create trigger refuse before insert on memoryd.activity for each statement execute function public.refuse();
"""
# Minutes of a topic, so many minutes ago.
PAST = """
insert into memoryd.activity (seconds, began_at, topic, done, failed, waiting, oldest_seconds, waited, ran)
select 60, date_trunc('minute', now()) - make_interval(mins => m), $1, 1, 1, m, m, $3, $3
from unnest($2::integer[]) m
"""


def counted(topic: str, jobs: int = 1) -> str:
    """What `WRITE` takes."""
    return json.dumps([{"topic": topic, "done": jobs, "failed": 0, "waited": ONE_SECOND, "ran": NONE}])


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
    batches = "select sum(n)::integer from memoryd.activity a, unnest(a.ran) n where a.topic = 'context'"
    assert await connection.fetchval(batches) == len(daemons)


async def test_topics_are_written_in_one_order(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """Who waits for the first topic has none of the others yet: so two are never in each other's way."""
    for topic in ("context", "request"):
        await connection.execute(writing.WRITE, uuid4(), 1, 0.0, counted(topic))
    both = json.dumps([*json.loads(counted("request")), *json.loads(counted("context"))])
    async with connection.transaction():
        await connection.execute(writing.WRITE, uuid4(), 1, 0.0, counted("context"))
        other = asyncio.create_task(second.execute(writing.WRITE, uuid4(), 1, 0.0, both))
        await until(connection, BLOCKED)
        await connection.execute(writing.WRITE, uuid4(), 1, 0.0, counted("request"))
    await other
    assert await connection.fetchval(ALL) == 6


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
    assert await connection.fetchval("select number from memoryd.activity_writers") == 1


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_minute_that_is_written_twice_counts_once(
    connection: asyncpg.Connection, second: asyncpg.Connection, is_kept: bool
) -> None:
    """The answer to the first was lost, and it is still being written when the daemon writes it again."""
    writer = uuid4()
    first = connection.transaction()
    await first.start()
    await connection.execute(writing.WRITE, writer, 1, 0.0, counted("index"))
    again = asyncio.create_task(second.execute(writing.WRITE, writer, 1, 0.0, counted("index")))
    await until(connection, BLOCKED)
    await (first.commit() if is_kept else first.rollback())
    await again
    await second.execute(writing.WRITE, writer, 2, 0.0, counted("index"))
    await second.execute(writing.WRITE, uuid4(), 1, 0.0, counted("index"))
    assert await connection.fetchval(ALL) == 3


async def test_what_could_not_be_written_is_written_later_under_its_own_time(
    database: Database, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MINUTE", 0.05)
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


async def test_a_clock_that_was_set_back_loses_nothing(
    database: Database, connection: asyncpg.Connection
) -> None:
    """The minutes of before are there already, and some are in the future."""
    await connection.execute(PAST, "index", [0, -1, -2, -3000, 5], ONE_SECOND)
    await connection.execute(writing.WRITE, uuid4(), 1, 0.0, counted("index", 10))
    assert await connection.fetchval(ALL) == 15
    await upkeep.keep_history(database, query_log_days=30)
    found = await read_activity(connection)
    assert [(one.topic, one.whole.done) for one in found.topics] == [("index", 1)]
    assert await connection.fetchval(ALL) == 15


async def test_minutes_become_hours_once_also_when_two_roll_up_at_once(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    await connection.execute(PAST, "index", list(range(6000)), ONE_SECOND)
    before = (await read_activity(connection, minutes=12_000, step_minutes=60)).topics[0].whole
    first = connection.transaction()
    await first.start()
    await connection.execute(upkeep.ROLL_UP)
    other = asyncio.create_task(second.execute(upkeep.ROLL_UP))
    await until(connection, BLOCKED)
    await first.commit()
    await other
    spans = "select seconds, count(*), sum(done)::integer from memoryd.activity group by 1 order by 1"
    (minutes, done), (hours, done_in_hours) = [tuple(row)[1:] for row in await connection.fetch(spans)]
    assert 26 * 60 <= minutes == done < 27 * 60
    assert 6000 - minutes == done_in_hours
    assert (6000 - minutes) / 60 <= hours < (6000 - minutes) / 60 + 2
    after = (await read_activity(connection, minutes=12_000, step_minutes=60)).topics[0].whole
    assert after == before
    assert (after.done, after.failed, after.waiting, after.waited.counts) == (
        5999,
        5999,
        5999,
        [5999 * n for n in ONE_SECOND],
    )
    # One that is written late is added to its hour.
    await connection.execute(writing.WRITE, uuid4(), 1, 5000 * 60.0, counted("index"))
    await connection.execute(upkeep.ROLL_UP)
    assert await connection.fetchval("select count(*) from memoryd.activity where seconds = 3600") == hours
    assert await connection.fetchval(ALL) == 6001


async def test_hours_go_after_400_days(database: Database, connection: asyncpg.Connection) -> None:
    await connection.execute(
        "insert into memoryd.activity (seconds, began_at, topic) "
        "select 3600, now() - make_interval(days => d), 'index' from unnest('{399,401}'::integer[]) d;"
        "insert into memoryd.activity_writers (id, number, written_at) "
        "select gen_random_uuid(), d, now() - make_interval(days => d) from unnest('{1,3}'::integer[]) d;"
        "insert into memoryd.daily_retrievals (day, asked, useful, not_useful) "
        "select current_date - d, 1, 1, 0 from unnest('{399,401}'::integer[]) d"
    )
    await upkeep.keep_history(database, query_log_days=30)
    assert await connection.fetchval(ROWS) == 1
    assert await column(connection, "select number from memoryd.activity_writers") == [1]
    assert await column(connection, "select current_date - day from memoryd.daily_retrievals") == [399]


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
    assert 90 <= found["index"]["oldest_seconds"] < 1000
    assert found["context"]["oldest_seconds"] is None
    assert all(row["done"] == 0 for row in found.values())
    # It is the minute whose end is nearest.
    off = "select max(abs(extract(epoch from began_at + interval '1 minute' - now()))) from memoryd.activity"
    assert await connection.fetchval(off) < 50


async def test_the_steps_are_read_with_gaps_and_percentiles(connection: asyncpg.Connection) -> None:
    await connection.execute(PAST, "index", [1, 2, 60], ONE_SECOND)
    await connection.execute(PAST, "context", [1], NONE)
    found = await read_activity(connection, minutes=60)
    assert [one.topic for one in found.topics] == ["context", "index"]
    context, index = found.topics
    assert [n for n, step in enumerate(index.steps) if step.done] == [0, 58, 59]
    assert (index.steps[59].waiting, index.steps[58].waiting, index.steps[57].waiting) == (1, 2, 0)
    p50, p95 = index.whole.p50, index.whole.p95
    assert p50 is not None
    assert p95 is not None
    assert 0.5 < p50 < p95 <= 1.0
    assert (context.whole.done, context.whole.p50, index.steps[57].p95) == (1, None, None)
    day = await read_activity(connection, minutes=1440, step_minutes=15)
    assert len(day.topics[1].steps) == 96
    assert [step.done for step in day.topics[1].steps[-4:]] == [1, 0, 0, 2]
    assert (day.until - day.since).total_seconds() == 86_400


@pytest.mark.parametrize(("minutes", "step"), [(0, 1), (60, 0), (60, 7), (5, 10), (10**9, 1), (-60, -1)])
async def test_a_time_that_is_no_whole_steps_is_refused(
    connection: asyncpg.Connection, minutes: int, step: int
) -> None:
    with pytest.raises(ValueError, match="a multiple of step_minutes"):
        await read_activity(connection, minutes=minutes, step_minutes=step)


JUDGED = """
insert into memory_queries (query_time, useful, reason)
select current_date - 3 + interval '1 hour', judgement, reason
from (values (true, null), (true, null), (false, null), (null, null), (null, 'small_talk')) as q(judgement, reason)
"""
QUALITY = "select day, asked, useful, not_useful from memoryd.daily_retrievals order by day"


async def test_judgements_outlive_the_log_of_retrievals(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute(JUDGED)
    await upkeep.keep_history(database, query_log_days=30)
    [row] = await connection.fetch(QUALITY)
    assert (row["asked"], row["useful"], row["not_useful"]) == (4, 2, 1)
    # Judged later: it is read again with the first sweep of a day.
    await connection.execute(
        "update memory_queries set useful = false where useful is null and reason is null"
    )
    await connection.execute("delete from memoryd.daily_sizes")
    await upkeep.keep_history(database, query_log_days=30)
    [row] = await connection.fetch(QUALITY)
    assert (row["asked"], row["useful"], row["not_useful"]) == (4, 2, 2)
    # Half of them are swept.
    await connection.execute(
        "delete from memory_queries where id in (select id from memory_queries where not useful limit 2)"
    )
    await connection.execute("delete from memoryd.daily_sizes")
    await upkeep.keep_history(database, query_log_days=30)
    assert await connection.fetch(QUALITY) == [row]


async def test_growth_has_sizes_rows_and_judgements_of_each_day(
    database: Database, connection: asyncpg.Connection
) -> None:
    assert await read_growth(connection) == ()
    await connection.execute(JUDGED)
    await connection.execute(
        "insert into agent_memory (agent_id, content) select 'alice', 'tea ' || n from generate_series(1, 300) n"
    )
    await connection.execute("analyze agent_memory")
    await upkeep.keep_history(database, query_log_days=30)
    before, *between, today = await read_growth(connection, days=30)
    assert [(one.bytes, one.asked) for one in between] == [(None, 0)] * 2
    assert (before.bytes, before.rows, before.asked, before.useful, before.not_useful) == (None, {}, 4, 2, 1)
    assert today.bytes is not None
    assert today.bytes > 1_000_000
    assert today.rows.keys() == {"memory", "conversation", "document", "knowledge", "insight"}
    assert today.rows["memory"] == 300
    assert await read_growth(connection, days=2) == (today,)


TABLES: Sequence[str] = ("activity", "activity_writers", "daily_retrievals", "daily_sizes")


@pytest.mark.parametrize("role", ["memoryd_service", "memoryd_user", "memoryd_admin"])
async def test_clients_have_no_right_to_it(connection: asyncpg.Connection, role: str) -> None:
    async with acting_as(connection, ANN, role=role):
        for table in TABLES:
            for right in ("select", "insert", "update", "delete"):
                asked = "select has_table_privilege(current_user, 'memoryd.' || $1, $2)"
                assert not await connection.fetchval(asked, table, right), (table, right)
