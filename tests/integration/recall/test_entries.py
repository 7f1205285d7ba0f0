"""What can be found: the entries of a row are those of its text and its columns as they are now, for all sources alike."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Literal
from uuid import UUID

import asyncpg
import pytest

from providers.local_embedder import LocalEmbedder
from tests.support.access.acting import ANN, BOB, CAT, acting_as
from tests.support.content.finished import all_indexed
from tests.support.content.index import PASSAGES, entries, index_rows, stale
from tests.support.content.sources import TABLES, found, one_of_each
from tests.support.database.statistics import miscounted
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import column, conclude, embedding, insert, remember, say
from tests.support.waiting import IDLE, until

NONE: dict[str, set[UUID]] = {source: set() for source in TABLES}
FOUND = "select id from recall($1, match_count => 100)"
MEANT = "select id from recall('', query_embedding => $1::text::vector, match_count => 3)"
FILLER = "The committee met as usual and took its minutes without any news to report. "


def all_of(ids: dict[str, UUID]) -> dict[str, set[UUID]]:
    """As `found` would answer."""
    return {source: {key} for source, key in ids.items()}


# --- Passages.


async def test_every_part_of_a_long_text_is_found(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    """By words and by meaning; each row once, although it has many passages."""
    begins, ends = "The heron nests in the reeds. ", "Violins are made of spruce wood. "
    text = f"{begins * 30}{FILLER * 60}The walrus swims. {FILLER * 60}{ends * 30}"
    ids = await one_of_each(connection, text)
    await one_of_each(connection, "Quarterly budget figures for the accounting department.")
    await all_indexed(connection)
    for key in ids.values():
        assert await connection.fetchval(PASSAGES, key) > 5
        numbers = "select array_agg(passage order by passage) from memoryd.entries where id = $1"
        assert await connection.fetchval(numbers, key) == list(
            range(await connection.fetchval(PASSAGES, key))
        )
    for question in ("heron", "walrus", "violins"):
        rows = await column(connection, FOUND, question)
        assert sorted(map(str, rows)) == sorted(map(str, ids.values())), question
    vectors = await LocalEmbedder().embed(["herons nest in reeds", "a violin made of spruce"])
    for vector in vectors:
        meant = "select id from recall('', query_embedding => $1::text::vector, match_count => $2)"
        assert set(await column(connection, meant, str(vector.tolist()), len(ids))) == set(ids.values())


async def test_a_long_text_that_changes_has_only_passages_of_the_new_one(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    ids = await one_of_each(connection, FILLER * 60 + "The heron nests.")
    await all_indexed(connection)
    for source, key in ids.items():
        table, name = TABLES[source]
        assert await connection.fetchval(PASSAGES, key) > 2
        async with connection.transaction():  # before the daemon sees it
            await connection.execute(f"update {table} set {name} = 'The otter swims.' where id = $1", key)
            assert await connection.fetchval(PASSAGES, key) == 0
    assert await found(connection, "heron") == NONE
    assert await found(connection, "otter") == all_of(ids)
    await all_indexed(connection)
    assert [await connection.fetchval(PASSAGES, key) for key in ids.values()] == [1] * len(ids)
    assert await found(connection, "heron") == NONE


async def test_an_emoji_at_a_boundary_of_passages_is_in_one_of_them(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    """A text of nothing but emoji of seven characters, without a space; and words on both sides."""
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    row = await remember(connection, f"heron {family * 1000} walrus")
    await all_indexed(connection)
    assert await connection.fetchval(PASSAGES, row) > 3
    for question in ("heron", "walrus"):
        assert await column(connection, FOUND, question) == [row]


# --- What changes without its text.


async def test_a_row_that_gets_another_user_takes_its_entries_along(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    """At once, with nothing indexed again: its new user finds it, and its old one does not."""
    long = FILLER * 60 + "The heron nests."
    mine = await remember(connection, long, user_id=ANN)
    concluded = await conclude(connection, long, 0.8, user_id=ANN)
    document = await insert(connection, "documents", {"title": "a paper", "user_id": ANN})
    chunk = await insert(
        connection, "memory_chunks", {"document_id": document, "chunk_index": 0, "chunk_text": long}
    )
    session = await insert(connection, "conversation_sessions", {"user_id": ANN})
    said = await say(connection, session, long, user_id=ANN)
    everything = {mine, concluded, chunk, said}
    daemon = await daemons.start()
    await all_indexed(connection)
    await daemon.stop()
    before = {entry[:3] for entry in await entries(connection)}

    for user in (BOB, None, CAT):
        for table, key in (
            ("agent_memory", mine),
            ("dream_insights", concluded),
            ("documents", document),
            ("conversation_messages", said),
        ):
            await connection.execute(f"update {table} set user_id = $1 where id = $2", user, key)
        assert await connection.fetchval("select count(*) from memoryd.unindexed") == 0
        assert {entry[:3] for entry in await entries(connection)} == before
        assert await stale(connection) == []
        for other in (ANN, BOB, CAT):
            async with acting_as(connection, other):
                answered = set(await column(connection, FOUND, "heron"))
            assert answered == (everything if other == user else set()), other
    await daemons.start()
    await all_indexed(connection)


@pytest.mark.parametrize("indexed", [True, False])
async def test_what_a_row_says_beside_its_text_counts_at_once(
    connection: asyncpg.Connection, daemons: Daemons, indexed: bool
) -> None:
    """Kind, confidence, expiry, status and sharing: recall goes by them from the moment they are written."""
    memory = await remember(connection, "the heron nests", kind="observation")
    other = await remember(connection, "the heron nests", kind="observation")
    insight = await conclude(connection, "herons nest", 0.9)
    document = await insert(connection, "documents", {"title": "a paper", "status": "active"})
    chunk = await insert(
        connection, "memory_chunks", {"document_id": document, "chunk_index": 0, "chunk_text": "heron nests"}
    )
    knowledge = await insert(
        connection, "shared_knowledge",
        {"tier": "core", "category": "team", "title": "herons", "content": "they nest", "created_by": "alice"},
    )  # fmt: skip
    if indexed:
        daemon = await daemons.start()
        await all_indexed(connection)
        await daemon.stop()
    asked = "select id, score from explain_recall('heron nest', match_count => 100)"

    async def scores() -> dict[UUID, float]:
        return {r["id"]: r["score"] for r in await connection.fetch(asked)}

    assert set(await scores()) == {memory, other, insight, chunk, knowledge}
    await connection.execute("update agent_memory set kind = 'fact' where id = $1", memory)
    now = await scores()
    assert now[memory] > now[other]
    await connection.execute("update dream_insights set confidence = 0.4")
    assert (await scores())[insight] < now[insight]
    await connection.execute("update agent_memory set expires_at = now() where id = $1", other)
    await connection.execute("update documents set status = 'deleted'")
    await connection.execute("update shared_knowledge set status = 'archived'")
    assert set(await scores()) == {memory, insight}
    await connection.execute("update agent_memory set expires_at = now() + interval '1 day'")
    await connection.execute("update documents set status = 'active'")
    await connection.execute("update shared_knowledge set status = 'active'")
    assert set(await scores()) == {memory, other, insight, chunk, knowledge}
    if indexed:
        assert await connection.fetchval("select count(*) from memoryd.unindexed") == 0
        assert await connection.fetchval("select count(*) from memoryd.jobs where topic = 'index'") == 0
        assert await stale(connection) == []


@pytest.mark.parametrize("indexed", [True, False])
async def test_what_is_shared_and_what_is_not_counts_at_once(
    connection: asyncpg.Connection, daemons: Daemons, indexed: bool
) -> None:
    """Level, tags and metadata of a message: BOB, who was granted a part, finds it exactly while it is in that part."""
    await connection.execute(
        "insert into user_memory_access (user_id, access_level, allowed_tags, allowed_contexts, visibility_scope) "
        "values ($1, 1, '{red}', '{work}', 'tags')",
        BOB,
    )
    session = await insert(connection, "conversation_sessions", {"user_id": ANN})
    said = await say(connection, session, "the heron nests", user_id=ANN)
    if indexed:
        daemon = await daemons.start()
        await all_indexed(connection)
        await daemon.stop()
    for level, tags, project, granted in (
        (None, ["red"], "work", False),
        (1, ["red"], "work", True),
        (1, ["blue"], "home", False),
        (1, ["red"], "home", None),
        (2, ["red"], "work", False),
        (1, ["red"], "work", True),
        (None, ["red"], "work", False),
    ):
        await connection.execute(
            "update conversation_messages set access_level = $1, visibility_tags = $2, "
            "metadata = jsonb_build_object('project', $3::text)",
            level, tags, project,
        )  # fmt: skip
        async with acting_as(connection, BOB):
            readable = await column(connection, "select id from conversation_messages")
            assert await column(connection, FOUND, "heron") == readable
            assert granted is None or readable == [said] * granted
        async with acting_as(connection, ANN):
            assert await column(connection, FOUND, "heron") == [said]
    if indexed:
        assert await stale(connection) == []


# --- Embeddings that are given.

# Each of a direction of its own.
GIVEN = {source: embedding(*[0.0] * 40 * n, *[0.1] * 40) for n, source in enumerate(TABLES)}
NEW = {source: embedding(*[0.0] * (200 + 10 * n), *[1.0] * 10) for n, source in enumerate(TABLES)}


async def test_a_given_embedding_is_kept_and_found(connection: asyncpg.Connection, daemons: Daemons) -> None:
    """Before and after indexing; a new one replaces it at once; with a new text it goes, unless it is given anew."""
    ids = await one_of_each(connection, "The heron nests.")
    columns = {source: "dense_embedding" if source == "document" else "embedding" for source in TABLES}
    one = pytest.approx(dict.fromkeys(ids, 1.0), abs=1e-3)

    async def change(source: str, what: str, *values: str) -> None:
        await connection.execute(f"update {TABLES[source][0]} set {what} where id = $1", ids[source], *values)

    async def stored() -> dict[str, object]:
        return {
            source: await connection.fetchval(
                f"select {columns[source]} from {table} where id = $1", ids[source]
            )
            for source, (table, _) in TABLES.items()
        }

    async def nearest(vectors: dict[str, str]) -> dict[str, object]:
        return {source: (await column(connection, MEANT, vectors[source]))[0] for source in TABLES}

    async def similarity(vectors: dict[str, str]) -> dict[str, float]:
        near = "select similarity from recall('', query_embedding => $1::text::vector) where id = $2"
        return {
            source: await connection.fetchval(near, vectors[source], ids[source]) or 0.0 for source in ids
        }

    for source, given in columns.items():
        await change(source, f"{given} = $2::text::vector", GIVEN[source])
    kept = await stored()
    assert await nearest(GIVEN) == ids
    await daemons.start()
    await all_indexed(connection)
    assert await stored() == kept
    assert await nearest(GIVEN) == ids

    for source, given in columns.items():
        await change(source, f"{given} = $2::text::vector", NEW[source])
        assert (await column(connection, MEANT, NEW[source]))[0] == ids[source]
    await all_indexed(connection)
    assert await nearest(NEW) == ids
    assert await similarity(NEW) == one

    for source, (_, name) in TABLES.items():
        await change(source, f"{name} = 'The otter swims.'")
    assert set((await stored()).values()) == {None}
    await all_indexed(connection)
    assert set((await stored()).values()) == {None}
    assert max((await similarity(NEW)).values()) < 0.9

    for source, (_, name) in TABLES.items():
        both = f"{name} = 'The walrus dives.', {columns[source]} = $2::text::vector"
        await change(source, both, GIVEN[source])
    await all_indexed(connection)
    assert await similarity(GIVEN) == one


async def test_no_embedding_is_written_into_a_users_row(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    """What memoryd computes is in memoryd.entries; the columns are the writers' own."""
    await one_of_each(connection, "The heron nests.")
    await all_indexed(connection)
    for source, (table, _) in TABLES.items():
        given = "dense_embedding" if source == "document" else "embedding"
        assert await connection.fetchval(f"select count({given}) from {table}") == 0


