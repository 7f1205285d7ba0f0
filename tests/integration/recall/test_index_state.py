"""What has become of a row: asked by the client that stored it."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from daemon.db.migrator import migrate
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.content.index import index_rows
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import connected
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, remember
from tests.support.services.openai_server import Fault, OpenAIServer
from tests.support.waiting import IDLE, until

STATE = "select state from index_state(array[$1]::uuid[])"
STATES = "select state from memoryd.index_states where id = $1"


async def test_a_row_waits_then_is_indexed_and_waits_again_with_other_words(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    ids = await one_of_each(connection, "The heron built a nest.")
    for key in ids.values():
        assert await column(connection, STATE, key) == ["waiting"]
    daemon = await daemons.start()
    await until(connection, IDLE)
    for source, key in ids.items():
        assert await column(connection, STATE, key) == ["indexed"]
        assert await column(connection, STATES, key) == ([] if source == "knowledge" else ["indexed"])
    await daemon.stop()
    await connection.execute("update agent_memory set content = 'The otter swims.'")
    assert await column(connection, STATE, ids["memory"]) == ["waiting"]
    await connection.execute("delete from agent_memory")
    assert await column(connection, STATE, ids["memory"]) == []


async def test_a_row_whose_embedder_is_down_is_found_by_its_words(empty_url: str, tmp_path: Path) -> None:
    with OpenAIServer(dimensions=8) as server:
        server.always = Fault.status(503, retry_after="Fri, 31 Dec 2100 23:59:59 GMT")
        async with connected(empty_url) as connection:
            await migrate(connection, dimensions=8, embedder="openai/test")
            daemons = Daemons(empty_url, tmp_path)
            try:
                daemon = await daemons.start(
                    embedder="openai/test", embedding_dimensions=8, openai_base_url=server.base_url
                )
                key = await remember(connection, "The heron built a nest.")
                lost = await daemon.event("provider_lost")
                assert lost["reason"] == "openai/test: HTTP 503"
                assert lost["retry_in"] > 3_000
                later = await remember(connection, "The otter swims.")
                for each in (key, later):
                    await until(connection, "select (index_state(array[$1]::uuid[])).state = 'words'", each)
            finally:
                await daemons.kill_all()


async def test_a_dead_letter_is_a_failure_with_its_reason_for_those_who_run_memoryd(
    connection: asyncpg.Connection,
) -> None:
    key = await remember(connection, "The heron built a nest.", user_id=ANN)
    await connection.execute(
        "insert into memoryd.dead_letters (id, topic, ref, attempts, error, created_at) "
        "values (1, 'index', $1, 5, 'the provider refused it', now())",
        key,
    )
    asked = "select state, reason from index_state(array[$1]::uuid[])"
    assert [tuple(r) for r in await connection.fetch(asked, key)] == [("failed", "the provider refused it")]
    async with acting_as(connection, ANN):
        assert [tuple(r) for r in await connection.fetch(asked, key)] == [
            ("failed", "it could not be indexed")
        ]
    # One that came through after all is found, whatever was given up before.
    await index_rows(connection, "memory", embedding="[" + ",".join(["0.1"] * 256) + "]")
    assert await column(connection, STATE, key) == ["indexed"]


@pytest.mark.parametrize("question", [STATE, STATES])
async def test_a_user_learns_nothing_of_rows_of_others(connection: asyncpg.Connection, question: str) -> None:
    key: UUID = await remember(connection, "a secret", user_id=BOB)
    async with acting_as(connection, ANN):
        assert await column(connection, question, key) == []
        assert await column(connection, question, UUID(int=5)) == []
    async with acting_as(connection, BOB):
        assert await column(connection, question, key) == ["waiting"]


async def test_the_states_of_all_rows_read_each_table_once(connection: asyncpg.Connection) -> None:
    """Not once for each row: rows that came since the server last looked at the tables are the usual ones."""
    await connection.execute(
        "insert into agent_memory (agent_id, content) select 'a', 'note ' || n from generate_series(1, 400) n"
    )
    async with connection.transaction():
        assert await connection.fetchval("select count(*) from memoryd.index_states") == 400
        read = "select sum(seq_tup_read) from pg_stat_xact_user_tables"
        assert await connection.fetchval(read) <= 2 * 400
