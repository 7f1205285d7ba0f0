"""`memoryd reembed`: another model while everything runs, whatever is killed, down, or written meanwhile."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, CAT, acting_as
from tests.support.content.index import stale
from tests.support.content.reembedding import DIFFERENT, MODEL, ROWS, HeldServer, dimensions, settled
from tests.support.content.sources import one_of_each
from tests.support.database.schemas import connected
from tests.support.database.statistics import miscounted
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import embedding, insert, remember, say
from tests.support.waiting import IDLE, awaited, until

NONE = {"query": "", "document": ""}


@pytest.fixture
def models() -> Iterator[HeldServer]:
    """The embedder to change to."""
    with HeldServer() as started:
        yield started
        started.release()


@pytest.fixture
def memoryd(database_url: str, tmp_path: Path) -> Commands:
    """Runs commands on the database."""
    return Commands(database_url, tmp_path)


@pytest.fixture(autouse=True)
async def no_dreams(connection: asyncpg.Connection) -> None:
    """An insight of a dream would be one passage more."""
    await connection.execute(
        "insert into dream_sessions (started_by, lease_until) values ('idle', now() + interval '1 hour')"
    )


def reaching(models: HeldServer) -> dict[str, Any]:
    """Settings that reach the server."""
    return {"openai_base_url": models.base_url, "provider_timeout_seconds": 100, "poll_seconds": 0.3}


@asynccontextmanager
async def asking(url: str) -> AsyncIterator[list[int]]:
    """Asks all the time; each answer must have found something."""
    counts: list[int] = []

    async def ask() -> None:
        async with connected(url) as connection:
            while True:
                counts.append(
                    await connection.fetchval("select count(*) from recall('when does the ferry leave')")
                )
                assert counts[-1] > 0
                assert await connection.fetchval("select build_context('alice', 'take the ferry')")

    task = asyncio.create_task(ask())
    try:
        yield counts
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_recall_answers_while_the_model_is_changed_and_changed_back(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    daemon = await daemons.start(**reaching(models))
    await one_of_each(connection, "a ferry leaves for Oslo")
    await remember(
        connection, "\n\n".join(f"Part {n} of the ferry's log. " + "wave " * 150 for n in range(5))
    )
    await connection.execute(ROWS, 60)
    await settled(connection)
    passages = sum((await dimensions(connection)).values())
    assert passages == 70
    async with asking(daemons.url) as counts:
        done = await memoryd("reembed", *MODEL, **reaching(models))
        assert done.code == 0, done.err
        assert "openai/test (8 dimensions)" in done.out
        assert "--undo" in done.out
        assert "1 daemon running: each needs the key" in done.err
        assert "embedder_missing" in done.out
        assert await dimensions(connection) == {8: passages}
        assert await dimensions(connection, "spare_entries") == {256: passages}
        await daemon.event("embedder_followed", now="openai/test", dimensions=8)
        new = await remember(connection, "the ferry has a new captain")
        await settled(connection)
        assert await dimensions(connection) == {8: passages + 1}
        assert not await connection.fetchval(DIFFERENT)
        status = await memoryd("reembed", "--status", "--json")
        assert status.json["used"] == {"embedder": "openai/test", "dimensions": 8, "instructions": NONE}
        assert (status.json["state"], status.json["passages"], status.json["embedded"]) == (
            "kept",
            passages + 1,
            passages,
        )
        after = len(daemon.lines)
        undone = await memoryd("reembed", "--undo")
        assert undone.code == 0, undone.err
        assert "local/wordllama-256 (256 dimensions) again" in undone.out
        await daemon.event("embedder_followed", after=after, now="local/wordllama-256")
        await settled(connection)
        assert await dimensions(connection) == {256: passages + 1}
        confirmed = await memoryd("reembed", "--drop-previous")
        assert confirmed.code == 0, confirmed.err
        assert len(counts) > 5
    assert await dimensions(connection, "spare_entries") == {}
    assert not await connection.fetchval("select exists (select from memoryd.settings where key = 'spare')")
    await connection.execute("delete from agent_memory where id = $1", new)
    await until(connection, IDLE)
    assert await miscounted(connection) == []
    nothing = await memoryd("reembed", "--undo")
    assert (nothing.code, nothing.sentences) == (
        1,
        ["There is nothing to undo: no other model's embeddings are kept."],
    )


async def test_members_of_a_group_find_its_messages_by_either_model(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    daemon = await daemons.start(**reaching(models))
    chats = [await insert(connection, "chat_groups", {"platform": "slack"}) for _ in range(2)]
    for chat, user in ((chats[0], ANN), (chats[0], BOB), (chats[1], CAT)):
        await insert(connection, "chat_group_members", {"chat_id": chat, "user_id": user})
    first = await say(connection, chats[0], "the ferry leaves at noon", user_id=ANN, chat_id=chats[0])
    await say(connection, chats[0], "the ferry is late", user_id=BOB, chat_id=chats[0])

    async def found(user: UUID) -> int:
        async with acting_as(connection, user):
            found: int = await connection.fetchval("select count(*) from recall('ferry')")
            return found

    async def seen() -> list[int]:
        await settled(connection)
        assert await stale(connection) == []
        return [await found(user) for user in (ANN, BOB, CAT)]

    assert await seen() == [2, 2, 0]
    assert (await memoryd("reembed", *MODEL, **reaching(models))).code == 0
    await daemon.event("embedder_followed", now="openai/test", dimensions=8)
    assert await seen() == [2, 2, 0]
    # What changes now is changed in both.
    await connection.execute("update conversation_messages set chat_id = $2 where id = $1", first, chats[1])
    await say(connection, chats[0], "the ferry has left", user_id=BOB, chat_id=chats[0])
    assert await seen() == [3, 2, 1]
    assert not await connection.fetchval(DIFFERENT)
    after = len(daemon.lines)
    assert (await memoryd("reembed", "--undo")).code == 0
    await daemon.event("embedder_followed", after=after, now="local/wordllama-256")
    assert await seen() == [3, 2, 1]
    assert not await connection.fetchval(DIFFERENT)
    assert await miscounted(connection) == []


async def test_a_killed_build_goes_on_where_it_was(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    daemon = await daemons.start(**reaching(models))
    await connection.execute(ROWS, 150)
    await settled(connection)
    await daemon.stop()
    models.hold_after = 129
    process = await memoryd.start("reembed", *MODEL, **reaching(models))
    await models.until_held()
    assert await dimensions(connection) == {256: 150}
    half = await dimensions(connection, "spare_entries")
    assert half == {8: 128}
    second = await memoryd("reembed", *MODEL, **reaching(models))
    assert second.code == 1
    assert "Another memoryd reembed is at work" in second.err
    process.kill()
    await process.wait()
    models.held.clear()
    # The lease of the killed one, which would be waited for, has run out.
    await connection.execute("update memoryd.lanes set leased_until = now() where topic = 'reembed'")
    interrupted = await memoryd.start("reembed", *MODEL, **reaching(models))
    await models.until_held()
    interrupted.send_signal(signal.SIGINT)
    _, told = await interrupted.communicate()
    assert interrupted.returncode == 130, told
    assert b"memoryd reembed openai/test --dimensions 8" in told
    assert b"memoryd reembed --undo" in told
    models.release()
    status = await memoryd("reembed", "--status")
    assert "being made" in status.out
    assert "128 of 150" in status.out
    other = await memoryd("reembed", "openai/other", "--dimensions", "8", **reaching(models))
    assert other.code == 1
    assert "memoryd reembed openai/test --dimensions 8" in other.err
    models.paid.clear()
    done = await memoryd("reembed", *MODEL, **reaching(models))
    assert done.code == 0, done.err
    # One word more: what the embedder is asked first.
    assert len(set(models.paid)) <= 150 - 128 + 1
    assert await dimensions(connection) == {8: 150}


async def test_a_command_killed_at_the_swap_leaves_one_model_or_the_other(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    daemons: Daemons,
    memoryd: Commands,
    models: HeldServer,
) -> None:
    daemon = await daemons.start(**reaching(models))
    await connection.execute(ROWS, 50)
    await settled(connection)
    await daemon.stop()
    async with second.transaction():
        # A reader that stays: the swap cannot get its lock.
        await second.fetchval("select count(*) from memoryd.entries")
        process = await memoryd.start("reembed", *MODEL, **reaching(models))
        await until(
            connection,
            awaited("l.mode = 'AccessExclusiveLock' and l.relation = 'memoryd.entries'::regclass"),
        )
        process.kill()
        await process.wait()
        assert await connection.fetchval("select count(*) from recall('ferry')") > 0
        assert await dimensions(connection) == {256: 50}
    # Its lease ends by itself in 15 s, which test_a_killed_build_goes_on_where_it_was waits for.
    ended = "update memoryd.lanes set leased_until = now() where topic = 'reembed' returning true"
    assert await connection.fetchval(ended)
    done = await memoryd("reembed", *MODEL, **reaching(models))
    assert done.code == 0, done.err
    assert await dimensions(connection) == {8: 50}
    assert await connection.fetchval("select count(*) from recall('ferry')") > 0


async def test_what_happens_to_rows_during_the_build_happens_to_both_generations(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    await daemons.start(**reaching(models))
    user = uuid4()
    mine = await remember(connection, "the parrot of the erased user", user_id=user)
    await connection.execute(ROWS, 290)
    rows = await one_of_each(connection, "a ferry leaves for Oslo")
    changed = await remember(connection, "the anchor is rusty")
    gone = await remember(connection, "the mast is broken")
    await settled(connection)
    models.hold_after = 200
    process = await memoryd.start("reembed", *MODEL, **reaching(models))
    await models.until_held()
    filled = await column_of(connection, "select id from memoryd.spare_entries where code is not null")
    written = await remember(connection, "the cook makes soup", user_id=user)
    await connection.execute("update agent_memory set content = 'the anchor is new' where id = $1", changed)
    await connection.execute("delete from agent_memory where id = $1", gone)
    await connection.execute("delete from memory_chunks where id = $1", rows["document"])
    await connection.execute("update agent_memory set agent_id = 'bob' where id = $1", min(filled))
    await settled(connection)
    in_both = await column_of(connection, "select id from memoryd.spare_entries where code is null")
    assert written in in_both
    await connection.execute("select erase_user_memory($1)", user)
    nowhere = [mine, written, gone, rows["document"]]
    for table in ("entries", "spare_entries"):
        assert not await connection.fetchval(
            f"select count(*) from memoryd.{table} where id = any($1) or owner_id = $2", nowhere, user
        )
    models.release()
    assert await process.wait() == 0
    await settled(connection)
    assert not await connection.fetchval(DIFFERENT)
    assert set(await dimensions(connection)) == {8}
    assert await connection.fetchval("select count(*) from memoryd.entries where id = $1", changed) == 1
    assert await miscounted(connection) == []


async def column_of(connection: asyncpg.Connection, sql: str) -> set[UUID]:
    """The ids of a query."""
    return {r[0] for r in await connection.fetch(sql)}


async def test_vectors_of_other_dimensions_than_said_are_refused_before_anything_begins(
    connection: asyncpg.Connection, memoryd: Commands, models: HeldServer
) -> None:
    refused = await memoryd("reembed", "openai/test", "--dimensions", "16", **reaching(models))
    assert refused.code == 1
    assert "vectors of 8 dimensions, not 16" in refused.err
    assert not await connection.fetchval("select exists (select from memoryd.settings where key = 'spare')")
    assert (await memoryd("reembed", "--status", "--json")).json["state"] is None


async def test_an_embedder_that_goes_down_is_waited_for(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    daemon = await daemons.start()
    await connection.execute(ROWS, 140)
    await settled(connection)
    await daemon.stop()
    models.hold_after = 129
    process = await memoryd.start("reembed", *MODEL, **reaching(models))
    await models.until_held()
    models.stop()
    assert process.stderr is not None
    while b"Waiting for it" not in (line := await process.stderr.readline()):
        assert line, "it ended"
    assert await dimensions(connection) == {256: 140}
    models.release()
    models.start()
    assert await process.wait() == 0
    assert await dimensions(connection) == {8: 140}


async def test_a_daemon_of_the_model_before_writes_no_vector_of_it(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    # It looks for the model only with the poll.
    stale = await daemons.start(**reaching(models) | {"poll_seconds": 3600})
    await connection.execute(ROWS, 20)
    await settled(connection)
    assert (await memoryd("reembed", *MODEL, **reaching(models))).code == 0
    row = await remember(connection, "the ferry has a new funnel")
    await until(connection, "select exists (select from memoryd.entries where id = $1 and code is null)", row)
    assert await dimensions(connection) == {8: 20, 0: 1}
    assert await connection.fetchval("select count(*) from recall('funnel') where id = $1", row) == 1
    await stale.stop()
    await daemons.start(**reaching(models))
    await settled(connection)
    assert await dimensions(connection) == {8: 21}


async def test_a_start_follows_the_database_and_refuses_what_it_never_had(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    assert (await memoryd("reembed", *MODEL, **reaching(models))).code == 0
    before = await daemons.start(embedder="local/wordllama-256", **reaching(models))
    await before.event("embedder_followed", was="local/wordllama-256", now="openai/test")
    default = await daemons.start(**reaching(models))
    await default.event("embedder_followed", now="openai/test")
    refused = await memoryd("run", embedder="openai/never", embedding_dimensions=8, **reaching(models))
    assert refused.code == 1
    assert "memoryd reembed openai/never --dimensions 8" in refused.sentences[0]
    shown = await memoryd("doctor", embedder="local/wordllama-256", **reaching(models))
    assert "which was used before" in shown.out


async def test_embeddings_that_writers_gave_are_of_the_model_they_were_given_for(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    given = embedding(1.0)
    row = await remember(connection, "the ferry is blue", embedding=given)
    await daemons.start(**reaching(models))
    await settled(connection)
    # The same dimensions: nothing but the time tells whose the vector is.
    models.dimensions = 256
    assert (await memoryd("reembed", "openai/test", "--dimensions", "256", **reaching(models))).code == 0
    nearness = "select embedding <=> $2::text::vector::halfvec from memoryd.entries where id = $1"
    assert await connection.fetchval(nearness, row, given) > 0.1
    await connection.execute("update agent_memory set metadata = '{\"seen\": true}' where id = $1", row)
    await settled(connection)
    assert await connection.fetchval(nearness, row, given) > 0.1
    new = embedding(0.0, 1.0)
    await connection.execute("update agent_memory set embedding = $2::text::vector where id = $1", row, new)
    assert await connection.fetchval(nearness, row, new) < 0.001


async def test_an_embedding_of_the_model_before_stays_in_its_row_and_is_refused_in_a_new_one(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, models: HeldServer
) -> None:
    row = await remember(connection, "the ferry is blue", embedding=embedding(1.0))
    await daemons.start(**reaching(models))
    await settled(connection)
    assert (await memoryd("reembed", *MODEL, **reaching(models))).code == 0
    await connection.execute("update agent_memory set metadata = '{\"seen\": true}' where id = $1", row)
    assert (
        await connection.fetchval("select vector_dims(embedding) from agent_memory where id = $1", row) == 256
    )
    with pytest.raises(asyncpg.DataError, match="expected 8 dimensions, not 256"):
        await remember(connection, "the ferry is red", embedding=embedding(1.0))
    await settled(connection)
    assert await dimensions(connection) == {8: 1}