# --- Deletion.

HALT = """
create function halt() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(42); return new; end $$;
create trigger halt before insert on memoryd.entries for each row execute function halt()
"""
WAITING = """
select count(*) >= $1 from pg_stat_activity
where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
"""


async def test_a_deleted_row_leaves_no_entry(connection: asyncpg.Connection, daemon: DaemonProcess) -> None:
    ids = await one_of_each(connection, FILLER * 60 + "The heron nests.")
    left = all_of(ids)
    await all_indexed(connection)
    for source, key in ids.items():
        assert await found(connection, "heron") == left
        await connection.execute(f"delete from {TABLES[source][0]} where id = $1", key)
        left[source] = set()
        assert await connection.fetchval(PASSAGES, key) == 0
        assert await found(connection, "heron") == left
        await all_indexed(connection)


async def test_a_row_deleted_while_the_daemon_writes_its_entries_leaves_none(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection, daemons: Daemons
) -> None:
    """The deletion waits for the daemon, or the daemon for it; in the end there is nothing."""
    await connection.execute(HALT)
    await daemons.start(poll_seconds=0.2)
    for source, (table, _) in TABLES.items():
        async with second.transaction():
            await second.execute("select pg_advisory_xact_lock(42)")
            async with connection.transaction():
                ids = await one_of_each(connection, "The heron nests.")
                await connection.execute("delete from memoryd.jobs where ref <> $1", ids[source])
            await until(connection, WAITING, 1)
            deleting = asyncio.create_task(third.execute(f"delete from {table} where id = $1", ids[source]))
            await until(connection, WAITING, 2)
        await deleting
        await until(connection, IDLE)
        assert await connection.fetchval(PASSAGES, ids[source]) == 0
        assert (await found(connection, "heron"))[source] == set()
        assert await miscounted(connection) == []
        assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0
        for other, _ in TABLES.values():
            await connection.execute(f"delete from {other}")


