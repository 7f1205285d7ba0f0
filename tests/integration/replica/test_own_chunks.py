"""Documents whose writers bring the chunks, as one of the designs does: each has a file of them, which nobody else writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import asyncpg

from tests.support.access.acting import acting_as
from tests.support.replica.passes import Replicated
from tests.support.rows import embedding, insert
from tests.support.waiting import BLOCKED, until

WHERE = "documents/documents/Watering.md"
CHUNK = """
insert into memory_chunks (document_id, chunk_text, dense_embedding, sparse_embedding)
values ($1, $2, $3::text::vector, '{"plums": 1.5}')
"""


async def watering(connection: asyncpg.Connection, *chunks: str, **columns: object) -> UUID:
    """A document with these chunks, each with an embedding of its writer's."""
    document = await insert(connection, "documents", {"title": "Watering"} | columns)
    for chunk in chunks:
        await connection.execute(CHUNK, document, chunk, embedding(1))
    return document


def body(root: Path) -> str:
    """What its file says, without the front matter."""
    return (root / WHERE).read_text().split("---\n", 2)[2].strip()


async def test_its_chunks_are_its_file(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    async with acting_as(connection, None, role="memoryd_service"):
        document = await watering(connection, "Plums in June.", "Pears in July.")
    await replicated.settle()
    assert body(root) == "Plums in June.\n\nPears in July."
    assert str(document) in (root / WHERE).read_text()
    assert "Watering" in (root / "Index.md").read_text()
    assert await connection.fetchval("select content is null and status = 'active' from documents")
    assert (
        await connection.fetchval("select count(*) from memory_chunks where dense_embedding is not null") == 2
    )


async def test_its_file_follows_the_chunks(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    document = await watering(connection, "Plums in June.")
    await replicated.settle()
    await connection.execute(CHUNK, document, "Pears in July.", embedding(1))
    await replicated.settle()
    assert body(root) == "Plums in June.\n\nPears in July."
    await connection.execute("update memory_chunks set chunk_text = 'Plums in May.' where chunk_index = 0")
    await replicated.settle()
    assert body(root) == "Plums in May.\n\nPears in July."
    await connection.execute("delete from memory_chunks where chunk_index = 0")
    await replicated.settle()
    assert body(root) == "Pears in July."
    await connection.execute("delete from memory_chunks")
    await replicated.settle()
    assert not (root / WHERE).exists()
    assert await connection.fetchval("select count(*) from memoryd.replica_changes") == 0
    await connection.execute(CHUNK, document, "Figs in August.", embedding(1))
    await replicated.settle()
    assert body(root) == "Figs in August."


async def test_a_chunk_that_is_written_while_its_file_is_made_is_not_missed(
    connection: asyncpg.Connection, second: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    document = await watering(connection, "Plums in June.")
    async with second.transaction():
        await second.execute(CHUNK, document, "Pears in July.", embedding(1))
        # It has read the chunks, and waits for the document: to note that the file has them.
        going = asyncio.create_task(replicated.settle())
        await until(connection, BLOCKED)
        assert body(root) == "Plums in June."
    await going
    await replicated.settle()
    assert body(root) == "Plums in June.\n\nPears in July."


async def test_what_a_person_changes_in_it_has_no_effect_and_is_told(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    document = await watering(connection, "Plums in June.")
    await replicated.settle()
    written = (root / WHERE).read_text()
    (root / WHERE).write_text(written.replace("June", "March"))
    await replicated.settle()
    left = "select path from memoryd.replica_left_out"
    assert await connection.fetchval(left) == WHERE
    assert await connection.fetchval("select chunk_text from memory_chunks") == "Plums in June."
    assert await connection.fetchval("select content is null from documents")
    # No text of a person is lost, also where the chunks change.
    await connection.execute(CHUNK, document, "Pears in July.", embedding(1))
    await replicated.settle()
    assert body(root) == "Plums in March."
    (root / WHERE).write_text(written)
    await replicated.settle()
    assert body(root) == "Plums in June.\n\nPears in July."
    assert await connection.fetchval(left) is None


async def test_a_person_deletes_it_as_others(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    document = await watering(connection, "Plums in June.")
    await replicated.settle()
    (root / WHERE).unlink()
    await replicated.settle()
    assert await connection.fetchval("select status from documents") == "deleted"
    await connection.execute("update documents set status = 'active' where id = $1", document)
    await replicated.settle()
    assert body(root) == "Plums in June."


async def test_one_of_a_user_is_in_the_user_s_folder_and_goes_with_the_user(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    user = UUID(int=0xA)
    await watering(connection, "Ann waters plums.", user_id=user)
    await replicated.settle()
    assert (root / f"users/{user}" / WHERE).exists()
    await connection.execute("select erase_user_memory($1)", user)
    await replicated.settle()
    assert not (root / f"users/{user}" / WHERE).exists()


async def test_a_document_whose_text_is_taken_away_loses_its_file_though_chunks_stay(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    document = await watering(connection, content="Plums in June.", status="active")
    await connection.execute("update documents set chunked_at = now()")
    await connection.execute(CHUNK, document, "Plums in June.", embedding(1))
    await replicated.settle()
    assert body(root) == "Plums in June."
    await connection.execute("update documents set content = null")
    await replicated.settle()
    assert not (root / WHERE).exists()
