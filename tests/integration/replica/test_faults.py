"""What may go wrong with a replica: nothing is lost, nothing is deleted by mistake, and nothing outside is touched."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from daemon.db.pool import Database
from plugins.replica.folder import FolderUnavailable
from plugins.replica.local_folder import LocalFolder
from plugins.replica.rules.paths import IDENTITY
from plugins.replica.store.documents import Base, Store
from tests.support.replica.passes import Replicated
from tests.support.rows import column, insert

USER = UUID("00000000-0000-0000-0000-0000000000aa")


async def write(
    connection: asyncpg.Connection, title: str, content: str = "Text.", **columns: object
) -> UUID:
    """A document that is active."""
    return await insert(
        connection, "documents", {"title": title, "content": content, "status": "active"} | columns
    )


async def statuses(connection: asyncpg.Connection) -> list[object]:
    """The status of each document, in the order of their titles."""
    return list(await column(connection, "select status from documents order by title"))


@pytest.mark.parametrize("is_lost", ["unmounted", "another", "gone"])
async def test_a_folder_that_is_not_the_replica_deletes_nothing(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, tmp_path: Path, is_lost: str
) -> None:
    await write(connection, "One")
    await replicated.settle()
    root.rename(tmp_path / "away")
    if is_lost != "gone":
        root.mkdir()
    if is_lost == "another":
        (root / IDENTITY).write_text(f'{{"replica": "{uuid4()}"}}')
    with pytest.raises(FolderUnavailable, match=r"MEMORYD_REPLICA|--rewrite"):
        await replicated.once()
    assert await statuses(connection) == ["active"]
    with pytest.raises(FolderUnavailable):
        await Replicated(root, replicated.database).once()


async def test_lost_files_are_written_again_on_request(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, tmp_path: Path, database: Database
) -> None:
    await write(connection, "One")
    await replicated.settle()
    root.rename(tmp_path / "away")
    await connection.execute("select memoryd.rewrite_replica()")
    await Replicated(root, database).settle()
    assert list(replicated.files()) == ["documents/documents/One.md"]
    assert await statuses(connection) == ["active"]


async def test_a_part_that_cannot_be_read_or_is_a_link_deletes_nothing(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, tmp_path: Path
) -> None:
    await write(connection, "One", source="mail")
    await replicated.settle()
    (root / "documents/mail").rename(tmp_path / "mail")
    (root / "documents/mail").symlink_to(tmp_path / "mail")
    await connection.execute("update documents set content = 'New.'")
    report = await replicated.settle()
    assert report.counts["deleted"] == 0
    assert await statuses(connection) == ["active"]
    assert "New." not in (tmp_path / "mail/One.md").read_text()


async def test_links_are_neither_read_nor_written(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    (root / "link.md").symlink_to(secret)
    (root / "documents").symlink_to(tmp_path)
    await write(connection, "One")
    report = await replicated.settle()
    assert report.failures > 0
    assert await column(connection, "select title from documents") == ["One"]
    assert not (tmp_path / "documents").exists()
    folder = LocalFolder(root)
    for path in ("../secret.md", "/etc/passwd", "link.md", "documents/secret.md"):
        with pytest.raises(OSError, match=r"."):
            folder.read(path)
    os.mkfifo(root / "pipe.md")
    await replicated.settle()


async def test_many_files_gone_at_once_wait_for_a_yes(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    for number in range(20):
        await write(connection, f"{number:02}")
    await replicated.settle()
    kept = {path: replicated.path(path).read_bytes() for path in sorted(replicated.files())[:12]}
    for path in kept:
        replicated.path(path).unlink()
    await connection.execute("update documents set content = 'New.' where title = '19'")
    report = await replicated.settle()
    assert (report.asked, report.counts["deleted"], report.counts["written"]) == (12, 0, 1)
    assert set(await statuses(connection)) == {"active"}
    # The files are back: nobody is asked any more.
    for path, content in kept.items():
        replicated.path(path).write_bytes(content)
    assert (await replicated.settle()).asked == 0
    assert (
        await connection.fetchval(
            "select count(*) from memoryd.replica_files where missing_since is not null"
        )
        == 0
    )
    for path in kept:
        replicated.path(path).unlink()
    await replicated.settle()
    await connection.execute("update memoryd.replica set deletions_confirmed_at = clock_timestamp()")
    assert (await replicated.settle()).counts["deleted"] == 12
    assert (await statuses(connection)).count("deleted") == 12


async def test_a_file_that_is_still_written_waits_and_none_is_deleted_meanwhile(
    connection: asyncpg.Connection, root: Path, database: Database
) -> None:
    await write(connection, "One")
    slow = Replicated(root, database, settle_seconds=0.5)
    await slow.settle()
    path = root / "documents/documents/One.md"
    content = path.read_text()
    path.unlink()
    new = root / "new.md"
    new.write_text("half of it")
    report = await slow.once()
    assert report.waits
    assert await column(connection, "select title from documents") == ["One"]
    # A file whose time is in the future is taken when it has stayed the same for a while.
    new.write_text(content.replace("Text.", "Whole."))
    os.utime(new, (4e9, 4e9))
    deadline = time.monotonic() + 90
    while (await slow.once()).counts["moved"] == 0:
        assert time.monotonic() < deadline
    await slow.settle()
    assert await column(connection, "select content from documents") == ["Whole."]
    assert await column(connection, "select replica_path from documents") == ["new.md"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
async def test_what_cannot_be_written_is_written_later_and_edits_are_taken_meanwhile(
    connection: asyncpg.Connection, replicated: Replicated, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    await write(connection, "One")
    await write(connection, "Two")
    await replicated.settle()
    path = replicated.path("documents/documents/Two.md")
    path.write_text(path.read_text().replace("Text.", "A person's."))
    await connection.execute("update documents set content = 'An agent''s.' where title = 'One'")

    def fail(*_args: object, **_more: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(LocalFolder, "write", fail)
        report = await replicated.once()
        assert report.failures > 0
        assert report.error is not None
        assert report.error.errno == number
    assert await column(connection, "select content from documents order by title") == [
        "An agent's.",
        "A person's.",
    ]
    await replicated.settle()
    assert "An agent's." in replicated.path("documents/documents/One.md").read_text()


async def test_files_that_no_document_can_hold_stay_and_stop_no_other(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    (root / "empty.md").touch()
    (root / "picture.md").write_bytes(b"\x89PNG\0\xff")
    (root / "notes.txt").write_text("no Markdown")
    (root / ".hidden.md").write_text("hidden")
    (root / "huge.md").write_text("---\nadded: " + "x" * 9_000_000 + "\n---\nText")
    (root / "good.md").write_text("Good.")
    os.close(os.open(os.fsencode(root) + b"/\xff.md", os.O_CREAT, 0o600))
    report = await replicated.settle()
    assert await column(connection, "select title from documents") == ["good"]
    assert (report.not_text, report.refused) == (3, 1)
    assert (root / "picture.md").read_bytes() == b"\x89PNG\0\xff"


async def test_a_file_that_a_person_empties_is_neither_taken_nor_deleted(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    await write(connection, "One")
    await replicated.settle()
    path = replicated.path("documents/documents/One.md")
    path.write_text("")
    report = await replicated.settle()
    assert report.not_text == 1
    assert await column(connection, "select content from documents where status = 'active'") == ["Text."]


async def test_a_users_files_are_theirs_and_an_erasure_deletes_them_all(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, database: Database
) -> None:
    await write(connection, "Shared")
    for title in ("Private", "Deleted", "Fought over"):
        await write(connection, title, user_id=USER)
    await replicated.settle()
    folder = root / f"users/{USER}/documents/documents"
    assert {path.name for path in folder.iterdir()} == {"Private.md", "Deleted.md", "Fought over.md"}
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    assert "Private" not in (root / "Index.md").read_text()
    (folder / "Deleted.md").unlink()
    fought = folder / "Fought over.md"
    fought.write_text(fought.read_text().replace("Text.", "Mine."))
    await connection.execute("update documents set content = 'Theirs.' where title = 'Fought over'")
    await replicated.settle()
    assert len(list(folder.iterdir())) == 3
    # A person moves one away, and writes into another, while no daemon runs; then the user is erased.
    (folder / "Private.md").rename(root / "moved.md")
    fought.write_text(fought.read_text().replace("Mine.", "Mine, too."))
    await connection.execute("select erase_user_memory($1)", USER)
    assert await connection.fetchval("select count(*) from memoryd.replica_tombstones") == 0
    assert await connection.fetchval("select count(*) from memoryd.replica_conflicts") == 0
    await Replicated(root, database).settle()
    assert list(replicated.files()) == ["documents/documents/Shared.md"]
    assert not (root / "users").exists() or not list((root / "users").iterdir())
    assert await column(connection, "select path from memoryd.replica_files") == [
        "documents/documents/Shared.md"
    ]


async def test_a_document_that_is_given_to_a_user_moves_to_their_folder(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    await write(connection, "One")
    await replicated.settle()
    await connection.execute("update documents set user_id = $1", USER)
    await replicated.settle()
    assert list(replicated.files()) == [f"users/{USER}/documents/documents/One.md"]
    assert await column(connection, "select replica_path from documents") == list(replicated.files())


async def test_a_new_file_in_a_users_folder_is_theirs_and_an_id_of_anothers_document_is_nothing(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    hidden = await insert(connection, "documents", {"title": "Not ready", "content": "secret"})
    (root / f"users/{USER}").mkdir(parents=True)
    (root / f"users/{USER}/mine.md").write_text(f"---\nid: {hidden}\ntitle: Mine\n---\nMy text.")
    await replicated.settle()
    rows = await connection.fetch("select title, content, user_id from documents order by title")
    assert [tuple(row) for row in rows] == [("Mine", "My text.", USER), ("Not ready", "secret", None)]


async def test_a_user_whose_memory_is_off_gets_no_document_by_a_file(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await insert_off(connection)
    (root / f"users/{USER}").mkdir(parents=True)
    (root / f"users/{USER}/mine.md").write_text("My text.")
    await replicated.settle()
    assert await column(connection, "select id from documents") == []
    assert (root / f"users/{USER}/mine.md").read_text() == "My text."


async def insert_off(connection: asyncpg.Connection) -> None:
    """The user's memory is off."""
    await connection.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", USER)


