"""What a dream concludes, with what confidence, about whose memories; asked for by a row of memory_requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from tests.support.content.dreams import dream, failures, notes, remember_all, successes
from tests.support.content.index import INDEXED
from tests.support.rows import ask, associate, column, insert, one_row, remember
from tests.support.waiting import IDLE, READY, until

INSIGHTS = "select * from dream_insights order by category, agent_id"


@pytest.fixture
async def sleeper(served: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """A connection to an empty database, where a command was written a moment ago: only tests begin dreams."""
    await ask(served, "stay awake", status="cancelled")
    yield served
    await until(served, IDLE)
    await served.execute(
        "truncate agent_commands, agent_memory, memory_requests, dream_insights, dream_sessions cascade"
    )


async def test_a_dream_writes_a_correction_a_pattern_and_a_summary(
    sleeper: asyncpg.Connection,
) -> None:
    errors, outcomes = (
        await failures(sleeper, 3, agent_id="sysop"),
        await successes(sleeper, 4, agent_id="baker"),
    )
    sightings = await notes(sleeper, 2, agent_id="ranger") + await notes(sleeper, 2, agent_id="warden")
    await remember(sleeper, "one of a kind: quantum chromodynamics")
    await until(sleeper, IDLE)
    report = await dream(sleeper)
    await until(sleeper, IDLE)

    correction, pattern, summary = await sleeper.fetch(INSIGHTS)
    for row, category, confidence, agent, sources in (
        (correction, "correction", 0.7, "sysop", errors),
        (pattern, "pattern", 0.8, "baker", outcomes),
        (summary, "summary", 0.5, None, sightings),
    ):
        assert (row["category"], row["confidence"], row["agent_id"]) == (category, confidence, agent)
        assert set(row["source_memories"]) == set(sources)
        assert row["embedding"] is not None
        assert await sleeper.fetchval(INDEXED, row["id"])
        assert str(row["dream_id"]) == report["dream_id"]
    assert "3 failures" in correction["insight"]
    assert "checksum mismatch on tape" in correction["insight"]
    assert {"tape", "backup"} <= set(correction["keywords"])
    assert "4 tasks" in pattern["insight"]
    assert "bake sourdough bread" in pattern["insight"]
    assert "4 memories" in summary["insight"]
    assert "heron" in summary["insight"]

    session = await one_row(sleeper, "select * from dream_sessions")
    assert report == {
        "dream_id": str(session["id"]), "status": "completed", "memories_scanned": 12, "clusters_found": 3,
        "insights_generated": 3, "insights_judged": 0, "insights_redrawn": 0, "links_faded": 0,
        "associations_pruned": 0,
    }  # fmt: skip
    assert {key: session[key] for key in report if key != "dream_id"} == {
        k: v for k, v in report.items() if k != "dream_id"
    }
    assert session["started_by"] == "manual"
    assert session["finished_at"] >= session["started_at"]


async def test_no_confidence_is_above_nine_tenths(sleeper: asyncpg.Connection) -> None:
    await failures(sleeper, 9)
    await successes(sleeper, 7)
    await dream(sleeper)
    assert await column(sleeper, "select confidence from dream_insights") == [0.9, 0.9]


@pytest.mark.parametrize(
    ("errors", "outcomes", "written"), [(1, 0, None), (2, 0, "correction"), (0, 2, None), (0, 3, "pattern")]
)
async def test_too_little_evidence_gives_no_insight(
    sleeper: asyncpg.Connection, errors: int, outcomes: int, written: str | None
) -> None:
    await failures(sleeper, errors)
    await successes(sleeper, outcomes)
    await remember_all(sleeper, "note", ["glaciers", "saxophones"])
    await until(sleeper, IDLE)
    await dream(sleeper)
    assert await column(sleeper, "select category from dream_insights") == (
        [] if written is None else [written]
    )


async def test_an_insight_is_in_the_next_context(sleeper: asyncpg.Connection) -> None:
    await failures(sleeper, 3)
    await dream(sleeper)
    command = await ask(sleeper, "restore the tape backup once more")
    await until(sleeper, READY, command)
    context = await sleeper.fetchval("select context from agent_commands where id = $1", command)
    assert "Insights:\n- (correction, 0.70) 3 failures" in context


async def test_the_same_cluster_seen_again_updates_its_insight(sleeper: asyncpg.Connection) -> None:
    await failures(sleeper, 3)
    await successes(sleeper, 3, agent_id="baker")
    first = await dream(sleeper)
    before = {row["id"]: row for row in await sleeper.fetch(INSIGHTS)}
    assert (await dream(sleeper))["dream_id"] != first["dream_id"]
    assert await sleeper.fetchval("select count(*) from dream_insights") == 2

    added = await failures(sleeper, 2)
    third = await dream(sleeper)
    after = {row["id"]: row for row in await sleeper.fetch(INSIGHTS)}
    assert set(after) == set(before)
    [changed] = [row for row in after.values() if row["category"] == "correction"]
    assert changed["confidence"] == 0.9
    assert set(added) < set(changed["source_memories"])
    assert changed["generated_at"] > before[changed["id"]]["generated_at"]
    assert str(changed["dream_id"]) == third["dream_id"]
    assert await sleeper.fetchval("select count(*) from dream_sessions where status = 'completed'") == 3

    # What a person wrote into it stays; what it is drawn from does not.
    await sleeper.execute(
        "update dream_insights set insight = 'Change the tape.', last_modified_human = now() where id = $1",
        changed["id"],
    )
    more = await failures(sleeper, 1)
    await dream(sleeper)
    kept = await one_row(sleeper, "select * from dream_insights where id = $1", changed["id"])
    assert kept["insight"] == "Change the tape."
    assert set(more) < set(kept["source_memories"])


async def test_corrected_failures_become_a_pattern(sleeper: asyncpg.Connection) -> None:
    await failures(sleeper, 2)
    await remember(sleeper, "a note on something else")
    await dream(sleeper)
    mended = [f"Task: restore the tape backup {n} → completed\nchecksum of tape matches" for n in range(3)]
    await remember_all(sleeper, "outcome", mended)
    [before] = await column(sleeper, "select id from dream_insights")
    await dream(sleeper)
    rows = await sleeper.fetch("select id, category, confidence from dream_insights")
    assert [tuple(row) for row in rows] == [(before, "pattern", 0.7)]


async def test_users_are_never_mixed(sleeper: asyncpg.Connection) -> None:
    users = [None, UUID(int=1), UUID(int=2)]
    sources = {user: set(await failures(sleeper, 3, user_id=user)) for user in users}
    single = await failures(sleeper, 1, user_id=UUID(int=3))
    await until(sleeper, IDLE)
    await dream(sleeper)
    rows = await sleeper.fetch("select user_id, source_memories from dream_insights")
    assert {row["user_id"]: set(row["source_memories"]) for row in rows} == sources
    assert not any(set(single) & set(row["source_memories"]) for row in rows)


async def test_expired_and_older_memories_are_not_dreamt_of(sleeper: asyncpg.Connection) -> None:
    now = datetime.now(UTC)
    await failures(sleeper, 3, expires_at=now - timedelta(hours=1))
    for n in range(3):
        await remember(
            sleeper,
            f"heron nesting beside the pond {n}",
            created_at=now - timedelta(hours=49),
            ttl_hours=None,
        )
    await successes(sleeper, 3)
    report = await dream(sleeper)
    assert (report["memories_scanned"], report["insights_generated"]) == (3, 1)


async def test_weak_links_are_pruned(sleeper: asyncpg.Connection) -> None:
    days_ago = datetime.now(UTC) - timedelta(days=9)
    memories = [
        await remember(sleeper, f"{word}", created_at=days_ago)
        for word in ("rain", "wheat", "stone", "glass")
    ]
    await until(sleeper, IDLE)
    await sleeper.execute("delete from memory_associations")
    kept = [
        await associate(sleeper, memories[0], memories[n], strength) for n, strength in ((1, 0.15), (2, 0.9))
    ]
    for n, strength in ((1, 0.0), (2, 0.149)):
        await associate(sleeper, memories[3], memories[n], strength)
    report = await dream(sleeper)
    assert (report["associations_pruned"], report["memories_scanned"]) == (2, 0)
    assert set(await column(sleeper, "select id from memory_associations")) == set(kept)


async def test_a_request_during_another_dream_fails_and_does_not_disturb_it(
    sleeper: asyncpg.Connection,
) -> None:
    await sleeper.execute(
        "insert into dream_sessions (started_by, lease_until) values ('idle', now() + interval '1 hour')"
    )
    request = await insert(sleeper, "memory_requests", {"kind": "dream"})
    await until(sleeper, "select status = 'failed' from memory_requests where id = $1", request)
    error = await sleeper.fetchval("select error from memory_requests where id = $1", request)
    assert error == "Another dream is running; see dream_sessions. Ask again when it has ended."

    # Its dreamer dies: the lease runs out.
    await sleeper.execute("update dream_sessions set lease_until = now() - interval '1 second'")
    report = await dream(sleeper)
    assert report["status"] == "completed"
    statuses = await column(sleeper, "select status from dream_sessions order by started_at")
    assert statuses == ["interrupted", "completed"]
