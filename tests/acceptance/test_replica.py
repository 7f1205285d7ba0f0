"""The replica with a real daemon: documents appear as files, and what people do with the files happens to the documents."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg

from tests.support.daemons import Daemons
from tests.support.rows import insert
from tests.support.waiting import until


def text_of(path: Path) -> str:
    """The text of a file; of none, nothing."""
    return path.read_text("utf-8") if path.exists() else ""


async def appears(path: Path, *, with_text: str) -> str:
    """The text of a file, once it contains this."""
    async with asyncio.timeout(30):
        while with_text not in (text := text_of(path)):
            await asyncio.sleep(0.01)
    return text


async def test_a_document_is_a_file_that_people_edit_and_delete(
    connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    root = tmp_path / "replica"
    daemon = await daemons.start(replica=root)
    document = await insert(
        connection, "documents", {"title": "Travel rules", "source": "upload", "content": "Fly economy."}
    )
    path = root / "documents/upload/Travel rules.md"
    written = await appears(path, with_text="Fly economy.")
    assert f"id: {document}" in written
    assert await until(connection, "select replica_path = 'documents/upload/Travel rules.md' from documents")

    path.write_text(written.replace("economy", "business").replace("title: Travel rules", "title: Flights"))
    changed = "select content = 'Fly business.' and title = 'Flights' and last_modified_human is not null from documents"
    assert await until(connection, changed)
    assert await until(
        connection, "select count(*) = 1 from memory_chunks where chunk_text = 'Fly business.'"
    )
    await appears(path, with_text="title: Flights")

    await connection.execute("update documents set content = 'Take the train.'")
    await appears(path, with_text="Take the train.")

    (root / "note.md").write_text("Bring a coat.")
    added = await until(
        connection, "select id from documents where title = 'note' and content = 'Bring a coat.'"
    )
    await appears(root / "note.md", with_text=f"id: {added}")

    path.unlink()
    assert await until(connection, "select status = 'deleted' from documents where id = $1", document)
    assert daemon.events("replica_write_failed") == []
    assert "Fly" not in daemon.text()
    assert "Flights" not in daemon.text()