async def test_a_conflict_keeps_both_texts_and_each_way_out_works(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    for title in ("One", "Two", "Three", "Four"):
        await write(connection, title)
    await replicated.settle()
    for title in ("One", "Two", "Three", "Four"):
        own = replicated.path(f"documents/documents/{title}.md")
        own.write_text(own.read_text().replace("Text.", "Mine."))
    await connection.execute("update documents set content = 'Theirs.'")
    assert (await replicated.settle()).counts["conflicts"] == 4
    assert await statuses(connection) == ["conflict"] * 4
    others = {path for path in replicated.files() if "(conflict, 20" in path}
    assert len(others) == 4
    for path in others:
        said = replicated.path(path).read_text()
        assert "Theirs." in said
        assert "memoryd replica conflicts --keep theirs" in said
    # One: the file of the conflict is deleted. Two: the other one. Three: by command. Four: stays.
    by_title = {title: next(p for p in others if f"/{title} " in p) for title in ("One", "Two", "Three")}
    replicated.path(by_title["One"]).unlink()
    replicated.path("documents/documents/Two.md").unlink()
    await connection.execute(
        "select memoryd.take_conflict(c.id) from memoryd.replica_conflicts c join documents d on d.id = c.document_id "
        "where d.title = 'Three'"
    )
    await replicated.settle()
    rows = await connection.fetch("select title, content, status from documents order by title")
    assert [tuple(row) for row in rows] == [
        ("Four", "Mine.", "conflict"),
        ("One", "Mine.", "active"),
        ("Three", "Theirs.", "active"),
        ("Two", "Theirs.", "active"),
    ]
    assert len(replicated.files()) == 5


async def test_one_daemon_at_a_time_and_one_that_lost_the_lease_writes_nothing(
    connection: asyncpg.Connection, database: Database, replicated: Replicated
) -> None:
    document = await write(connection, "One")
    first, second = Store(database, UUID(int=7)), Store(database, uuid4())
    assert await first.lease() is not None
    assert await second.lease() is None
    await connection.execute("update memoryd.replica set leased_until = now() - interval '1 second'")
    assert await second.lease() is not None
    assert await first.lease() is None
    with pytest.raises(asyncpg.PostgresError, match="another daemon keeps the replica"):
        await first.note([Base("x.md", document, None, None, b"", b"", None)])


async def test_what_was_deleted_is_restored_or_purged(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    ids = [await write(connection, title) for title in ("One", "Two")]
    await replicated.settle()
    for path in list(replicated.files()):
        replicated.path(path).unlink()
    await replicated.settle()
    assert await statuses(connection) == ["deleted", "deleted"]
    assert await connection.fetchval("select memoryd.restore_document($1)", ids[0])
    assert not await connection.fetchval("select memoryd.restore_document($1)", ids[0])
    await connection.execute("update documents set status = 'active' where status = 'processing'")
    await replicated.settle()
    assert list(replicated.files()) == ["documents/documents/One.md"]
    assert await connection.fetchval("select memoryd.purge_documents(30)") == 0
    await connection.execute("update memoryd.replica_tombstones set deleted_at = now() - interval '31 days'")
    assert await connection.fetchval("select memoryd.purge_documents(30)") == 1
    assert await column(connection, "select title from documents") == ["One"]


async def test_strange_titles_get_different_files(
    connection: asyncpg.Connection, replicated: Replicated
) -> None:
    titles = [
        "Plan",
        "PLAN",
        "../../plan",
        "a\nb",
        "x" * 5000,
        "x" * 5001,
        "CON",
        ".hidden",
        "é",
        "e\u0301",
        "…\u202e",
    ]
    for title in titles:
        await write(connection, title)
    report = await replicated.settle()
    assert (report.failures, len(replicated.files())) == (0, len(titles))
    assert {path.count("/") for path in replicated.files()} == {2}


async def test_a_pass_over_what_has_not_changed_reads_and_writes_nothing_and_wakes_nobody(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await write(connection, "One")
    await replicated.settle()
    age(root)
    await replicated.settle()
    before, woken = times(root), list[object]()
    await connection.add_listener("memoryd", lambda *said: woken.append(said[3]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalFolder, "read", None)
        await replicated.once()
    # Else the end of a pass would begin the next one.
    await connection.execute("select pg_notify('memoryd', 'end')")
    while "end" not in woken:
        await connection.fetchval("select 1")
    assert woken == ["end"]
    assert times(root) == before


def age(root: Path) -> None:
    """Makes all files old."""
    for path in root.rglob("*.md"):
        os.utime(path, (1e9, 1e9))


def times(root: Path) -> dict[Path, int]:
    """When each file and folder was changed."""
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


async def test_who_deletes_a_file_before_that_of_its_conflict_is_there_loses_no_agents_text(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await connection.execute(
        "insert into documents (title, content, status) values ('One', 'Base.', 'active')"
    )
    await replicated.settle()
    [path] = root.glob("documents/*/One.md")
    path.write_text(path.read_text().replace("Base.", "A person's."))
    await connection.execute("update documents set content = 'An agent''s.'")
    # The daemon is killed when the conflict is in the database, and before its file is written.
    for step in range(200):
        if await connection.fetchval("select count(*) from memoryd.replica_conflicts"):
            break
        replicated = Replicated(root, replicated.database)
        await replicated.killed_at(step)
    assert not list(root.glob("documents/*/*conflict*"))
    path.unlink()
    await Replicated(root, replicated.database).settle()
    assert await column(connection, "select content from documents where status <> 'deleted'") == [
        "An agent's."
    ]
    assert [text.body for text in replicated.files().values()] == ["An agent's."]
