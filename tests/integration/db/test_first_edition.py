"""A database that the seventeen migrations of before made is carried over once: no row is lost, and it is like a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.db.migration_files import load_files
from tests.support.catalog import catalog
from tests.support.daemons import Daemons
from tests.support.first_edition import rows
from tests.support.index import UNINDEXED, stale
from tests.support.rows import column
from tests.support.schemas import apply, connected, lives
from tests.support.sources import TABLES as SOURCES
from tests.support.sources import found
from tests.support.statistics import miscounted
from tests.support.waiting import IDLE, until

TO_INDEX = """
select s.source, s.id, s.scope from memoryd.searchable s
"""
WAITING = """
select u.source, u.id, u.scope from memoryd.unindexed u
join memoryd.jobs j on j.topic = 'index' and j.ref = u.id and j.payload->>'source' = u.source
"""


async def test_no_row_is_lost_and_the_catalog_is_that_of_a_new_database(
    old_url: str, database_url: str
) -> None:
    async with connected(old_url) as connection:
        before = await rows(connection)
    assert {name for name, some in before.items() if not some} <= {
        "memoryd.daemons", "memoryd.executions", "memoryd.dense_indexes", "memoryd.erased_texts", "memoryd.logins",
        "memoryd.answered_from", "memoryd.ticks",
    }  # fmt: skip
    upgrade = await apply(old_url)
    assert upgrade.carried_over
    assert upgrade.functions == load_files().functions
    async with connected(old_url) as connection, connected(database_url) as new:
        after = await rows(connection)
        replica = {
            name: some
            for name, some in after.items()
            if name.startswith(("memoryd.replica", "memoryd.trail"))
        }
        assert {name for name, some in replica.items() if some} == {
            "memoryd.replica",
            "memoryd.trail",
            "memoryd.trail_leaves",
        }
        locks = [
            one for one in after.pop("memoryd.locks") if "superseding" not in one and "knowledge" not in one
        ]
        assert locks == before.pop("memoryd.locks")
        assert before.pop("memoryd.answered_from") == []
        made: dict[str, list[str]] = {
            "memoryd.tokens": [],
            "chat_group_members": [],
            "memoryd.facts": [],
            "memoryd.fact_sources": [],
            "memoryd.names": [],
            "memoryd.memory_uses": [],
            "memoryd.model_calls": [],
            "memoryd.drop_folders": [],
            "memoryd.deleted_accounts": [],
            "memoryd.quotes": [],
            "memoryd.outdated_rows": [],
        }
        assert after == before | replica | made
        assert await catalog(connection) == await catalog(new)
    assert not await apply(old_url)


async def test_documents_with_content_wait_to_be_cut_after_it(old_url: str) -> None:
    async with connected(old_url) as connection:
        await connection.execute(
            "insert into documents (title, content, status) values ('a', 'text', 'processing'), ('b', null, 'processing'), "
            "('c', 'text', 'deleted')"
        )
    await apply(old_url)
    async with connected(old_url) as connection:
        states = {
            r["title"]: r["status"]
            for r in await connection.fetch(
                "select title, status from documents where title in ('a', 'b', 'c')"
            )
        }
        assert states == {"a": "processing", "b": "active", "c": "deleted"}
        waiting = (
            "select d.title from memoryd.jobs j join documents d on d.id = j.ref where j.topic = 'document'"
        )
        assert "a" in await column(connection, waiting)
        assert {"b", "c"}.isdisjoint(await column(connection, waiting))


@pytest.mark.first_server
async def test_all_rows_wait_to_be_indexed_after_it(old_url: str, tmp_path: Path) -> None:
    """And each has a job; until then recall reads their text. A daemon then indexes them."""
    await apply(old_url)
    daemons = Daemons(old_url, tmp_path)
    async with connected(old_url) as connection:
        everything = {tuple(r) for r in await connection.fetch(TO_INDEX)}
        assert {source for source, _, _ in everything} == set(SOURCES)
        assert {tuple(r) for r in await connection.fetch(WAITING)} == everything
        assert await column(connection, "select count(*) from memoryd.jobs where topic = 'index'") == [
            len(everything)
        ]
        assert await column(connection, "select count(*) from memoryd.entries") == [0]
        waiting = await found(connection, "backup")
        assert any(waiting.values())
        try:
            await daemons.start()
            await until(connection, "select not exists (select from memoryd.unindexed)")
            await until(connection, IDLE)
        finally:
            await daemons.kill_all()
        assert await stale(connection) == []
        assert await miscounted(connection) == []
        assert await column(connection, UNINDEXED, None) == []
        for source, ids in waiting.items():
            assert ids <= (await found(connection, "backup"))[source]


@pytest.mark.first_server
async def test_an_embedding_of_a_message_and_its_neighbours_is_never_used_again(
    old_url: str, tmp_path: Path
) -> None:
    """It stands in the message's row from before. A change of the message does not bring it back, nor does a new index."""
    await apply(old_url)
    daemons = Daemons(old_url, tmp_path)
    async with connected(old_url) as connection:
        try:
            await daemons.start()
            await until(connection, IDLE)
            read = "select id, embedding::text from memoryd.entries where source = 'conversation' order by id"
            anew = [tuple(r) for r in await connection.fetch(read)]
            assert anew
            await connection.execute("update conversation_messages set metadata = metadata || '{\"a\": 1}'")
            await until(connection, IDLE)
            assert [tuple(r) for r in await connection.fetch(read)] == anew
            await connection.execute("update conversation_messages set speaker = 'Carol'")
            await until(connection, IDLE)
            assert [tuple(r) for r in await connection.fetch(read)] == anew
        finally:
            await daemons.kill_all()


@pytest.mark.first_server
async def test_work_that_waited_is_done_after_it(old_url: str, tmp_path: Path) -> None:
    daemons = Daemons(old_url, tmp_path)
    try:
        daemon = await daemons.start()
        async with connected(old_url) as connection:
            await until(connection, IDLE)
            waiting = "select count(*) from memory_requests where status = 'pending'"
            assert await connection.fetchval(waiting) == 0
            assert (
                await connection.fetchval("select count(*) from agent_commands where status = 'pending'") == 0
            )
            assert "the backup runs at four" in str(
                await column(connection, "select content from recall('backup')")
            )
            await connection.execute("update agents set enabled = true")
            await connection.execute("delete from memoryd.dead_letters")
            await connection.execute("truncate agent_commands, memory_queries, memory_requests cascade")
            await connection.execute("delete from agent_memory")
            await until(connection, IDLE)
            await lives(connection)
        (applied,) = daemon.events("functions_applied")
        assert (applied["carried_over"], applied["files"]) == (True, len(load_files().functions))
    finally:
        await daemons.kill_all()
