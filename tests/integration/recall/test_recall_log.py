"""What recall has brought is logged in memory_queries, like what contexts bring, so that it can be judged."""

from __future__ import annotations

import json

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.content.index import index_rows
from tests.support.rows import associate, insert, one_row, remember, say

LOGGED = """
select agent_id, user_id, task_keywords, retrieved_memory_ids as memories, relevance_scores as scores,
       knowledge_ids as knowledge
from memory_queries
"""


async def test_a_recall_is_logged_with_what_it_found(scratch: asyncpg.Connection) -> None:
    """Memories with their scores, and entries of knowledge; of other rows there is nothing to judge."""
    memory = await remember(scratch, "The walrus swims", user_id=ANN)
    entry = await insert(
        scratch,
        "shared_knowledge",
        {
            "tier": "core",
            "category": "team",
            "title": "walrus",
            "content": "The walrus is ours",
            "created_by": "x",
        },
    )
    await say(scratch, ANN, "A walrus, too", user_id=ANN)
    for source in ("memory", "knowledge", "conversation"):
        await index_rows(scratch, source)

    found = await scratch.fetch("select source, score from recall('walrus') order by source")
    assert {r["source"] for r in found} == {"memory", "knowledge", "conversation"}
    row = await one_row(scratch, LOGGED)
    assert (row["memories"], row["knowledge"]) == ([memory], [entry])
    assert row["scores"] == [r["score"] for r in found if r["source"] == "memory"]
    assert row["task_keywords"] == ["walrus"]
    assert (row["agent_id"], row["user_id"]) == (None, None)


async def test_each_way_to_recall_is_logged_once(scratch: asyncpg.Connection) -> None:
    """Also where nothing is found: that is what is missing."""
    for asked in (
        "recall('walrus', 'alice', $1)",
        "recall('walrus', 'alice', $1, options => '{\"min_score\": 0.5, \"project\": \"work\"}')",
    ):
        await scratch.execute("delete from memory_queries")
        await scratch.fetch(f"select * from {asked}", ANN)
        row = await one_row(scratch, LOGGED)
        assert (row["agent_id"], row["user_id"], row["memories"]) == ("alice", ANN, []), asked


async def test_the_last_recall_can_be_judged(scratch: asyncpg.Connection) -> None:
    """Its link gains."""
    one, other = [await remember(scratch, f"upgrade staging {n}", user_id=ANN) for n in "ab"]
    link = await associate(scratch, one, other, 0.5)
    await index_rows(scratch, "memory")
    assert len(await scratch.fetch("select id from recall('upgrade staging', user_id => $1)", ANN)) == 2
    await scratch.execute("select mark_useful(last_recall(), true)")
    assert await scratch.fetchval(
        "select strength from memory_associations where id = $1", link
    ) == pytest.approx(0.6)


async def test_a_users_recall_is_logged_as_the_users(scratch: asyncpg.Connection) -> None:
    """Whoever they say they are."""
    await remember(scratch, "The walrus swims", user_id=BOB)
    async with acting_as(scratch, ANN):
        for user in (None, ANN, BOB):
            await scratch.fetch("select * from recall('walrus', 'alice', $1)", user)
    rows = await scratch.fetch(LOGGED)
    assert [(r["user_id"], r["memories"]) for r in rows] == [(ANN, [])] * 3


async def test_support_and_who_reads_only_and_who_is_off_leave_no_log(scratch: asyncpg.Connection) -> None:
    """They are answered all the same."""
    await remember(scratch, "The walrus swims", user_id=ANN)
    await index_rows(scratch, "memory")
    async with acting_as(scratch, BOB, role="memoryd_admin"):
        assert await scratch.fetch("select * from recall('walrus')")
    async with acting_as(scratch, None):
        assert await scratch.fetch("select * from recall('walrus')") == []
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ANN)
    assert await scratch.fetch("select * from recall('walrus', user_id => $1)", ANN) == []
    # A savepoint that is undone: read-only cannot be taken back in a transaction.
    undone = scratch.transaction()
    await undone.start()
    await scratch.execute("set transaction read only")
    assert await scratch.fetch("select * from recall('walrus', 'alice')") == []
    await undone.rollback()
    assert await scratch.fetch(LOGGED) == []


async def test_thousands_of_results_are_logged_to_a_thousand(scratch: asyncpg.Connection) -> None:
    """The log's limit is not the recall's."""
    await scratch.execute(
        "insert into agent_memory (agent_id, user_id, content) select 'a', $1, 'walrus ' || n from generate_series(1, 1200) n",
        ANN,
    )
    await index_rows(scratch, "memory")
    found = await scratch.fetch("select id from recall('walrus', user_id => $1, match_count => 1200)", ANN)
    assert len(found) > 1000
    assert len((await one_row(scratch, LOGGED))["memories"]) == 1000


async def test_a_request_to_recall_is_logged(scratch: asyncpg.Connection) -> None:
    """Its answer is a recall."""
    memory = await remember(scratch, "The walrus swims", user_id=ANN)
    await index_rows(scratch, "memory")
    answer = await scratch.fetchval(
        "select memoryd.answer('recall', 'alice', $1, 'walrus', '{}', null, null)", ANN
    )
    assert [r["id"] for r in json.loads(answer)] == [str(memory)]
    assert (await one_row(scratch, LOGGED))["memories"] == [memory]
