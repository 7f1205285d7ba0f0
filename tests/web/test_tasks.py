"""The page of tasks: which failed, what an agent was given and what came of it; and whose they are."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import asyncpg
import pytest

from plugins.web.pages import tasks
from tests.support.content.knowledge import know
from tests.support.rows import insert, remember
from tests.support.services.web_pages import Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()
PAYLOAD = "</pre><img src=x onerror=alert(1)>"
GIVEN = """
insert into memoryd.quotes (command_id, row_ids, hashes)
select c.id, $1::uuid[], array[0] from agent_commands c where c.agent_id = $2
"""


async def task(db: asyncpg.Connection, message: str, **columns: object) -> uuid.UUID:
    """A task of Ann's that failed, unless told otherwise."""
    values = {"agent_id": "sailor", "user_id": ANN, "message": message, "status": "failed"} | columns
    return await insert(db, "agent_commands", values)


async def test_a_task_tells_what_was_given_and_what_came_of_it(pages: Reader, db: asyncpg.Connection) -> None:
    asked = await task(
        db,
        f"hoist {PAYLOAD}",
        error=f"torn {PAYLOAD}",
        output="x" * 30_000,
        exit_code=7,
        context=f"known: {PAYLOAD}",
    )
    given = await remember(db, f"the sail {PAYLOAD}", user_id=BOB)
    outcome = await remember(
        db, "the sail tore", agent_id="sailor", user_id=ANN, kind="error", command_id=asked
    )
    known = await know(db, f"No chipboard {PAYLOAD}", "Ask each customer.")
    await db.execute(GIVEN, [given, known], "sailor")
    await db.execute("delete from agent_execution_logs")
    page = await pages.get(f"/tasks/{asked}")
    assert "<img" not in page
    assert "x" * 20_000 in page
    assert "x" * 20_001 not in page
    said = text_of(page)
    for part in (
        "failed exit 7",
        f"hoist {PAYLOAD}",
        f"torn {PAYLOAD}",
        "the sail tore",
        f"memory the sail {PAYLOAD}",
        f"knowledge No chipboard {PAYLOAD}: Ask each customer.",
        "30 000",
    ):
        assert part in said, part
    looked_at = await db.fetch("select user_id from agent_execution_logs where action_type = 'admin_read'")
    assert {row["user_id"] for row in looked_at} == {ANN, BOB}, (
        "whose rows the context shows is on record, too"
    )
    for link in (f"/memories/{given}", f"/memories/{outcome}"):
        assert f'href="{link}"' in page
    assert f'href="/tasks/{asked}"' in await pages.get(f"/memories/{outcome}")
    assert re.search(
        r"hoist \S+ \S+ \S+ torn \S+ \S+ \S+ \d{4}-\S+ [\d:]+ failed exit 7 sailor",
        await pages.read("/tasks"),
    )
    for query in (
        "status=completed",
        f"user={BOB}",
        "agent=nobody",
        "until=2020-01-01",
        f"memory={uuid.uuid4()}",
    ):
        assert "hoist" not in await pages.read(f"/tasks?{query}")
    for query in ("status=failed", f"user={ANN}", "agent=sailor", "since=2020-01-01", f"memory={given}"):
        assert "hoist" in await pages.read(f"/tasks?{query}")
    assert "status is one of" in await pages.read("/tasks?status=lost", status=400)
    await pages.get(f"/tasks/{uuid.uuid4()}", status=404)


async def test_the_list_says_how_a_task_failed(pages: Reader, db: asyncpg.Connection) -> None:
    asked = await task(db, "furl the jib", agent_id="rigger", exit_code=1)
    said = "Task: furl the jib → failed (exit 1) the rope burnt"
    await remember(db, said, agent_id="rigger", user_id=ANN, kind="error", command_id=asked)
    listed = await pages.read("/tasks?agent=rigger")
    assert "furl the jib failed (exit 1) the rope burnt" in listed


async def test_an_end_user_sees_their_own_tasks_without_what_agents_know(
    url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    own = await task(db, "row ashore", context="the captain sleeps")
    others = await task(db, "scrub the deck", user_id=BOB)
    async with served(url, tmp_path, "--as-user", str(ANN)) as ann:
        listed = await ann.read("/tasks")
        assert "row ashore" in listed
        assert "scrub" not in listed
        assert "scrub" not in await ann.read(f"/tasks?user={BOB}")
        said = await ann.read(f"/tasks/{own}")
        assert "row ashore" in said
        assert "captain" not in said
        await ann.get(f"/tasks/{others}", status=404)


async def test_a_memory_in_very_many_contexts_is_counted_to_an_end(
    pages: Reader, db: asyncpg.Connection
) -> None:
    memory = await remember(db, "lines are coiled clockwise", agent_id="bosun")
    await db.execute(
        "insert into agent_commands (agent_id, message, status) select 'bosun', 'coil ' || n, 'completed' "
        "from generate_series(1, $1::integer) n",
        tasks.MOST + 1,
    )
    await db.execute(GIVEN, [memory], "bosun")
    assert "in ≥ 1000 tasks, 1000 succeeded" in await pages.read(f"/memories/{memory}")
