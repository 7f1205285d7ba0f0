"""Documents as files in Google Drive: the same passes as over a local folder, with a real database, over HTTP."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from plugins.replica.folder import FolderUnavailable
from tests.support.drive.faults import DROP, Fault
from tests.support.drive.server import DriveServer
from tests.support.replica.places import InDrive
from tests.support.rows import column, insert

USER = UUID("00000000-0000-0000-0000-0000000000aa")


class There:
    """A replica in Drive. `start` is a daemon that was just started."""

    def __init__(self, server: DriveServer, database: Database, tmp_path: Path) -> None:
        self.server = server
        self.drive = server.drive
        self._database = database
        self._tmp_path = tmp_path
        self.replicated = self.start()

    def start(self) -> InDrive:
        """Another daemon."""
        self.replicated = InDrive(self.server, self._tmp_path, self._database)
        return self.replicated

    def files(self) -> list[str]:
        """The documents' files."""
        return [path for path in self.drive.paths() if path not in ("README.md", "Index.md")]

    def edit(self, path: str, old: str, new: str) -> None:
        """A person's edit."""
        self.drive.write(path, self.drive.text(path).replace(old, new))


@pytest.fixture
async def there(drive_server: DriveServer, database: Database, tmp_path: Path) -> There:
    """An empty replica in Drive."""
    made = There(drive_server, database, tmp_path)
    await made.replicated.settle()
    return made


async def write(
    connection: asyncpg.Connection, title: str, content: str = "Text.", **columns: object
) -> UUID:
    """A document that is active."""
    return await insert(
        connection, "documents", {"title": title, "content": content, "status": "active"} | columns
    )


async def rows(connection: asyncpg.Connection, columns: str) -> list[tuple[object, ...]]:
    """These columns of all documents, in the order of their titles."""
    return [tuple(row) for row in await connection.fetch(f"select {columns} from documents order by title")]


async def test_both_sides_follow_each_other(connection: asyncpg.Connection, there: There) -> None:
    drive = there.drive
    for title in ("Edited", "Moved", "Deleted", "Renamed"):
        await write(connection, title, source="mail")
    await there.replicated.settle()
    assert there.files() == [f"documents/mail/{one}.md" for one in ("Deleted", "Edited", "Moved", "Renamed")]
    assert "[Edited](<documents/mail/Edited.md>)" in drive.text("Index.md")
    there.edit("documents/mail/Edited.md", "Text.", "A person's.")
    drive.move("documents/mail/Moved.md", "elsewhere/Moved.md")
    drive.move("documents/mail/Renamed.md", "documents/mail/Another.md")
    drive.trash("documents/mail/Deleted.md")
    drive.add("New.md", "A person's, too.")
    drive.add("New.md", "Of the same name.")
    await there.replicated.settle()
    assert await rows(connection, "title, content, status, replica_path") == [
        ("Deleted", "Text.", "deleted", None),
        ("Edited", "A person's.", "active", "documents/mail/Edited.md"),
        ("Moved", "Text.", "active", "elsewhere/Moved.md"),
        ("New", "A person's, too.", "processing", "New.md"),
        ("New 2", "Of the same name.", "processing", "New 2.md"),
        ("Renamed", "Text.", "active", "documents/mail/Another.md"),
    ]
    await connection.execute(
        "update documents set content = 'An agent''s.', status = 'active' where title = 'Edited'"
    )
    await there.replicated.settle()
    assert "An agent's." in drive.text("documents/mail/Edited.md")
    assert drive.at("documents/mail/Edited.md").saves == 3  # the person's, its front matter, the agent's


async def test_a_conflict_keeps_both_texts(connection: asyncpg.Connection, there: There) -> None:
    await write(connection, "One")
    await there.replicated.settle()
    there.edit("documents/documents/One.md", "Text.", "Mine.")
    await connection.execute("update documents set content = 'Theirs.'")
    await there.replicated.settle()
    [own, other] = sorted(there.files(), key=len)
    assert "(conflict, " in other
    assert "Mine." in there.drive.text(own)
    assert "Theirs." in there.drive.text(other)
    there.drive.trash(other)
    await there.replicated.settle()
    assert await rows(connection, "content, status") == [("Mine.", "active")]


async def test_a_restart_fetches_nothing_and_writes_nothing(
    connection: asyncpg.Connection, there: There
) -> None:
    for number in range(12):
        await write(connection, f"{number:02}")
    await there.replicated.settle()
    await there.replicated.settle()
    there.server.forget_requests()
    report = await there.start().settle()
    assert not any(report.counts.values())
    assert there.server.asked("GET content") == 1  # the mark of the replica
    assert there.server.asked("POST") == 1  # the sign-in
    assert there.server.asked("PATCH") == 0


