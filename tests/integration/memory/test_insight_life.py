"""An insight lives with its memories: drawn again when one changes or goes, held against what happens later, resolved; and when
dreams come to a fleet that is never idle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from handlers.dream import lease
from tests.support.content.dreams import failures, remember_all, successes
from tests.support.processes.dreamers import Log, dreamer
from tests.support.rows import ask, column, conclude, one_row, remember
from tests.support.waiting import MUCH_WORK

INSIGHT = "select * from dream_insights where category = 'correction'"
ANN = UUID(int=7)


async def dream(database: Database) -> None:
    report = await dreamer(database, Log()).dream("manual")
    assert report is not None
    assert report.status == "completed"


async def test_an_insight_forgets_at_once_what_was_forgotten_and_is_drawn_again_from_the_rest(
    connection: asyncpg.Connection, database: Database
) -> None:
    *rest, last = await failures(connection, 4)
    await connection.execute("update agent_memory set content = content || ' pin 4711' where id = $1", last)
    await dream(database)
    before = await one_row(connection, INSIGHT)
    assert "4711" in before["insight"]

    await connection.execute("select forget(array[$1::uuid])", last)
    hidden = await one_row(connection, INSIGHT)
    assert "4711" not in hidden["insight"]
    assert (hidden["stale"], hidden["confidence"], hidden["source_memories"]) == (True, 0, rest)
    assert await column(connection, "select id from memoryd.source_insight where is_current") == []
    assert "Insights" not in await connection.fetchval(
        "select build_context('alice', 'restore the tape backup')"
    )

    await dream(database)
    after = await one_row(connection, INSIGHT)
    assert (after["id"], after["stale"], after["confidence"]) == (before["id"], False, 0.7)
    assert after["insight"].startswith("3 failures")

    # Long ago, so that no dream sees its memories any more: it is drawn again from them all the same.
    await connection.execute("update agent_memory set created_at = now() - interval '20 days'")
    await connection.execute("update agent_memory set content = content || ' again' where id = $1", rest[0])
    await dream(database)
    redrawn = await one_row(connection, INSIGHT)
    assert (redrawn["id"], redrawn["stale"]) == (before["id"], False)

    # One failure is no insight, and no memory is none.
    await connection.execute("delete from agent_memory where id = any($1)", rest[:2])
    await dream(database)
    assert await column(connection, INSIGHT) == []
    lonely = await conclude(connection, "alone", 0.5, source_memories=[rest[2]])
    await connection.execute("delete from agent_memory")
    assert await column(connection, "select stale from dream_insights where id = $1", lonely) == [True]
    await dream(database)
    assert await column(connection, "select id from dream_insights where id = $1", lonely) == []


async def test_an_insight_outlives_memories_that_expire(
    connection: asyncpg.Connection, database: Database
) -> None:
    await failures(connection, 3)
    await dream(database)
    before = await one_row(connection, INSIGHT)
    await connection.execute("update agent_memory set expires_at = now() - interval '1 second'")
    assert await connection.fetchval("select cleanup_expired_memory()") == 3
    assert await one_row(connection, INSIGHT) == before


async def test_what_a_person_wrote_into_an_insight_stays(
    connection: asyncpg.Connection, database: Database
) -> None:
    sources = await failures(connection, 3)
    await dream(database)
    await connection.execute(
        "update dream_insights set insight = 'Change the tape.', last_modified_human = now()"
    )
    await connection.execute("delete from agent_memory where id = any($1)", sources)
    await remember_all(connection, "outcome", ["Task: restore the tape backup → completed"])
    await dream(database)
    row = await one_row(connection, "select insight, stale, source_memories from dream_insights")
    assert tuple(row) == ("Change the tape.", False, [])


async def test_a_memory_of_a_user_never_comes_into_the_insight_of_others(
    connection: asyncpg.Connection, database: Database
) -> None:
    """An insight that names another's memory as its source, as a client may write it, is not drawn from that."""
    [secret] = await failures(connection, 1, user_id=ANN)
    own = await failures(connection, 2)
    await conclude(connection, "made up", 0.5, source_memories=[*own, secret], category="correction")
    await connection.execute("update agent_memory set content = content || ' x' where id = $1", own[0])
    await dream(database)
    row = await one_row(connection, "select insight, source_memories, user_id from dream_insights")
    assert secret not in row["source_memories"]
    assert row["insight"].startswith("2 failures")


