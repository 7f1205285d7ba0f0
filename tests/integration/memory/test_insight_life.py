"""An insight lives with its memories: drawn again when one changes or goes, held against what happens later, resolved; and when
dreams come to a fleet that is never idle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from tests.support.dreamers import Log, dreamer
from tests.support.dreams import failures, remember_all, successes
from tests.support.rows import ask, column, conclude, insert, one_row, remember, say
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


@pytest.mark.parametrize("what", ["message", "request", "context"])
async def test_a_fleet_that_talks_or_asks_is_not_idle(
    connection: asyncpg.Connection, database: Database, what: str
) -> None:
    await failures(connection, 3)
    dreams = dreamer(database, Log())
    assert await dreams.due()
    match what:
        case "message":
            await say(connection, UUID(int=9), "How do we publish a release?")
        case "request":
            await insert(connection, "memory_requests", {"kind": "recall", "query": "tape"})
        case _:
            await connection.execute("select build_context('alice', 'restore the tape')")
    assert not await dreams.due()
    assert await dreamer(database, Log(), idle_hours=0.000000001).due()


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
    assert await column(connection, "select trigger from dream_sessions") == ["overdue"]
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
