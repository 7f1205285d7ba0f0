"""Somebody changes the folder between two steps of a pass: nothing of theirs is undone."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from daemon.db.pool import Database
from plugins.replica.folder import FolderUnavailable
from plugins.replica.local_folder import LocalFolder
from tests.support.replica.passes import Replicated
from tests.support.rows import insert

ACTIVE: dict[str, object] = {"content": "Text.", "status": "active"}


async def test_a_file_deleted_between_the_listing_and_its_reading_stays_deleted(
    connection: asyncpg.Connection, root: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await insert(connection, "documents", ACTIVE | {"title": "One"})
    folder = LocalFolder(root)
    replicated = Replicated(root, database, folder=folder)
    await replicated.settle()
    file = root / "documents/documents/One.md"
    file.write_text(file.read_text())  # so that it is read again

    def read_late(path: str) -> bytes:
        file.unlink(missing_ok=True)
        return LocalFolder.read(folder, path)

    monkeypatch.setattr(folder, "read", read_late)
    await replicated.settle()
    await replicated.settle()  # the deletion itself makes another pass due
    assert not file.exists()
    assert await connection.fetchval("select status from documents where id = $1", document) == "deleted"


async def test_nothing_is_written_into_a_folder_that_takes_its_place_during_a_pass(
    connection: asyncpg.Connection,
    root: Path,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await insert(connection, "documents", ACTIVE | {"title": "One"})
    folder = LocalFolder(root)
    replicated = Replicated(root, database, folder=folder)
    await replicated.settle()
    await insert(connection, "documents", ACTIVE | {"title": "Two"})
    write_now = folder.write

    def write_late(path: str, content: bytes, *, replaces: bytes | None) -> None:
        if not (tmp_path / "away").exists():
            root.rename(tmp_path / "away")
            root.mkdir()
        write_now(path, content, replaces=replaces)

    monkeypatch.setattr(folder, "write", write_late)
    with pytest.raises(FolderUnavailable):
        await replicated.settle()
    assert list(root.iterdir()) == []