async def past(connection: asyncpg.Connection) -> None:
    """What was remembered so far leaves the dreams' window."""
    await connection.execute("update agent_memory set created_at = created_at - interval '60 hours'")
    await connection.execute(
        "update dream_insights set evidence_until = evidence_until - interval '60 hours', "
        "judged_until = judged_until - interval '60 hours', resolved_at = resolved_at - interval '60 hours'"
    )


async def test_later_successes_resolve_an_insight_about_failures_and_later_failures_open_it_again(
    connection: asyncpg.Connection, database: Database
) -> None:
    await failures(connection, 4)
    await dream(database)
    await past(connection)
    mended = "Task: restore the tape backup → completed\ncleaned the heads"
    # Another user's, another agent's, and another task's success cure nothing.
    await remember(connection, mended, kind="outcome", user_id=ANN)
    await remember(connection, mended, kind="outcome", agent_id="baker")
    await successes(connection, 1)
    await dream(database)
    row = await one_row(connection, INSIGHT)
    assert (row["resolved_at"], row["confidence"]) == (None, 0.8)

    cure = await remember(connection, mended, kind="outcome")
    for _ in range(2):  # a success counts once
        await dream(database)
        row = await one_row(connection, INSIGHT)
        assert row["resolved_at"] == await connection.fetchval(
            "select created_at from agent_memory where id = $1", cure
        )
        assert row["confidence"] == 0.7
        assert row["insight"].endswith("; since then worked: restore the tape backup")
    shown = await connection.fetchval("select metadata ? 'resolved_at' from memoryd.source_insight")
    assert shown is True

    await remember(
        connection, "Task: restore the tape backup → failed (exit 1)\nchecksum again", kind="error"
    )
    await dream(database)
    row = await one_row(connection, INSIGHT)
    assert (row["resolved_at"], row["confidence"]) == (None, 0.8)
    assert row["insight"].count("; since then") == 1


async def test_failures_speak_against_a_pattern(connection: asyncpg.Connection, database: Database) -> None:
    await successes(connection, 3)
    await dream(database)
    await past(connection)
    for _ in range(9):
        await remember(
            connection, "Task: bake sourdough bread → failed (exit 1)", kind="error", agent_id="alice"
        )
    await dream(database)
    confidence = "select confidence from dream_insights where category = 'pattern'"
    assert await column(connection, confidence) == [0.1]


INSTALLED_LONG_AGO = "update memoryd.migrations set applied_at = now() - interval '7 hours'"
ACTIVITY = {
    "message": "insert into conversation_messages (session_id, role, content) values (gen_random_uuid(), 'user', 'hi')",
    "request": "insert into memory_requests (kind, query) values ('recall', 'tape')",
    "context": "select build_context('alice', 'restore the tape')",
    "recall": "select recall('tape')",
    "memory": "insert into agent_memory (agent_id, content) values ('alice', 'a tape')",
    "document": "insert into documents (title, content) values ('Tapes', 'a tape')",
    "new edition": "update documents set content = 'two tapes'",
    "knowledge": "insert into shared_knowledge (tier, category, title, content, created_by) "
    "values ('core', 'principle', 'Tapes', 'a tape', 'alice')",
    "said again": "update shared_knowledge set confidence = 'low'",
    "memory reworded": "update agent_memory set content = 'of Ann' where user_id is not null",
    "match_memory": f"select match_memory(array_fill(0.1, array[256])::vector, filter_user_id => '{ANN}')",
    "a step": "insert into agent_execution_logs (step_name, action_type) values ('read a tape', 'tool_call')",
}
NONE = {
    "a dream": "insert into memory_requests (kind) values ('dream')",
    "support looks": "insert into agent_execution_logs (step_name, action_type) values ('select', 'admin_read')",
    "an anchor is noted": "insert into agent_memory (agent_id, user_id, kind, content, source) "
    f"values ('alice', '{ANN}', 'fact', 'A decision was anchored', 'anchor')",
    "memories expire": "select cleanup_expired_memory()",
    "knowledge is archived": "update shared_knowledge set status = 'archived'",
}


