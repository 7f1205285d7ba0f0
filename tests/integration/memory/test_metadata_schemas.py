"""The metadata of the five types of memory are checked: warned of once a transaction, or refused; never repeated."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.access.refusals import refused
from tests.support.rows import insert

SET = "insert into memoryd.settings values ('metadata_schemas', $1) on conflict (key) do update set value = excluded.value"
SECRET = "quokkazephyr"
WHOLE: dict[str, dict[str, Any]] = {
    "brand_memory": {
        "brand_name": "b", "industry": "i", "target_audience": "t", "tone": ["friendly"], "keywords": [], "competitors": ["c"],
        "source": "uploaded_doc",
    },
    "user_preferences": {
        "preference_type": "platform", "confidence_score": 0.5, "last_updated": "today", "source": "explicit_choice",
    },
    "competitive_memory": {
        "competitor_name": "c", "platform": "tiktok", "ad_id": "a", "date_captured": "d", "hook_type": "h", "cta_type": "c",
        "performance_metrics": {"engagement_rate": 0.1, "view_count": 5, "share_count": 0},
    },
    "task_memory": {
        "session_id": "s", "task_type": "research_only", "outcome": "partial_success", "user_feedback": "neutral",
        "decisions_made": ["d"], "tools_used": [],
    },
    "performance_memory": {
        "video_id": "v", "platform": "p", "campaign_context": "c", "what_worked": "w", "what_didnt_work": "x",
        "metrics": {"views": 1, "engagement_rate": 0.1, "conversion_rate": 0.2, "ctr": 0.3},
    },
}  # fmt: skip
REQUIRED = {
    "user_preferences": {"preference_type", "confidence_score", "last_updated"},
    "task_memory": {"session_id", "task_type", "outcome"},
    "performance_memory": {"video_id"},
}


async def write(connection: asyncpg.Connection, kind: str | None, metadata: Any, **columns: object) -> None:
    values = {
        "agent_id": "a",
        "content": "x",
        "memory_type": kind,
        "metadata": json.dumps(metadata),
        "user_id": ANN,
    }
    await insert(connection, "agent_memory", values | columns)


async def fault(connection: asyncpg.Connection, kind: str, metadata: Any) -> str:
    """Message and hint of the refusal."""
    state, message, hint = await refused(
        connection,
        "insert into agent_memory (agent_id, content, memory_type, metadata) values ('a', 'x', $1, $2)",
        kind,
        json.dumps(metadata),
    )
    assert state == "23514"
    assert SECRET not in message + hint
    return f"{message}. {hint}"


@pytest.mark.parametrize("kind", WHOLE)
async def test_what_the_type_says_is_stored_and_nothing_else(scratch: asyncpg.Connection, kind: str) -> None:
    """Each field that is not required may be left out or null; others that the type does not name may be there."""
    await scratch.execute(SET, '"refuse"')
    whole, required = WHOLE[kind], REQUIRED.get(kind, set())
    await write(scratch, kind, whole | {"unknown": [SECRET]})
    await write(scratch, kind, {})
    for name in whole:
        without = {key: value for key, value in whole.items() if key != name}
        for left_out in (without, whole | {name: None}):
            if name in required:
                assert f"metadata.{name} is missing ({kind})" in await fault(scratch, kind, left_out)
            else:
                await write(scratch, kind, left_out | {"unknown": 1})
        assert f"metadata.{name} is" in await fault(scratch, kind, whole | {name: {SECRET: 1} if kind else 1} | (
            {name: SECRET} if isinstance(whole[name], dict) else {}
        ))  # fmt: skip
        if isinstance(whole[name], list):
            for no_texts in ([SECRET, 1], [[SECRET]], [None], SECRET):
                assert "no array of strings" in await fault(scratch, kind, whole | {name: no_texts})
        if isinstance(whole[name], dict):
            for inner in whole[name]:
                wrong = whole | {name: whole[name] | {inner: SECRET}}
                assert (
                    f"metadata.{name}.{inner} is of type string, and must be of type number"
                    in await fault(scratch, kind, wrong)
                )
    assert "type array" in await fault(scratch, kind, [SECRET])


@pytest.mark.parametrize(
    ("kind", "name", "allowed"),
    [
        ("brand_memory", "source", "user_input, agent_inferred, uploaded_doc"),
        ("user_preferences", "preference_type", "video_format, actor, music, tone, platform"),
        ("user_preferences", "source", "explicit_choice, inferred_from_usage"),
        ("competitive_memory", "platform", "meta, tiktok, youtube"),
        ("task_memory", "task_type", "full_agent_run, research_only, script_generation, video_generation"),
        ("task_memory", "outcome", "success, partial_success, failure"),
        ("task_memory", "user_feedback", "positive, neutral, negative"),
    ],
)
async def test_a_value_that_is_none_of_those_is_refused_with_those(
    scratch: asyncpg.Connection, kind: str, name: str, allowed: str
) -> None:
    await scratch.execute(SET, '"refuse"')
    for value in allowed.split(", "):
        await write(scratch, kind, WHOLE[kind] | {name: value})
    said = await fault(scratch, kind, WHOLE[kind] | {name: SECRET})
    assert f"metadata.{name} has a value that it cannot have ({kind})" in said
    assert f"Allowed: {allowed}." in said


async def test_a_warning_is_given_once_a_transaction_and_the_row_is_stored(
    connection: asyncpg.Connection,
) -> None:
    """Also for 20,000 rows; what may not be written is not."""
    told: list[asyncpg.PostgresLogMessage] = []
    connection.add_log_listener(lambda _, message: told.append(message))
    bulk = (
        "insert into agent_memory (agent_id, content, memory_type, metadata) "
        "select 'a', 'x', 'task_memory', jsonb_build_object('outcome', $1::text) from generate_series(1, $2::int)"
    )
    async with connection.transaction():
        await connection.execute(bulk, SECRET, 300)
        await connection.execute(bulk, SECRET, 1)
    async with acting_as(connection, ANN):
        await write(connection, "task_memory", WHOLE["task_memory"])
        await write(connection, "task_memory", {"outcome": SECRET})
        await write(connection, None, {"outcome": SECRET})
        await write(connection, "user_preferences", {"slot": SECRET}, source="conversation")
    await connection.execute(SET, '"off"')
    await write(connection, "task_memory", {"outcome": SECRET})
    assert [(str(one.severity), one.sqlstate) for one in told] == [("WARNING", "01000")] * 2
    assert not [one for one in told if SECRET in str(one.as_dict())]
    assert await connection.fetchval("select count(*) from agent_memory") == 306


async def test_a_change_of_something_else_is_not_refused(scratch: asyncpg.Connection) -> None:
    """Rows from before stay as they are until their metadata or their type change."""
    await write(scratch, "task_memory", {"outcome": SECRET})
    await scratch.execute(SET, '"refuse"')
    await scratch.execute("update agent_memory set content = 'y', metadata = metadata")
    for change in ("metadata = metadata || '{\"a\": 1}'", "memory_type = 'performance_memory'"):
        assert (await refused(scratch, f"update agent_memory set {change}"))[0] == "23514"
    await scratch.execute("update agent_memory set memory_type = 'brand_memory'")


async def test_what_was_stored_before_it_was_refused_can_be_replaced(connection: asyncpg.Connection) -> None:
    """The metadata are kept, not given: who writes the new words cannot change them. New ones are refused as ever."""
    await connection.execute(SET, '"off"')
    await write(connection, "brand_memory", {"tone": SECRET})
    old = await connection.fetchval("select id from agent_memory")
    await connection.execute(SET, '"refuse"')
    async with acting_as(connection, ANN):
        newer = await connection.fetchval("select supersede_memory($1, 'y')", old)
        assert "tone" in await fault_of_user(connection)
    assert json.loads(
        await connection.fetchval("select metadata from agent_memory where id = $1", newer)
    ) == {"tone": SECRET}


async def fault_of_user(connection: asyncpg.Connection) -> str:
    """The refusal of a user's own metadata, in the same transaction."""
    said = await refused(
        connection,
        "insert into agent_memory (agent_id, user_id, content, memory_type, metadata) "
        "values ('a', $1, 'x', 'brand_memory', '{\"tone\": 1}')",
        ANN,
    )
    assert said[0] == "23514"
    return said[1]
