"""A document with content: cut into chunks, found, edited, shared, withdrawn; written by any client with SQL alone."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from uuid import UUID

import asyncpg

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.content.index import index_rows
from tests.support.database.schemas import connected
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import column, insert, one_row
from tests.support.waiting import BLOCKED, IDLE, until

HANDBOOK = """# Handbook

## Travel

Flights are booked by the office. Ask Ms Lindqvist for a quiet seat.

## Kitchen

The dishwasher is emptied by whoever comes first. The llama mug belongs to nobody.

```
# not a heading
```

### Coffee

Beans come from the corner shop.
"""
LONG = "\n\n".join(
    f"## Part {n}\n\n" + f"Sentence {n} says something about subject{n}. " * 20 for n in range(12)
)
CHUNKS = "select id, chunk_text from memory_chunks order by document_id, chunk_index"
FOUND = "select metadata->>'title' from recall($1, match_count => 5)"


async def write(connection: asyncpg.Connection, content: str | None = HANDBOOK, **columns: object) -> UUID:
    """A document with content, nobody's unless told otherwise."""
    return await insert(connection, "documents", {"title": "Handbook", "content": content} | columns)


async def chunks_of(connection: asyncpg.Connection) -> dict[UUID, str]:
    """All chunks, by id."""
    return {r["id"]: r["chunk_text"] for r in await connection.fetch(CHUNKS)}


async def texts(connection: asyncpg.Connection, sql: str, *arguments: object) -> list[str]:
    """One column of a query, as texts."""
    return [str(value) for value in await column(connection, sql, *arguments)]


