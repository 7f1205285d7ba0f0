"""Dreams that come by themselves: when, when not, and what ends them; and those that a language model puts in words."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.support.content.dreams import dream, failures
from tests.support.processes.daemons import Daemons
from tests.support.processes.paused import commit_held_up
from tests.support.rows import ask, column, one_row, remember
from tests.support.services.openai_server import Fault, OpenAIServer
from tests.support.waiting import IDLE, MUCH_WORK, beats, until

IDLY: dict[str, Any] = {"heartbeat_seconds": 0.1, "dream_idle_hours": 0.0001}
"""A daemon that dreams when nothing was asked for a third of a second."""


@pytest.fixture
async def awake(connection: asyncpg.Connection) -> None:
    """There was work a moment ago, so there is no dream unless one is requested."""
    await ask(connection, "stay awake", status="cancelled")


async def test_an_idle_fleet_dreams_once_per_interval(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await failures(connection, 3)
    daemon = await daemons.start(**IDLY)
    ended = await daemon.event("dream_ended")
    assert (ended["status"], ended["insights_generated"]) == ("completed", 1)
    assert ended["ms"] >= 0
    assert await column(connection, "select started_by from dream_sessions") == ["idle"]

    # The next one is due in six hours, by the database: another daemon knows as well.
    await daemon.stop()
    again = await daemons.start(**IDLY)
    await beats(connection)
    assert again.events("dream_started") == []
    await connection.execute("update dream_sessions set finished_at = finished_at - interval '7 hours'")
    assert (await again.event("dream_ended"))["status"] == "completed"
    assert await connection.fetchval("select count(*) from dream_insights") == 1


async def test_an_interrupted_dream_does_not_delay_the_next(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await failures(connection, 3)
    await connection.execute(
        "insert into dream_sessions (started_by, status, finished_at) values ('idle', 'interrupted', now())"
    )
    daemon = await daemons.start(**IDLY)
    assert (await daemon.event("dream_ended"))["status"] == "completed"


async def test_no_idle_dream_starts_while_a_condition_is_not_met(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    old = datetime.now(UTC) - timedelta(hours=49)
    for n in range(5):
        await remember(connection, f"an old memory {n}", created_at=old, ttl_hours=None)
    await failures(connection, 2)
    daemon = await daemons.start(**IDLY)
    await beats(connection)  # two memories of the last two days are too few

    async with connection.transaction():
        await connection.execute(
            "insert into dream_sessions (started_by, lease_until) values ('manual', now() + interval '1 hour')"
        )
        await failures(connection, 1)
    await beats(connection)  # another dream is running

    async with connection.transaction():
        command = await ask(connection, "takes days", status="running", created_at=old)
        await connection.execute("update dream_sessions set lease_until = now() - interval '1 second'")
    await beats(connection)  # a command is running
    assert daemon.events("dream_started") == []

    await connection.execute("update agent_commands set status = 'cancelled' where id = $1", command)
    assert (await daemon.event("dream_ended"))["status"] == "completed"


async def test_a_fleet_that_was_asked_an_hour_ago_is_not_idle(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await failures(connection, 3)
    await connection.execute("update memoryd.migrations set applied_at = now() - interval '7 hours'")
    await ask(connection, "done since", status="cancelled", created_at=datetime.now(UTC) - timedelta(hours=1))
    daemon = await daemons.start(heartbeat_seconds=0.1)
    await beats(connection)
    assert daemon.events("dream_started") == []
    await connection.execute("update agent_commands set created_at = created_at - interval '6 hours'")
    assert (await daemon.event("dream_ended"))["status"] == "completed"


async def test_a_requested_dream_waits_for_what_was_committed_before(
    connection: asyncpg.Connection, daemons: Daemons, database_url: str
) -> None:
    await daemons.start(facts="off")
    async with commit_held_up(database_url, connection):
        await connection.execute("insert into memory_requests (kind) values ('dream')")
        await until(connection, "select attempt = 1 from memoryd.jobs where topic = 'dream'")
        assert not await connection.fetchval("select exists (select from dream_sessions)")
    await until(connection, IDLE)
    assert await connection.fetchval("select memories_scanned from dream_sessions") == 1


async def test_a_fleet_with_much_work_waiting_is_not_idle(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await failures(connection, 3)
    await connection.execute(MUCH_WORK)
    daemon = await daemons.start(**IDLY)
    await beats(connection)
    assert daemon.events("dream_started") == []
    await connection.execute("delete from memoryd.jobs where topic = 'of nobody'")
    assert (await daemon.event("dream_ended"))["status"] == "completed"


async def test_one_of_many_daemons_dreams(connection: asyncpg.Connection, daemons: Daemons) -> None:
    await failures(connection, 3)
    started = await asyncio.gather(*(daemons.start(**IDLY) for _ in range(3)))
    await beats(connection)
    await until(connection, "select exists (select from dream_sessions where status = 'completed')")
    assert await column(connection, "select status from dream_sessions") == ["completed"]
    assert sum(len(one.events("dream_started")) for one in started) == 1


async def test_arriving_work_ends_an_idle_dream(connection: asyncpg.Connection, daemons: Daemons) -> None:
    async with connection.transaction():
        # Many words and few of them shared: much to compare, little to conclude.
        await connection.execute(
            "insert into agent_memory (agent_id, content, kind, created_at, embedding) "
            "select 'agent ' || n % 50, "
            "(select string_agg('word' || (n::bigint * k * 7919) % 20011, ' ') from generate_series(1, 20) k), "
            "'fact', now() - make_interval(secs => n), "
            "(select array_agg(sin(n * k)) from generate_series(1, 256) k)::real[]::vector from generate_series(1, 25000) n"
        )
        # What is under test is the dream, not the associations of all these.
        await connection.execute("delete from memoryd.jobs")
    daemon = await daemons.start(**IDLY)
    seen = 0
    for work in ("insert into agent_commands (agent_id, message) values ('alice', 'wake up')", MUCH_WORK):
        dream_id = (await daemon.event("dream_started", after=seen))["dream"]
        await connection.execute(work)
        seen = len(daemon.lines)
        ended = await daemon.event("dream_ended", dream=dream_id)
        assert ended["status"] == "interrupted"
        await until(connection, "select not exists (select from agent_commands where status = 'pending')")
        session = "select status, finished_at is not null from dream_sessions where id = $1::text::uuid"
        assert tuple(await one_row(connection, session, dream_id)) == ("interrupted", True)


def written(request: dict[str, Any]) -> str:
    """What the language model of these tests makes of any cluster."""
    shown = json.loads(
        request["messages"][1]["content"].removeprefix("<memories>\n").removesuffix("\n</memories>")
    )
    return json.dumps(
        {
            "insight": f"The model saw {len(shown['memories'])} memories.",
            "recommendation": "Clean the tape heads before a restore.",
            "causal": [{"cause": 0, "effect": 2}],
        }
    )


async def test_a_language_model_writes_the_insight_and_a_recommendation(
    connection: asyncpg.Connection, awake: None, daemons: Daemons
) -> None:
    with OpenAIServer() as server:
        server.chat = written
        await daemons.start(language_model="openai/any", openai_base_url=server.base_url, openai_api_key="k")
        sources = await failures(connection, 3)
        await until(connection, IDLE)
        assert (await dream(connection))["insights_generated"] == 2
        rows = await connection.fetch(
            "select category, insight, confidence, source_memories from dream_insights order by category"
        )
        assert [tuple(row) for row in rows] == [
            ("correction", "The model saw 3 memories.", 0.7, sources),
            ("recommendation", "Clean the tape heads before a restore.", 0.7, sources),
        ]
        causal = (
            "select memory_id, related_memory_id from memory_associations where association_type = 'causal'"
        )
        assert [tuple(row) for row in await connection.fetch(causal)] == [(sources[2], sources[0])]
        assert await connection.fetchval(
            "select strength > 0.5 from memory_associations where memory_id = $1 limit 1", sources[2]
        )

        await failures(connection, 1)
        await dream(connection)
        insights = await column(connection, "select insight from dream_insights order by category")
        assert insights == ["The model saw 4 memories.", "Clean the tape heads before a restore."]


async def test_without_its_language_model_a_dream_concludes_by_rule(
    connection: asyncpg.Connection, awake: None, daemons: Daemons
) -> None:
    with OpenAIServer() as server:
        server.chat = lambda _: "I would rather not."
        daemon = await daemons.start(
            language_model="openai/any",
            openai_base_url=server.base_url,
            openai_api_key="k",
            provider_timeout_seconds=5,
        )
        await failures(connection, 3)
        for trouble in ("talks nonsense", "refuses", "is down"):
            if trouble == "refuses":
                server.always = Fault.status(400)
            elif trouble == "is down":
                server.stop()
            told = len(daemon.lines)
            report = await dream(connection)
            assert (report["status"], report["insights_generated"]) == ("completed", 1), trouble
            [row] = await connection.fetch("select category, insight from dream_insights")
            assert row["category"] == "correction"
            assert row["insight"].startswith("3 failures")
            assert await daemon.event("insight_by_rule", after=told)


async def test_a_language_model_says_where_a_chunk_of_a_document_stands(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    with OpenAIServer() as server:
        server.chat = lambda _: json.dumps(
            {"sentences": [{"index": 0, "sentence": "Of the llamas of the northern farm."}]}
        )
        await daemons.start(language_model="openai/any", openai_base_url=server.base_url)
        await connection.execute(
            "insert into documents (title, content) values ('Handbook', 'They are fed twice a day.')"
        )
        await until(connection, "select exists (select from memory_chunks where situation is not null)")
        await until(connection, IDLE)
        found = await connection.fetch(
            "select content, metadata ->> 'chunk_context' from recall('llamas northern farm')"
        )
        assert [tuple(row) for row in found] == [
            ("They are fed twice a day.", "Handbook\nOf the llamas of the northern farm.")
        ]
