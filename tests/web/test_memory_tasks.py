"""What a memory's page says of the tasks in whose contexts the memory stood: how many ended, and how many succeeded."""

from __future__ import annotations

import uuid
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from tests.support.rows import remember
from tests.support.services.web_pages import Reader, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHOWN = """
with task as (
    insert into agent_commands (agent_id, user_id, message, status) values ($1, $2, 'deploy the site', $3) returning id
)
insert into memoryd.quotes (command_id, row_ids, hashes)
select t.id, $4::uuid[], array_fill(0::bigint, array[cardinality($4::uuid[])]) from task t
"""


async def shown(
    db: asyncpg.Connection,
    *rows: UUID,
    status: str,
    times: int = 1,
    user: UUID | None = None,
    agent: str = "alice",
) -> None:
    """Tasks in whose contexts these rows stand."""
    for _ in range(times):
        await db.execute(SHOWN, agent, user, status, list(rows))


async def test_it_says_how_many_ended_and_how_many_succeeded(pages: Reader, db: asyncpg.Connection) -> None:
    row = await remember(db, "the deploy needs make login first")
    assert "In contexts" not in await pages.read(f"/memories/{row}")
    for status in ("pending", "ready", "running", "cancelled"):
        await shown(db, row, status=status)
    assert "In contexts" not in await pages.read(f"/memories/{row}")
    await shown(db, row, status="failed")
    assert "in 1 task, 0 succeeded" in await pages.read(f"/memories/{row}")
    await shown(db, row, status="failed")
    await shown(db, row, status="completed", times=4)
    await shown(db, row, status="completed", agent="another agent")
    assert "in 7 tasks, 5 succeeded" in await pages.read(f"/memories/{row}")


async def test_tasks_of_other_users_are_neither_counted_nor_told(
    pages: Reader, url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    ann, bob = uuid.uuid4(), uuid.uuid4()
    hers = await remember(db, "ann deploys on Mondays", user_id=ann)
    agents = await remember(db, "deploys are slow on Mondays")
    shared = await remember(db, "all deploy on Mondays", agent_id="_shared")
    await shown(db, hers, agents, shared, status="completed", times=2, user=ann)
    # No context of Bob's shows her row; a broken writer is no reason to tell her what became of his tasks.
    await shown(db, hers, agents, shared, status="failed", times=3, user=bob)
    await shown(db, hers, status="failed", times=3)
    assert "in 2 tasks, 2 succeeded" in await pages.read(f"/memories/{hers}")
    for row in (agents, shared):
        assert "In contexts" not in await pages.read(f"/memories/{row}")
    async with served(url, tmp_path, "--as-user", str(ann)) as own:
        assert "in 2 tasks, 2 succeeded" in await own.read(f"/memories/{hers}")
        missing = await own.read(f"/memories/{uuid.uuid4()}", status=404)
        assert await own.read(f"/memories/{agents}", status=404) == missing
    async with served(url, tmp_path, "--as-user", str(bob)) as other:
        await other.get(f"/memories/{hers}", status=404)


async def test_what_is_erased_is_out_of_the_count(pages: Reader, db: asyncpg.Connection) -> None:
    cat = uuid.uuid4()
    row = await remember(db, "cat's site needs node 20", user_id=cat)
    await shown(db, row, status="completed", times=2, user=cat)
    await shown(db, row, status="failed", user=cat)
    assert "in 3 tasks, 2 succeeded" in await pages.read(f"/memories/{row}")
    await db.execute("delete from agent_commands where user_id = $1 and status = 'failed'", cat)
    assert "in 2 tasks, 2 succeeded" in await pages.read(f"/memories/{row}")
    await db.execute("select erase_user_memory($1)", cat)
    await pages.get(f"/memories/{row}", status=404)
    assert await db.fetchval("select count(*) from memoryd.quotes where row_ids @> array[$1::uuid]", row) == 0
