"""Runs of agents: their statuses, progress and times; whose they are; and the trail of what they did."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.rows import column, insert, one_row

RUNNING = [
    "initializing", "analyzing_brand", "researching_competitors", "analyzing_trends", "generating_concepts",
    "generating_scripts", "awaiting_approval", "generating_videos", "updating_memory",
]  # fmt: skip
ENDED = ["completed", "error", "cancelled"]
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


async def begin(connection: asyncpg.Connection, **columns: object) -> UUID:
    """A run for Ann."""
    return await insert(connection, "agent_sessions", {"user_id": ANN} | columns)


async def change(connection: asyncpg.Connection, what: str) -> dict[str, Any]:
    """The only run, after an update."""
    return dict(await one_row(connection, f"update agent_sessions set {what} returning *"))


async def test_a_new_run_has_the_designs_defaults(scratch: asyncpg.Connection) -> None:
    await begin(scratch)
    row = dict(await one_row(scratch, "select * from agent_sessions"))
    assert (row["status"], row["progress_percentage"], row["total_steps"]) == ("initializing", 0, 8)
    assert (row["completed_steps"], row["session_data"], row["completed_at"]) == ([], "{}", None)
    assert row["started_at"] == row["created_at"]


@pytest.mark.parametrize("status", ENDED)
async def test_an_ended_run_has_an_end_time_until_it_continues(
    scratch: asyncpg.Connection, status: str
) -> None:
    await begin(scratch)
    for running in RUNNING:
        assert (await change(scratch, f"status = '{running}'"))["completed_at"] is None
    ended = await change(
        scratch, f"status = '{status}', completed_steps = '{{plan}}', progress_percentage = 40"
    )
    assert ended["completed_at"] is not None
    # What was said of the progress stands.
    assert ended["progress_percentage"] == 40
    later = await change(scratch, "error_message = 'see the log'")
    assert later["completed_at"] == ended["completed_at"]
    assert later["updated_at"] > ended["updated_at"]
    again = await change(scratch, "status = 'awaiting_approval'")
    assert (again["completed_at"], again["completed_steps"]) == (None, ["plan"])
    given = await change(scratch, f"status = '{status}', completed_at = '2026-01-01 00:00+00'")
    assert given["completed_at"] == LONG_AGO


async def test_a_completed_run_has_full_progress(scratch: asyncpg.Connection) -> None:
    await begin(scratch, progress_percentage=30)
    assert (await change(scratch, "status = 'completed'"))["progress_percentage"] == 100
    await scratch.execute("delete from agent_sessions")
    await begin(scratch, status="completed", completed_at=LONG_AGO)
    row = await one_row(scratch, "select * from agent_sessions")
    assert (row["progress_percentage"], row["completed_at"]) == (100, LONG_AGO)


async def test_what_is_said_of_the_progress_stands(scratch: asyncpg.Connection) -> None:
    await begin(scratch, status="completed", progress_percentage=40)
    for what in ("error_message = 'see the log'", "progress_percentage = 40", "status = 'completed'"):
        assert (await change(scratch, what))["progress_percentage"] == 40
    assert (await change(scratch, "status = 'error'"))["progress_percentage"] == 40
    assert (await change(scratch, "status = 'completed', progress_percentage = 60"))[
        "progress_percentage"
    ] == 60


@pytest.mark.parametrize(
    ("table", "columns", "state", "said", "hint"),
    [
        (
            "agent_sessions",
            {"status": "done"},
            "23514",
            "unknown status 'done'",
            "Statuses: initializing, analyzing_brand",
        ),
        ("agent_sessions", {"status": None}, "23502", '"status"', ""),
        (
            "agent_sessions",
            {"progress_percentage": 101},
            "23514",
            "progress_percentage is 101",
            "From 0 to 100.",
        ),
        (
            "agent_sessions",
            {"progress_percentage": -1},
            "23514",
            "progress_percentage is -1",
            "From 0 to 100.",
        ),
        ("agent_sessions", {"total_steps": -1}, "23514", "total_steps is -1", "0 or more."),
        (
            "agent_execution_logs",
            {"action_type": "thought"},
            "23514",
            "unknown action_type 'thought'",
            "tool_call",
        ),
        ("agent_execution_logs", {"action_type": None}, "23502", '"action_type"', ""),
        ("agent_execution_logs", {"step_name": " "}, "23514", "step_name is blank", "Say which step it was."),
        (
            "agent_execution_logs",
            {"status": "ok"},
            "23514",
            "unknown status 'ok'",
            "pending, running, success, error",
        ),
        (
            "agent_execution_logs",
            {"confidence_score": 1.01},
            "23514",
            "confidence_score is 1.01",
            "From 0 to 1.",
        ),
        ("agent_execution_logs", {"execution_time_ms": -1}, "23514", "execution_time_ms is -1", "0 or more"),
        ("agent_execution_logs", {"session_id": UUID(int=9)}, "23503", "session_id_fkey", ""),
        (
            "memory_anchors",
            {"category": "party"},
            "23514",
            "unknown category 'party'",
            "milestone, decision, incident",
        ),
    ],
)
async def test_an_invalid_row_is_refused_with_advice(
    scratch: asyncpg.Connection, table: str, columns: dict[str, object], state: str, said: str, hint: str
) -> None:
    whole: dict[str, dict[str, object]] = {
        "agent_sessions": {"user_id": ANN},
        "agent_execution_logs": {"step_name": "plan", "action_type": "tool_call"},
        "memory_anchors": {
            "agent_id": "alice",
            "category": "decision",
            "payload": "{}",
            "content_hash": bytes(32),
        },
    }
    values = whole[table] | columns
    await insert(scratch, table, whole[table])
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    sql = f"insert into {table} ({', '.join(values)}) values ({places})"
    found = await refused(scratch, sql, *values.values())
    assert found[0] == state
    assert said in found[1]
    assert hint in found[2]


async def test_users_read_and_update_their_own_runs(scratch: asyncpg.Connection) -> None:
    anns, bobs, agents = [await begin(scratch, user_id=user) for user in (ANN, BOB, None)]
    for run in (anns, bobs, agents):
        values = {"session_id": run, "step_name": "plan", "action_type": "reasoning"}
        owner = {anns: ANN, bobs: BOB, agents: None}[run]
        await insert(scratch, "agent_execution_logs", values | {"user_id": owner})
    async with acting_as(scratch, ANN):
        own = await scratch.fetchval(
            "insert into agent_sessions (user_id, session_data) values ($1, '{}') returning id", ANN
        )
        assert set(await column(scratch, "select id from agent_sessions")) == {anns, own}
        assert await column(scratch, "select session_id from agent_execution_logs") == [anns]
        assert await scratch.execute("update agent_sessions set status = 'cancelled'") == "UPDATE 2"
        for statement in (
            f"insert into agent_sessions (user_id) values ('{BOB}')",
            "insert into agent_sessions (user_id) values (null)",
            f"update agent_sessions set user_id = '{BOB}'",
            "update agent_sessions set started_at = now()",
            "delete from agent_sessions",
            f"insert into agent_execution_logs (user_id, step_name, action_type) values ('{ANN}', 'x', 'decision')",
            "update agent_execution_logs set reasoning = 'x'",
            "delete from agent_execution_logs",
            "insert into memory_anchors (agent_id, category, payload, content_hash) values ('a', 'decision', '{}', '')",
        ):
            assert (await refused(scratch, statement))[0] == "42501"
        ended = "update agent_sessions set status = 'completed', completed_at = $2 where id = $1 returning completed_at"
        assert await scratch.fetchval(ended, own, LONG_AGO) == LONG_AGO
        begun = "insert into agent_sessions (user_id, status, completed_at) values ($1, 'error', $2) returning completed_at"
        assert await scratch.fetchval(begun, ANN, LONG_AGO) == LONG_AGO
        late = "update agent_sessions set completed_at = 'infinity'"
        assert (await refused(scratch, late))[0] == "23514"
    left = await scratch.fetch("select status from agent_sessions where id = any($1)", [bobs, agents])
    assert [row["status"] for row in left] == ["initializing"] * 2


async def test_deleting_a_run_deletes_its_steps(scratch: asyncpg.Connection) -> None:
    run = await begin(scratch)
    for session in (run, None):
        await insert(
            scratch,
            "agent_execution_logs",
            {"session_id": session, "step_name": "plan", "action_type": "decision", "confidence_score": 0.85},
        )
    await scratch.execute("delete from agent_sessions")
    assert await column(scratch, "select session_id from agent_execution_logs") == [None]
