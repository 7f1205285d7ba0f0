"""The replica with a real daemon: documents appear as files, and what people do with the files happens to the documents."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import asyncpg

from tests.support.access.acting import ANN, BOB
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.replica.entry_files import is_called
from tests.support.rows import insert, remember
from tests.support.waiting import IDLE, until


def text_of(path: Path) -> str:
    """The text of a file; of none, nothing."""
    return path.read_text("utf-8") if path.exists() else ""


async def appears(path: Path, *, with_text: str) -> str:
    """The text of a file, once it contains this."""
    async with asyncio.timeout(90):
        while with_text not in (text := text_of(path)):
            await asyncio.sleep(0.01)
    return text


async def test_a_document_is_a_file_that_people_edit_and_delete(
    connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    # Neither a folder whose name is no text nor a link to one stops the watching of all others; no look at all helps here.
    root = tmp_path / "replica"
    (root / os.fsdecode(b"no text \xff")).mkdir(parents=True)
    (root / "link").symlink_to("/")
    daemon = await daemons.start(replica=root, replica_scan_seconds=3600)
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


async def test_a_folder_that_goes_away_deletes_nothing_and_is_watched_again(
    connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    root, away = tmp_path / ".replica", tmp_path / "away"
    daemon = await daemons.start(replica=root, replica_scan_seconds=3600)
    await insert(connection, "documents", {"title": "One", "content": "Text."})
    path = root / "documents/documents/One.md"
    await appears(path, with_text="Text.")
    for number, instead in enumerate((None, "a file", "a link", "a folder", "a copy")):
        await daemon.event("replica_synced")
        seen = len(daemon.lines)
        replace(root, away, instead)
        if instead != "a copy":
            await daemon.event("replica_unavailable", after=seen)
            put_back(root, away)
            await daemon.event("replica_available", after=seen)
        await edited(connection, path, f"Edited {number}.")
        await edited(connection, path, f"Edited {number} again.")
    assert await connection.fetchval("select count(*) from documents where status = 'active'") == 1


def replace(root: Path, away: Path, instead: str | None) -> None:
    """Moves a folder away, and puts something in its place."""
    root.rename(away)
    match instead:
        case "a file":
            root.write_text("Text.")
        case "a link":
            root.symlink_to(root.parent / "none")
        case "a folder":
            root.mkdir()
        case "a copy":
            shutil.copytree(away, root)


def put_back(root: Path, away: Path) -> None:
    """Moves it back."""
    if root.is_dir():
        root.rmdir()
    root.unlink(missing_ok=True)
    away.rename(root)


async def edited(connection: asyncpg.Connection, path: Path, text: str) -> None:
    """A person writes a text, and the document has it."""
    front, end, _ = path.read_text().rpartition("---\n")
    path.write_text(f"{front}{end}\n{text}\n")
    assert await until(connection, "select content = $1 from documents", text)


async def test_five_million_characters_that_a_person_adds_are_found(
    connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    root = tmp_path / "replica"
    await daemons.start(replica=root)
    await appears(root / "README.md", with_text="memoryd")
    paragraph = "Many words follow each other. " * 37 + "\n\n"
    (root / "long.md").write_text(
        f"{paragraph * (5_000_000 // len(paragraph))}The last line is about capybaras.\n"
    )
    assert await until(connection, "select status = 'active' from documents where title = 'long'")
    assert await until(
        connection, "select exists (select from recall('capybaras') r where r.content like '%capybaras%')"
    )


async def test_another_daemon_takes_the_replica_when_one_is_killed(
    connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    root = tmp_path / "replica"
    first = await daemons.start(replica=root)
    await first.event("replica_taken")
    second = await daemons.start(replica=root)
    await insert(connection, "documents", {"title": "One", "content": "Text."})
    path = root / "documents/documents/One.md"
    written = await appears(path, with_text="Text.")
    assert second.events("replica_taken") == []
    await first.kill()
    path.write_text(written.replace("Text.", "Edited while no daemon was there."))
    await second.event("replica_taken", timeout=60)
    assert await until(connection, "select content like 'Edited%' from documents")


async def test_a_user_is_erased_while_the_daemon_runs_and_while_it_does_not(
    connection: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    root = tmp_path / "replica"
    daemon = await daemons.start(replica=root)
    assert await until(connection, "select exists (select from memoryd.replica where noting)")
    # A name that is known stands beside the id.
    await is_called(connection, "Mia", user=ANN)
    await remember(connection, "Likes tea.", user_id=ANN, kind="fact")
    await appears(root / f"users/{ANN} Mia/memories.md", with_text="Likes tea.")
    for user, home in ((ANN, f"{ANN} Mia"), (BOB, f"{BOB}")):
        await insert(connection, "documents", {"title": "Diary", "content": "Dear diary.", "user_id": user})
        await appears(root / f"users/{home}/documents/documents/Diary.md", with_text="Dear diary.")
    # A file is there before its row is.
    assert await until(connection, "select count(*) = 2 from memoryd.replica_files")
    await connection.execute("select erase_user_memory($1)", ANN)
    assert await until(connection, "select count(*) = 1 from memoryd.replica_files")
    assert await until(connection, "select count(*) = 0 from memoryd.replica_collections")
    assert listed(root / "users") == [str(BOB)]
    await daemon.stop()
    await connection.execute("select erase_user_memory($1)", BOB)
    daemon = await daemons.start(replica=root)
    assert await until(connection, "select count(*) = 0 from memoryd.replica_files")
    assert listed(root / "users") == []


def listed(folder: Path) -> list[str]:
    """The names in a folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