@pytest.fixture
async def quiet(connection: asyncpg.Connection) -> asyncpg.Connection:
    """A fleet that has been quiet for seven hours, with something to dream about."""
    await failures(connection, 3)
    before = datetime.now(UTC) - timedelta(hours=7)
    await connection.execute(
        "insert into documents (title, content, created_at, updated_at) values ('Old', 'tape', $1, $1)",
        before,
    )
    await connection.execute(
        "insert into shared_knowledge (tier, category, title, content, created_by, created_at, updated_at) "
        "values ('core', 'principle', 'Old', 'an old tape', 'alice', $1, $1)",
        before,
    )
    await remember(connection, "an old tape", user_id=ANN, created_at=before)
    await remember(connection, "an expired tape", user_id=ANN, created_at=before, expires_at=before)
    await connection.execute("update agent_execution_logs set created_at = $1", before)
    await connection.execute(INSTALLED_LONG_AGO)
    return connection


async def test_a_fleet_that_was_written_to_a_moment_ago_is_not_idle(
    quiet: asyncpg.Connection, database: Database
) -> None:
    dreams = dreamer(database, Log())
    assert await dreams.due()
    await quiet.execute(ACTIVITY["memory"])
    assert not await dreams.due()
    assert await dreamer(database, Log(), idle_hours=0.000000001).due()


async def test_an_idle_dream_ends_when_a_fleet_talks_asks_or_writes_and_not_by_what_memoryd_does_itself(
    quiet: asyncpg.Connection, database: Database
) -> None:
    sleeps = (
        "insert into dream_sessions (started_by, started_at) values ('idle', clock_timestamp()) returning id"
    )
    dream_id = await quiet.fetchval(sleeps)
    ends = {}
    for what, statement in (ACTIVITY | NONE).items():
        await quiet.execute("update dream_sessions set started_at = clock_timestamp()")
        assert await database.fetchval(lease.RENEW, dream_id, 60.0), what
        await quiet.execute(statement)
        ends[what] = await database.fetchval(lease.RENEW, dream_id, 60.0) is None
    assert ends == dict.fromkeys(ACTIVITY, True) | dict.fromkeys(NONE, False)


async def test_a_fleet_is_not_idle_before_it_has_been_there_for_that_long(
    quiet: asyncpg.Connection, database: Database
) -> None:
    """Who begins with an export, or with past commands, brings rows of old times."""
    await quiet.execute("update memoryd.migrations set applied_at = now() - interval '1 hour'")
    assert not await dreamer(database, Log()).due()


async def test_a_fleet_that_is_never_idle_dreams_when_a_dream_is_overdue_and_gives_way_to_loads(
    connection: asyncpg.Connection, database: Database
) -> None:
    await failures(connection, 3)
    await ask(connection, "never idle", status="cancelled")
    dreams = dreamer(database, Log())
    assert not await dreams.due()
    await connection.execute("update memoryd.migrations set applied_at = now() - interval '25 hours'")
    assert await dreams.due()
    report = await dreams.dream("idle")
    assert report is not None
    assert await column(connection, "select started_by from dream_sessions") == ["overdue"]
    assert not await dreams.due()

    day = timedelta(hours=25)
    await connection.execute("update dream_sessions set finished_at = $1", datetime.now(UTC) - day)
    async with connection.transaction():
        await connection.execute(MUCH_WORK)
        await connection.execute("delete from memoryd.jobs where topic <> 'of nobody'")
    assert not await dreams.due()
    # What waits for a language model is no load.
    await connection.execute("update memoryd.jobs set topic = 'situate'")
    assert await dreams.due()