async def test_what_a_young_listing_lacks_is_neither_deleted_nor_written_again(
    connection: asyncpg.Connection, there: There
) -> None:
    await write(connection, "One")
    await write(connection, "Two")
    await there.replicated.settle()
    await connection.execute("update documents set content = 'An agent''s.' where title = 'One'")
    there.drive.move("documents/documents/Two.md", "Two.md")
    there.drive.not_listed_yet = {there.drive.at("documents/documents/One.md").id}
    started = InDrive(there.server, there.replicated.root, there.replicated.database, young_seconds=3600.0)
    # What moved meanwhile is followed.
    assert +(await started.settle()).counts == {"moved": 1}
    there.drive.not_listed_yet = set()
    assert +(await started.settle()).counts == {"written": 1}
    assert there.files() == ["Two.md", "documents/documents/One.md"]


async def test_nothing_is_deleted_when_drive_cannot_be_used(
    connection: asyncpg.Connection, there: There
) -> None:
    for number in range(3):
        await write(connection, f"{number}")
    await there.replicated.settle()
    there.drive.unshare()
    for daemon in (there.replicated, there.start()):
        with pytest.raises(FolderUnavailable):
            await daemon.once()
    there.drive.share()
    there.server.always = ("GET", DROP)
    with pytest.raises(FolderUnavailable):
        await there.replicated.once()
    there.server.heal()
    report = await there.start().settle()
    assert not any(report.counts.values())
    assert set(await column(connection, "select status from documents")) == {"active"}


async def test_a_file_that_cannot_be_fetched_is_not_deleted(
    connection: asyncpg.Connection, there: There
) -> None:
    await write(connection, "One")
    await there.replicated.settle()
    there.edit("documents/documents/One.md", "Text.", "Mine.")
    for fault in (Fault.status(404), Fault.status(403, "cannotDownloadAbusiveFile")):
        there.server.always = ("GET content", fault)
        await there.replicated.once()
        assert await rows(connection, "content, status") == [("Text.", "active")]
    there.server.heal()
    await there.replicated.settle()
    assert await rows(connection, "content") == [("Mine.",)]


async def test_many_deletions_wait_for_a_yes(connection: asyncpg.Connection, there: There) -> None:
    for number in range(12):
        await write(connection, f"{number:02}")
    await there.replicated.settle()
    trashed = there.drive.trash("documents")
    report = await there.replicated.settle()
    assert (report.asked, report.counts["deleted"]) == (12, 0)
    there.drive.change(trashed, trashed=False)
    report = await there.replicated.settle()
    assert (report.asked, report.counts["written"]) == (0, 0)
    assert set(await column(connection, "select status from documents")) == {"active"}


async def test_a_full_drive_takes_edits_and_writes_later(
    connection: asyncpg.Connection, there: There
) -> None:
    await write(connection, "One")
    await there.replicated.settle()
    there.edit("documents/documents/One.md", "Text.", "Mine.")
    for number in range(5):
        await write(connection, f"{number}")
    there.server.always = ("POST upload", Fault.status(403, "storageQuotaExceeded"))
    there.server.forget_requests()
    report = await there.replicated.once()
    assert report.failures == 5
    assert there.server.asked("POST upload") == 1
    assert await column(connection, "select content from documents where title = 'One'") == ["Mine."]
    there.server.heal()
    await there.replicated.settle()
    assert len(there.files()) == 6


async def test_an_erasure_leaves_nothing_in_drive(connection: asyncpg.Connection, there: There) -> None:
    await write(connection, "Shared")
    for title in ("Private", "Fought over", "Moved"):
        await write(connection, title, user_id=USER)
    await there.replicated.settle()
    folder = f"users/{USER}/documents/documents"
    there.edit(f"{folder}/Fought over.md", "Text.", "Mine.")
    await connection.execute("update documents set content = 'Theirs.' where title = 'Fought over'")
    await there.replicated.settle()
    there.drive.move(f"{folder}/Moved.md", "Moved.md")
    await connection.execute("select erase_user_memory($1)", USER)
    await there.start().settle()
    assert there.files() == ["documents/documents/Shared.md"]
    left = [one.name for one in there.drive.files.values() if one.content and b"Theirs." in one.content]
    assert left == []
    assert not [one for one in there.drive.files.values() if one.name in ("Private.md", "Moved.md")]
    assert [path for path, _ in there.drive.tree() if path.startswith("users/")] == []


async def test_what_is_no_text_is_left_alone_and_counted(
    connection: asyncpg.Connection, there: There
) -> None:
    there.drive.add("picture.md", b"\x89PNG\0\xff")
    there.drive.add("empty.md", "")
    there.drive.add("photo.png", b"\x89PNG\0\xff")
    there.drive.add("Minutes", kind="application/vnd.google-apps.document")
    report = await there.replicated.settle()
    assert report.not_text == 3
    assert await rows(connection, "title") == []
    assert len(there.files()) == 4
