"""What is remembered is found from the moment it is written, as it is now, and not once it is gone."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from daemon.db.migrator import migrate
from providers.local_embedder import LocalEmbedder
from tests.support.content.index import UNINDEXED, WRITE_ALL
from tests.support.content.sources import TABLES, found, one_of_each
from tests.support.database.schemas import connected
from tests.support.processes.commands import memoryd
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, insert, remember
from tests.support.services.openai_server import OpenAIServer
from tests.support.waiting import IDLE, RESCHEDULED, until


async def put(connection: asyncpg.Connection, ids: dict[str, UUID], text: str) -> None:
    """Puts other words into every row."""
    for source, key in ids.items():
        table, name = TABLES[source]
        await connection.execute(f"update {table} set {name} = $2 where id = $1", key, text)


def all_of(ids: dict[str, UUID]) -> dict[str, set[UUID]]:
    """As `found` would answer."""
    return {source: {key} for source, key in ids.items()}


NONE: dict[str, set[UUID]] = {source: set() for source in TABLES}


@pytest.mark.usefixtures("tokens")
async def test_what_has_no_embedding_yet_has_no_similarity(connection: asyncpg.Connection) -> None:
    """Neither does what was found only by its link."""
    heron = await remember(connection, "The heron built a nest", agent_id="alice")
    asked = "select similarity from recall('heron', 'alice') order by score desc"
    assert await column(connection, asked) == [None]
    await remember(connection, "Rent is due on the first", agent_id="alice")
    await connection.execute(WRITE_ALL)
    await connection.execute(
        "insert into memory_associations (memory_id, related_memory_id, association_type, strength)"
        " select $1, id, 'related', 1 from agent_memory where id <> $1",
        heron,
    )
    near, *linked = await column(connection, asked)
    assert near is not None
    assert linked == [None]


@pytest.mark.usefixtures("tokens")
async def test_the_latest_of_many_rows_is_found_before_they_are_indexed(
    connection: asyncpg.Connection,
) -> None:
    """As where no daemon runs."""
    await connection.execute(
        "insert into agent_memory (id, agent_id, content)"
        " select overlay(gen_random_uuid()::text placing '0' from 1)::uuid, 'alice', 'Budget, part ' || n"
        " from generate_series(1, 1000) n"
    )
    latest = await remember(connection, "The heron built a nest", id=UUID(int=2**128 - 1))
    assert await column(connection, "select id from recall('heron', 'alice')") == [latest]


async def test_rows_are_found_by_their_words_before_and_after_they_are_indexed(
    connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    ids = await one_of_each(connection, "The heron built a nest near the lighthouse.")
    await one_of_each(connection, "Quarterly budget figures for the accounting department.")
    assert await found(connection, "a heron's nests") == all_of(ids)

    daemon = await daemons.start()
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
    assert await found(connection, "a heron's nests") == all_of(ids)
    # By neighbours of the words: no row says bird, nor is there an embedding in this question.
    near = await memoryd(
        "recall", "--json", "-n", str(len(ids)), "--", "bird beacon", url=daemons.url, folder=tmp_path
    )
    assert {row["id"] for row in near.json} == {str(key) for key in ids.values()}
    # Only by meaning: it has none of the words, and no word near to one.
    [vector] = await LocalEmbedder().embed(["where does the heron nest"])
    meant = "select id from recall('', query_embedding => $1::text::vector, match_count => $2)"
    assert set(await column(connection, meant, str(vector.tolist()), len(ids))) == set(ids.values())

    await daemon.stop()
    await put(connection, ids, "The otter swims.")
    assert await found(connection, "heron nest") == NONE
    assert await found(connection, "otters swimming") == all_of(ids)
    await daemons.start()
    await until(connection, IDLE)
    assert await found(connection, "heron nest") == NONE
    assert await found(connection, "otters swimming") == all_of(ids)

    for source, (table, _) in TABLES.items():
        await connection.execute(f"delete from {table} where id = $1", ids[source])
    assert await found(connection, "otters swimming") == NONE
    await until(connection, IDLE)
    assert await found(connection, "otters swimming") == NONE
    counted = (
        "select count(*) from memoryd.lexeme_statistics where lexeme in ('otter', 'swim', 'heron', 'nest')"
    )
    assert await connection.fetchval(counted) == 0
    words = "select count(*) from memoryd.lexicon where word in ('otter', 'swims', 'heron', 'nest')"
    assert await connection.fetchval(words) == 0
    # Words that come back are learnt again.
    await one_of_each(connection, "The otter swims.")
    await until(connection, IDLE)
    assert await connection.fetchval(words) == 2


async def test_rows_are_found_between_their_index_and_their_statistics(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    unfinished = second.transaction()
    await unfinished.start()
    await second.execute("select memoryd.lock('lexeme_statistics')")
    ids = await one_of_each(connection, "The heron built a nest near the lighthouse.")
    agents = [f"agent {n}" for n in range(15)]
    for agent in agents:
        await insert(connection, "agent_memory", {"agent_id": agent, "content": f"A quail for {agent}."})
    await daemons.start()
    await until(connection, f"select not exists ({UNINDEXED})", None)
    assert await connection.fetchval("select count(*) from memoryd.lexeme_statistics") == 0
    assert await found(connection, "a heron's nests") == all_of(ids)
    assert len((await found(connection, "quails"))["memory"]) == len(agents)
    assert len((await found(connection, "quails", agents[0]))["memory"]) == 1
    await unfinished.rollback()
    await until(connection, IDLE)
    assert await found(connection, "a heron's nests") == all_of(ids)


@pytest.mark.parametrize("source", ["memory", "conversation"])
async def test_a_late_index_does_not_restore_old_words(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    daemons: Daemons,
    source: str,
) -> None:
    """The words change after they were read, and before their index is written."""
    ids = await one_of_each(connection, "The heron built a nest near the lighthouse.")
    change = second.transaction()
    await change.start()
    await put(second, {source: ids[source]}, "The otter swims.")
    # Not even the job of the change is there to mend it.
    await second.execute(
        "delete from memoryd.jobs where topic = 'index' and xmin::text = txid_current()::text"
    )
    await daemons.start(poll_seconds=0.2)
    await until(connection, RESCHEDULED)
    await change.commit()
    await until(connection, IDLE)
    assert (await found(connection, "heron nest"))[source] == set()
    assert (await found(connection, "otters swimming"))[source] == {ids[source]}


async def test_rows_are_found_by_their_words_while_the_embedder_is_down(
    empty_url: str, tmp_path: Path
) -> None:
    with OpenAIServer(dimensions=8) as server:
        server.stop()
        async with connected(empty_url) as connection:
            await migrate(connection, dimensions=8, embedder="openai/test")
            daemons = Daemons(empty_url, tmp_path)
            try:
                daemon = await daemons.start(
                    embedder="openai/test",
                    embedding_dimensions=8,
                    openai_base_url=server.base_url,
                    poll_seconds=0.5,
                )
                ids = await one_of_each(connection, "The heron built a nest near the lighthouse.")
                await daemon.event("provider_lost")
                assert await found(connection, "a heron's nests") == all_of(ids)
                await put(connection, ids, "The otter swims.")
                assert await found(connection, "heron nest") == NONE
                assert await found(connection, "otters swimming") == all_of(ids)
                server.start()
                await until(connection, IDLE)
                assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
                assert await column(connection, UNINDEXED, None) == []
                assert await found(connection, "otters swimming") == all_of(ids)
            finally:
                await daemons.kill_all()


async def test_knowledge_is_found_by_its_tags_before_and_after_it_is_indexed(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    """What of a row is searched is said once (memoryd.searched_text), for rows with and without an index."""
    knowledge = {"tier": "core", "category": "team", "title": "Queue", "content": "It restarts first."}
    row = await insert(
        connection, "shared_knowledge", knowledge | {"created_by": "alice", "tags": ["runbook"]}
    )
    asked = "select id from recall('runbooks', sources => '{knowledge}')"
    assert await column(connection, asked) == [row]
    await daemons.start()
    await until(connection, IDLE)
    assert await column(connection, asked) == [row]
    assert await connection.fetchval("select lexemes @@ 'runbook' from memoryd.entries where id = $1", row)