async def test_a_document_becomes_active_with_chunks_that_say_where_they_stand(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    key = await write(connection, source="intranet", document_type="markdown")
    assert await column(connection, "select status from documents") == ["processing"]
    assert await column(connection, FOUND, "llama mug") == []
    await daemons.start()
    await until(connection, IDLE)
    row = await one_row(connection, "select * from documents")
    assert row["status"] == "active"
    assert row["content_hash"] == sha256(HANDBOOK.encode()).digest()
    assert row["last_modified_agent"] == row["created_at"]
    (best,) = await connection.fetch("select content, metadata from recall('llama mug', match_count => 1)")
    shown = json.loads(best["metadata"])
    assert "llama mug" in best["content"]
    assert {k: shown[k] for k in ("title", "document_source", "document_type", "document_id")} == {
        "title": "Handbook",
        "document_source": "intranet",
        "document_type": "markdown",
        "document_id": str(key),
    }
    assert shown["headings"][:1] == ["Handbook"]
    assert "not a heading" not in shown["headings"]
    assert shown["chunk_context"].startswith("Handbook")


async def test_an_edit_replaces_only_the_chunks_that_it_changes(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await write(connection, LONG)
    await until(connection, IDLE)
    before = await chunks_of(connection)
    # A part goes, another is new, and the others move.
    parts = LONG.split("\n\n## ")
    await connection.execute(
        "update documents set content = $1",
        "\n\n## ".join([*parts[:3], "Llamas\n\nLlamas hum when they are content.", *parts[5:]]),
    )
    await until(connection, IDLE)
    after = await chunks_of(connection)
    kept = before.keys() & after.keys()
    assert len(after) - len(kept) <= 3
    assert all(before[k] == after[k] for k in kept)
    assert await column(connection, "select chunk_index from memory_chunks order by 1") == [
        *range(len(after))
    ]
    assert "Llamas hum" in (await texts(connection, "select content from recall('llamas hum')"))[0]
    assert not any(
        "subject3." in text for text in await texts(connection, "select content from recall('subject3')")
    )


async def test_the_same_text_again_writes_nothing(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await write(connection, LONG)
    await until(connection, IDLE)
    rows = "select xmin::text, id from memory_chunks order by id"
    before = await connection.fetch(rows)
    await connection.execute("update documents set content = content || ' '")
    await connection.execute("update documents set content = $1", LONG)
    await until(connection, IDLE)
    assert await connection.fetch(rows) == before
    assert await column(connection, "select status from documents") == ["active"]


async def test_a_new_title_is_in_the_context_of_every_chunk(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await write(connection)
    await until(connection, IDLE)
    await connection.execute("update documents set title = 'House rules'")
    await until(connection, IDLE)
    contexts = await texts(connection, "select context from memory_chunks")
    assert all(c.startswith("House rules") for c in contexts)


async def test_repeated_paragraphs_are_chunks_of_their_own(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    same = "## Same\n\n" + "The very same words again. " * 30
    await write(connection, "\n\n".join([same] * 5))
    await until(connection, IDLE)
    assert len(await column(connection, CHUNKS)) >= 5
    await connection.execute("update documents set content = $1", "\n\n".join([same] * 3))
    await until(connection, IDLE)
    (whole,) = await texts(connection, "select string_agg(chunk_text, ' ') from memory_chunks")
    assert whole.count("## Same") == 3
    places = await column(connection, "select chunk_index from memory_chunks order by 1")
    assert places == [*range(len(places))]


async def test_chunks_that_a_writer_brings_stay(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    async with connection.transaction():
        key = await write(connection)
        mine = await insert(
            connection, "memory_chunks", {"document_id": key, "chunk_index": 0, "chunk_text": "my own cut"}
        )
    await until(connection, IDLE)
    assert await column(connection, "select id from memory_chunks") == [mine]
    assert await column(connection, "select status from documents") == ["active"]
    assert await column(connection, FOUND, "my own cut") == ["Handbook"]


async def test_a_chunk_that_is_indexed_while_its_document_becomes_active_is_found(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    key = await write(connection)
    await insert(
        connection, "memory_chunks", {"document_id": key, "chunk_index": 0, "chunk_text": "my own cut"}
    )
    indexing = connection.transaction()
    await indexing.start()
    await index_rows(connection, "document")
    activating = asyncio.create_task(second.execute("update documents set status = 'active'"))
    async with connected(database_url) as third:
        await until(third, BLOCKED)
    await indexing.commit()
    await activating
    assert await column(connection, FOUND, "my own cut") == ["Handbook"]


async def test_a_document_without_content_is_complete(connection: asyncpg.Connection) -> None:
    await write(connection, None)
    assert await column(connection, "select status from documents") == ["active"]
    assert await column(connection, "select count(*) from memoryd.jobs where topic = 'document'") == [0]


async def test_a_deleted_document_is_found_by_nobody_until_it_is_back(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await write(connection)
    await until(connection, IDLE)
    await connection.execute("update documents set status = 'deleted'")
    assert await column(connection, FOUND, "llama mug") == []
    await connection.execute("update documents set status = 'conflict'")
    assert await column(connection, FOUND, "llama mug") != []
    await connection.execute("update documents set status = 'deleted', content = 'Only owls.'")
    await until(connection, IDLE)
    await connection.execute("update documents set status = 'active'")
    await until(connection, IDLE)
    assert await column(connection, FOUND, "owls") == ["Handbook"]
    assert await column(connection, "select chunk_text from memory_chunks") == ["Only owls."]


async def test_what_a_document_is_shared_as_its_chunks_are(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await write(
        connection,
        user_id=ANN,
        access_level=1,
        visibility_tags=["hr"],
        metadata='{"project": "office", "page": 3}',
    )
    await insert(
        connection, "user_memory_access", {"user_id": BOB, "access_level": 1, "allowed_tags": ["hr"]}
    )
    await until(connection, IDLE)
    async with acting_as(connection, BOB):
        assert await column(connection, "select count(*) from documents") == [0]
        # Of the document he sees what tells him where the chunk is from.
        assert set(await column(connection, FOUND, "llama mug")) == {"Handbook"}
        (context,) = set(await column(connection, "select metadata->>'project' from recall('llama mug')"))
        assert context == "office"
    await connection.execute("update documents set visibility_tags = '{board}'")
    async with acting_as(connection, BOB):
        assert await column(connection, FOUND, "llama mug") == []
    await connection.execute("update documents set access_level = null, visibility_tags = '{}'")
    async with acting_as(connection, BOB):
        assert await column(connection, FOUND, "llama mug") == []
    async with acting_as(connection, ANN):
        assert set(await column(connection, FOUND, "llama mug")) == {"Handbook"}


async def test_a_user_writes_and_finds_documents_of_their_own(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    async with acting_as(connection, ANN):
        insert_own = "insert into documents (title, content, user_id) values ('Diary', 'Owls at night.', $1)"
        await connection.execute(insert_own, ANN)
        assert (await refused(connection, insert_own, BOB))[0] == "42501"
        assert (await refused(connection, "update documents set access_level = 0"))[0] == "42501"
        assert (await refused(connection, "update documents set chunked_at = null"))[0] == "42501"
    await until(connection, IDLE)
    async with acting_as(connection, ANN):
        assert await column(connection, FOUND, "owls") == ["Diary"]
        await connection.execute("update documents set content = 'Bats at night.'")
    await until(connection, IDLE)
    async with acting_as(connection, ANN):
        assert await column(connection, "select content from recall('bats')") == ["Bats at night."]
    async with acting_as(connection, BOB):
        assert await column(connection, FOUND, "bats") == []


ODD = {
    "blank": "   \n\t ",
    "one word": "x" * 300_000,
    "headings": "\n".join(f"{'#' * (n % 6 + 1)} {'long heading ' * 50}{n}" for n in range(300)),
    "emoji": "👩‍👩‍👧‍👦" * 5_000,
    "unclosed code": "```\n" + "code that never ends\n" * 3_000,
    "table": "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 2_000,
    "chinese": "中文" * 10_000,
    "strange": "\u202e\u0001 strange \ufffe letters",
}


async def test_odd_content_is_cut_and_delays_nothing(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    for title, content in ODD.items():
        await write(connection, content, title=title)
    await write(connection, "A plain one about owls.", title="Plain")
    await until(connection, IDLE)
    assert await column(connection, "select title from documents where status <> 'active'") == []
    assert await column(connection, "select count(*) from memoryd.dead_letters") == [0]
    assert await column(connection, FOUND, "owls") == ["Plain"]
    cut = "select d.title from documents d where exists (select from memory_chunks c where c.document_id = d.id) order by 1"
    assert await column(connection, cut) == sorted({"Plain", *ODD} - {"blank"})
    long = "select d.title from memory_chunks c join documents d on d.id = c.document_id where length(c.chunk_text) > 1200"
    assert await column(connection, long) == []
    assert await daemon.stop() == 0


async def test_a_title_too_long_for_a_context_is_shortened_there(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await write(connection, title="T" * 9_000)
    await until(connection, IDLE)
    assert await column(connection, "select status from documents") == ["active"]
    assert await column(connection, "select max(length(context)) < 1000 from memory_chunks") == [True]


async def test_killed_daemons_leave_each_document_with_the_chunks_of_its_last_text(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    keys = [await write(connection, LONG.replace("says", f"says {n}")) for n in range(16)]
    for n in range(4):
        daemon = await daemons.start(claim_seconds=1, poll_seconds=0.3, heartbeat_seconds=0.3, max_attempts=8)
        # The moment is the point: no event marks it.
        await asyncio.sleep(0.15 * n)
        await connection.execute(
            "update documents set content = content || $2 where id = $1", keys[n], f"\n\nEnd {n}."
        )
        await daemon.kill()
    await daemons.start(claim_seconds=1, poll_seconds=0.3, heartbeat_seconds=0.3, max_attempts=8)
    await until(connection, IDLE)
    assert await column(connection, "select distinct status from documents") == ["active"]
    wrong = """
        select d.id from documents d
        where d.content_hash <> sha256(convert_to(d.content, 'UTF8'))
           or regexp_replace(d.content, '\\s', '', 'g') <> (
               select regexp_replace(string_agg(c.chunk_text, '' order by c.chunk_index), '\\s', '', 'g')
               from memory_chunks c where c.document_id = d.id)
    """
    assert await column(connection, wrong) == []


async def test_a_document_edited_while_it_is_cut_ends_with_its_last_text(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await write(connection, LONG)
    for n in range(20):
        await connection.execute("update documents set content = $1", f"{LONG}\n\nEdition {n}.")
    await until(connection, IDLE)
    last = await texts(connection, "select chunk_text from memory_chunks order by chunk_index desc limit 1")
    assert last[0].endswith("Edition 19.")


async def test_a_document_of_a_user_who_is_erased_leaves_nothing(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await write(connection, user_id=ANN)
    await until(connection, IDLE)
    await write(connection, LONG, user_id=ANN)
    await connection.execute("select erase_user_memory($1)", ANN)
    await until(connection, IDLE)
    for table in ("documents", "memory_chunks", "memoryd.entries", "memoryd.unindexed"):
        assert await column(connection, f"select count(*) from {table}") == [0]
