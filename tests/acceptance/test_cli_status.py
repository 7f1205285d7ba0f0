"""memoryd status: one moment of the fleet's memory."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg

from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess
from tests.support.waiting import IDLE, until

OUTCOME = """
insert into agent_commands (agent_id, message, output, exit_code, status)
values ('alice', 'deploy the staging server', 'deployed build 512', 0, 'completed'),
       ('bob', 'restart the queue', 'no such queue', 1, 'failed')
"""


async def test_status_shows_a_working_fleet(
    memoryd: Commands, connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await connection.execute(OUTCOME)
    await until(connection, IDLE)
    found = (await memoryd("status", "--json")).json
    (alive,) = found["daemons"]
    assert alive["pid"] == daemon.process.pid
    assert alive["alive"]
    assert alive["wake_up"] == "listen"
    assert found["memories"] == {"error": 1, "outcome": 1}
    assert found["commands"] == {"completed": 1, "failed": 1}
    assert found["agents"] == 2
    assert found["queue"] == []
    assert found["lag_seconds"] is None
    assert found["schema_trouble"] is None
    assert found["schema_version"] > 0
    assert found["dream"] is None
    assert found["unindexed"] == found["unembedded"] == {}
    assert found["size"]["bytes"] > sum(found["size"]["largest"].values()) > 0
    assert found["size"]["bytes_a_day"] is None

    told = await memoryd("status")
    assert told.code == 0
    shown = told.out
    assert str(daemon.process.pid) in shown
    assert "The queue is empty." in shown
    assert "2: 1 error, 1 outcome" in shown
    assert "Last dream none yet" in shown
    assert "To index   none" in shown


async def test_what_waits_is_counted_by_source(memoryd: Commands, connection: asyncpg.Connection) -> None:
    await connection.execute("insert into agent_memory (agent_id, content) values ('alice', 'likes tea')")
    told = await memoryd("status")
    assert "To index   1: 1 memory" in told.out


COPY = "insert into memoryd.daemons select * from jsonb_populate_record(null::memoryd.daemons, $1)"


async def test_a_restored_copy_does_not_show_the_originals_daemon_as_alive(
    connection: asyncpg.Connection, daemon: DaemonProcess, server: Server, template: str, tmp_path: Path
) -> None:
    """A copy on the same server has the original's rows: also that of a daemon, whose listener is in the other database."""
    row = await until(
        connection,
        "select to_jsonb(d)::text from memoryd.daemons d where d.pid = $1 and d.backend is not null",
        daemon.process.pid,
    )
    async with copied(server, template) as url, connected(url) as copy:
        await copy.execute(COPY, row)
        found = await Commands(url, tmp_path)("status", "--json")
        assert (found.code, [one["alive"] for one in found.json["daemons"]]) == (1, [False])


async def test_without_a_daemon_the_lag_is_the_age_of_the_waiting_work(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute("insert into agent_commands (agent_id, message) values ('alice', 'deploy')")
    await connection.execute(OUTCOME)
    await connection.execute(
        "update memoryd.jobs set created_at = now() - interval '1 hour', visible_at = now() - interval '1 hour'"
    )
    # One lane is leased: its jobs belong to a worker, and are not claimable.
    await connection.execute(
        "insert into memoryd.lanes (topic, lane, leased_until) values ('capture', 'bob', now() + interval '1 hour')"
    )
    found = (await memoryd("status", "--json")).json
    queue = {one["topic"]: (one["jobs"], one["claimable"]) for one in found["queue"]}
    assert queue == {"capture": (2, 1), "context": (1, 1)}
    assert 3600 <= found["lag_seconds"] < 3700
    assert all(3600 <= one["oldest_seconds"] < 3700 for one in found["queue"])
    shown = (await memoryd("status")).out
    assert "No daemon is running" in shown
    assert "3 jobs, lag 60 min" in shown


async def test_jobs_of_a_plugin_that_was_taken_away_are_no_backlog(
    memoryd: Commands, connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await connection.execute(
        "insert into memoryd.jobs (topic, created_at, visible_at)"
        " select 'bell', now() - interval '1 day', now() - interval '1 day' from generate_series(1, 2)"
    )
    found = (await memoryd("status", "--json")).json
    assert [(one["topic"], one["jobs"], one["served"]) for one in found["queue"]] == [("bell", 2, False)]
    assert found["lag_seconds"] is None
    said = "2 jobs of topic bell wait, and the daemon that started last does not serve this topic."
    assert said in (await memoryd("status")).out
    [queue] = [one for one in (await memoryd("doctor", "--json")).json if one["name"] == "queue"]
    assert (queue["verdict"], queue["found"]) == ("warning", said)
    assert await connection.fetchval("select wait_until_idle(0)")


async def test_a_daemon_without_a_recent_heartbeat_is_not_alive(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into memoryd.daemons (id, host, pid, version, wake_up, seen_at)"
        " values (gen_random_uuid(), 'elsewhere', 4711, '0.0.1', 'poll', now() - interval '10 min')"
    )
    found = await memoryd("status", "--json")
    assert (found.code, [one["alive"] for one in found.json["daemons"]]) == (1, [False])
    shown = (await memoryd("status")).out
    assert "10 min ago  no" in shown
    assert "Start one: memoryd run" in shown


async def test_dead_letters_and_the_last_dream_are_shown(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into memoryd.dead_letters (id, topic, attempts, error, created_at) values (7, 'index', 5, 'x', now())"
    )
    await connection.execute(
        "with dream as (insert into dream_sessions"
        " (started_by, status, started_at, finished_at, memories_scanned, clusters_found, insights_generated)"
        " values ('manual', 'completed', now() - interval '3 hours', now() - interval '2 hours', 40, 3, 1) returning id)"
        " insert into dream_insights (insight, source_memories, category, confidence, dream_id)"
        " select 'deploys work', '{}', 'pattern', 0.7, id from dream"
    )
    found = (await memoryd("status", "--json")).json
    assert [(one["topic"], one["jobs"]) for one in found["dead"]] == [("index", 1)]
    assert found["dream"]["started_by"] == "manual"
    assert found["dream"]["categories"] == {"pattern": 1}
    shown = (await memoryd("status")).out
    assert "completed, manual, began 3 h ago" in shown
    assert "40 memories, 3 clusters, 1 insight (1 pattern)" in shown


async def test_a_schema_of_another_version_is_reported(
    memoryd: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "insert into memoryd.migrations (version, name, checksum) values (9000, 'future', 'x')"
    )
    found = await memoryd("status", "--json")
    assert found.code == 1
    assert found.json["schema_version"] == 9000
    assert "Upgrade memoryd" in found.json["schema_trouble"]
    assert json.loads(found.out)["database"] in memoryd.url  # type: ignore[operator]