async def test_commands_and_doctor_say_what_waits_and_do_what_a_person_decides(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, tmp_path: Path
) -> None:
    root = tmp_path / "replica"
    daemon = await daemons.start(replica=root, replica_scan_seconds=1)
    for number in range(12):
        await insert(connection, "documents", {"title": f"Number {number}", "content": "Text."})
    assert await until(connection, "select count(*) = 12 from memoryd.replica_files")
    assert await until(connection, IDLE)
    files = root / "documents/documents"

    # A conflict: while the daemon is stopped, both sides change.
    await daemon.stop()
    own = files / "Number 3.md"
    own.write_text(text_of(own).replace("Text.", "Mine."))
    await connection.execute("update documents set content = 'Theirs.' where title = 'Number 3'")
    daemon = await daemons.start(replica=root, replica_scan_seconds=1)
    conflict = await until(
        connection, "select conflict_id from memoryd.replica_files where conflict_id is not null"
    )
    [listed_one] = (await memoryd("replica", "conflicts", "--json")).json
    assert listed_one["id"] == str(conflict)
    assert "(conflict, " in listed_one["other_path"]
    assert (await memoryd("replica", "conflicts", "--keep", "mine")).code == 2
    assert (await memoryd("replica", "conflicts", "--keep", "theirs", str(conflict))).code == 0
    await appears(own, with_text="Theirs.")
    assert "no conflict" in (await memoryd("replica", "conflicts")).out

    # Many deletions wait: of all files but one, once the one of the conflict is gone.
    while len(list(files.iterdir())) > 12:
        await asyncio.sleep(0.01)
    kept = {path: path.read_text() for path in sorted(files.iterdir())[:11]}
    for path in kept:
        path.unlink()
    await daemon.event("replica_deletions_wait", files=11)
    assert "--confirm-deletions" in (await memoryd("replica")).out
    checks = (await memoryd("doctor", "--json", replica=root)).json
    assert ("replica", "warning") in {(check["name"], check["verdict"]) for check in checks}
    assert (await memoryd("replica", "--confirm-deletions")).code == 0
    assert await until(connection, "select count(*) = 11 from documents where status = 'deleted'")

    # One is restored.
    status = (await memoryd("replica", "--json")).json
    assert (status["files"], status["deleted"], status["waiting"]) == (1, 11, 0)
    one = status["deleted_documents"][0]
    assert (await memoryd("replica", "undelete", one["id"])).code == 0
    await appears(files / f"{one['title']}.md", with_text=one["id"])
    again = await memoryd("replica", "undelete", one["id"])
    assert again.code == 1
    assert "no deleted document" in again.err

    # The folder is unmounted.
    root.rename(tmp_path / "away")
    root.mkdir()
    await daemon.event("replica_unavailable")
    found = {c["name"]: c for c in (await memoryd("doctor", "--json", replica=root)).json}["replica"]
    assert found["verdict"] == "problem"
    assert "--rewrite" in found["advice"]
    assert "--rewrite" in (await memoryd("replica")).out
    assert await connection.fetchval("select count(*) from documents where status = 'deleted'") == 10
    assert "Number" not in daemon.text()