@pytest.mark.parametrize(
    "change", ["delete from agent_memory", "update agent_memory set content = 'the otter'"]
)
@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_a_transaction_that_began_before_the_entries_were_written_leaves_no_old_ones(
    connection: asyncpg.Connection,
    second: asyncpg.Connection,
    change: str,
    isolation: Literal["read_committed", "repeatable_read", "serializable"],
) -> None:
    """Of an older snapshot the entries cannot be seen: then the transaction fails, or the entries go later."""
    row = await remember(connection, "the heron nests")
    transaction = second.transaction(isolation=isolation)
    await transaction.start()
    assert await column(second, "select id from agent_memory") == [row]
    assert await index_rows(connection, "memory", embedding=embedding(1.0)) == [row]
    try:
        await second.execute(change)
        await transaction.commit()
    except asyncpg.SerializationError:
        await transaction.rollback()
        await connection.execute(change)
    assert await column(connection, "select id from memoryd.entries where lexemes @@ 'heron'") == []
    assert await column(connection, FOUND, "heron") == []


async def test_killed_daemons_leave_each_row_with_exactly_its_entries(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons
) -> None:
    """kill -9 at any moment, while rows of all sources come, change and go."""
    dice = random.Random(11)

    async def write() -> None:
        for number in range(15):
            ids = await one_of_each(second, f"{FILLER * dice.randint(1, 40)} The heron number {number}.")
            for source, key in ids.items():
                table, name = TABLES[source]
                match dice.randint(0, 3):
                    case 0:
                        await second.execute(f"delete from {table} where id = $1", key)
                    case 1:
                        await second.execute(
                            f"update {table} set {name} = 'otter {number}' where id = $1", key
                        )
            await asyncio.sleep(0.02)

    settings: dict[str, Any] = {
        "claim_seconds": 1,
        "poll_seconds": 0.2,
        "heartbeat_seconds": 0.3,
        "max_attempts": 20,
    }
    writing = asyncio.create_task(write())
    for _ in range(3):
        daemon = await daemons.start(**settings)
        # The moment is the point: no event marks it.
        await asyncio.sleep(dice.uniform(0.0, 0.5))
        await daemon.kill()
    await writing
    await daemons.start(**settings)
    await all_indexed(connection)
