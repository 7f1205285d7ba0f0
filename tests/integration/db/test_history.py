"""What is over goes after MEMORYD_HISTORY_DAYS, and nothing that something else still needs."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from structlog.testing import capture_logs

from daemon.db.pool import Database
from daemon.logs import get_logger
from daemon.settings import load_settings
from daemon.upkeep import Upkeep
from plugins.reembed.generations import drop_outdated
from tests.support.rows import column

OLD = """
alter table agent_commands disable trigger user;
insert into agent_commands (agent_id, message, status, output, created_at, started_at, finished_at)
select 'alice', what, status, 'x', now() - age, now() - age, now() - age
from (values ('old', 'completed', interval '400 days'), ('old and failed', 'failed', '400 days'),
             ('remembered', 'completed', '400 days'), ('young', 'completed', '300 days'),
             ('tomorrow', 'completed', '-1 day')) as c(what, status, age);
insert into agent_commands (agent_id, message, status, created_at) values
    ('alice', 'never begun', 'pending', now() - interval '400 days');
insert into agent_commands (agent_id, message, status, created_at, started_at, finished_at) values
    ('alice', 'long', 'completed', now() - interval '400 days', now() - interval '400 days', now() - interval '1 day');
alter table agent_commands enable trigger user;
insert into agent_memory (agent_id, kind, content, command_id)
select 'alice', 'outcome', 'done', id from agent_commands where message = 'remembered';
alter table agent_sessions disable trigger user;
insert into agent_sessions (agent_id, status, current_step, completed_at, updated_at)
select 'alice', status, what, now() - age, now() - age
from (values ('over', 'completed', interval '400 days'), ('failed', 'error', '400 days'), ('young', 'completed', '10 days'),
             ('waits', 'awaiting_approval', '400 days')) as s(what, status, age);
alter table agent_sessions enable trigger user;
insert into agent_execution_logs (session_id, agent_id, step_name, action_type)
select id, 'alice', 'step of ' || current_step, 'reasoning' from agent_sessions;
insert into dream_sessions (started_by, status, started_at, finished_at)
select 'idle', 'completed', now() - age, now() - age
from unnest('{500 days,400 days,380 days}'::interval[]) as d(age);
insert into dream_insights (agent_id, insight, source_memories, category, confidence, dream_id)
select 'alice', 'what was learned', '{}', 'summary', 0.5, id from dream_sessions
where started_at < now() - interval '450 days';
"""


def upkeep_of(database: Database, *, audit_days: float) -> Upkeep:
    """What the ticks of a daemon do."""
    return Upkeep(database, load_settings(audit_days=audit_days), logger=get_logger())


@pytest.fixture
async def upkeep(database: Database) -> Upkeep:
    """With the settings' defaults."""
    return upkeep_of(database, audit_days=90)


@pytest.mark.parametrize(("days", "left"), [(90.0, [80, 1]), (0.0, [80, 1]), (30.0, [1])])
async def test_who_read_what_is_kept_for_a_time_also_where_no_more_is_logged(
    database: Database, connection: asyncpg.Connection, days: float, left: list[int]
) -> None:
    await connection.execute(
        "insert into agent_execution_logs (agent_id, action_type, step_name, created_at) "
        "select 'alice', 'memory_read', 'recall', now() - make_interval(days => n) from unnest('{100,80,1}'::integer[]) n"
    )
    await upkeep_of(database, audit_days=days).sweep()
    ages = "select extract(day from now() - created_at)::integer from agent_execution_logs order by 1 desc"
    assert await column(connection, ages) == left


async def test_what_is_over_goes_and_the_rest_stays(upkeep: Upkeep, connection: asyncpg.Connection) -> None:
    await connection.execute(OLD)
    with capture_logs() as logged:
        await upkeep.prune_history()
    assert await column(connection, "select message from agent_commands order by 1") == [
        "long", "never begun", "remembered", "tomorrow", "young",
    ]  # fmt: skip
    assert await column(connection, "select current_step from agent_sessions order by 1 desc") == [
        "young",
        "waits",
    ]
    steps = "select step_name from agent_execution_logs where action_type = 'reasoning' order by 1"
    assert await column(connection, steps) == ["step of waits", "step of young"]
    # One has an insight, and one is the newest.
    ages = "select extract(day from now() - finished_at)::integer from dream_sessions order by 1"
    assert await column(connection, ages) == [380, 500]
    assert await connection.fetchval("select count(*) from dream_insights") == 1
    told = [(e["event"], e["commands"], e["runs"], e["dreams"]) for e in logged]
    assert told == [("history_pruned", 2, 2, 1)]
    with capture_logs() as logged:
        await upkeep.prune_history()
    assert logged == []


async def test_a_row_that_somebody_has_locked_goes_the_next_time(
    upkeep: Upkeep, connection: asyncpg.Connection
) -> None:
    await connection.execute(OLD)
    async with connection.transaction():
        await connection.execute("select from agent_commands where message = 'old' for update")
        await upkeep.prune_history()
    assert "old" in await column(connection, "select message from agent_commands")
    await upkeep.prune_history()
    assert "old" not in await column(connection, "select message from agent_commands")


SPARE = """
insert into memoryd.settings (key, value)
select 'spare', jsonb_build_object('embedder', 'openai/before', 'dimensions', 8, 'state', $1::text,
                                   'since', now() - make_interval(days => $2))
on conflict (key) do update set value = excluded.value
"""
SPARE_LEFT = "select exists (select from memoryd.settings where key = 'spare')"
LEASE = """
insert into memoryd.lanes (topic, lane, leased_until) values ('reembed', 'build', now() + interval '1 hour')
on conflict (topic, lane) do update set leased_until = excluded.leased_until
"""


@pytest.mark.parametrize(
    ("state", "days", "gone"), [("kept", 31, True), ("kept", 29, False), ("building", 400, False)]
)
async def test_the_embeddings_of_the_model_before_go_after_their_time(
    database: Database, connection: asyncpg.Connection, state: str, days: int, gone: bool
) -> None:
    await connection.execute(SPARE, state, days)
    with capture_logs() as logged:
        await drop_outdated(database, get_logger())
    assert await connection.fetchval(SPARE_LEFT) is not gone
    assert [e["event"] for e in logged] == ["previous_embeddings_dropped"] * gone
    await drop_outdated(database, get_logger())


async def test_embeddings_that_somebody_works_on_are_not_dropped(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute(SPARE, "kept", 31)
    await connection.execute(LEASE)
    with capture_logs() as logged:
        async with asyncio.timeout(60):
            going = asyncio.create_task(drop_outdated(database, get_logger()))
            while not going.done():
                # The other one lives: it renews its lease.
                await connection.execute(
                    "update memoryd.lanes set leased_until = leased_until + interval '1 second'"
                )
                await asyncio.sleep(0.05)
    assert [e["event"] for e in logged] == ["previous_embeddings_kept"]
    assert await connection.fetchval(SPARE_LEFT)
