"""Files of the replica that stay as they are: a person is told which and why, and an erasure deletes them all the same."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import asyncpg

from daemon.db.pool import Database
from tests.support.content.knowledge import know
from tests.support.processes.commands import memoryd
from tests.support.replica.entry_files import CORE, sections
from tests.support.replica.passes import Replicated
from tests.support.rows import column, insert, remember

USER = UUID("00000000-0000-0000-0000-0000000000aa")
NO_TEXTS = (b"", b"secret\0", "Ein Zug f\xe4hrt".encode("latin-1"), b"x" * 10_000_001)


async def test_a_file_of_an_erased_user_goes_though_it_is_no_text(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, database: Database
) -> None:
    values: dict[str, object] = {"content": "Text.", "status": "active"}
    for number in range(len(NO_TEXTS)):
        await insert(connection, "documents", values | {"title": f"Number {number}", "user_id": USER})
    await insert(connection, "documents", values | {"title": "Fought over", "user_id": USER})
    await insert(connection, "documents", values | {"title": "Shared"})
    await replicated.settle()
    folder = root / f"users/{USER}/documents/documents"
    fought = folder / "Fought over.md"
    fought.write_text(fought.read_text().replace("Text.", "Mine."))
    await connection.execute("update documents set content = 'Theirs.' where title = 'Fought over'")
    await replicated.settle()
    [conflict] = folder.glob("Fought over (conflict*")
    for number, content in enumerate(NO_TEXTS):
        (folder / f"Number {number}.md").write_bytes(content)
    conflict.write_bytes(NO_TEXTS[1])
    (root / "documents/documents/Shared.md").write_bytes(NO_TEXTS[1])
    (root / "stranger.md").write_bytes(NO_TEXTS[1])
    await replicated.settle()
    assert len(list(folder.iterdir())) == len(NO_TEXTS) + 2
    assert (
        await connection.fetchval("select count(*) from memoryd.replica_left_out where user_id = $1", USER)
        == 5
    )
    # All of them are files that the daemon deletes: nothing is left to the caller.
    erased = await connection.fetchval("select erase_user_memory($1)", USER)
    assert '"replica_paths": []' in erased
    assert (
        await connection.fetchval("select count(*) from memoryd.replica_left_out where user_id = $1", USER)
        == 0
    )
    await Replicated(root, database).settle()
    assert not (root / "users").exists() or not list((root / "users").iterdir())
    assert await column(connection, "select path from memoryd.replica_left_out order by path") == [
        "documents/documents/Shared.md",
        "stranger.md",
    ]
    assert await column(connection, "select path from memoryd.replica_files") == [
        "documents/documents/Shared.md"
    ]


async def test_a_person_is_told_which_files_are_left_as_they_are_and_which_wait(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, database_url: str, tmp_path: Path
) -> None:
    await remember(connection, "likes trains", kind="fact", user_id=None, agent_id="planner")
    for number in range(12):
        await insert(connection, "documents", {"title": f"{number}", "content": "Text.", "status": "active"})
    await replicated.settle()
    own = root / "agents/planner/memories.md"
    (root / "copy.md").write_bytes(own.read_bytes())
    (root / "picture.md").write_bytes(NO_TEXTS[1])
    (root / "huge.md").write_text("---\nadded: " + "x" * 1_100_000 + "\n---\nText")
    for path in (root / "documents/documents").iterdir():
        path.unlink()
    report = await replicated.settle()
    assert (report.copies, report.not_text, report.refused) == (1, 1, 1)
    told = (await memoryd("replica", "--json", url=database_url, folder=tmp_path)).json
    reasons = {one["path"]: one["reason"] for one in told["left_out"]}
    assert sorted(reasons) == ["copy.md", "huge.md", "picture.md"]
    assert "copy" in reasons["copy.md"]
    assert "UTF-8" in reasons["picture.md"]
    assert len(told["waiting_files"]) == 12
    shown = (await memoryd("replica", url=database_url, folder=tmp_path)).out
    assert "picture.md" in shown
    assert "documents/documents/7.md" in shown
    for name in reasons:
        (root / name).unlink()
    await replicated.settle()
    assert await connection.fetchval("select count(*) from memoryd.replica_left_out") == 0


async def test_a_persons_own_readme_and_index_become_documents(
    connection: asyncpg.Connection, root: Path, database: Database
) -> None:
    root.mkdir()
    for number, name in enumerate(("README.md", "index.md", "Index.md")):
        (root / name).write_text(f"My text {number}.")
    (root / "Readme.md").touch()
    replicated = Replicated(root, database)
    own: dict[str, str] = {}
    for _ in range(2):
        await replicated.settle()
        own = {
            path.name: path.read_text("utf-8")
            for path in root.iterdir()
            if "kept by memoryd" in path.read_text("utf-8")
        }
        assert len(own) == 2
        await insert(connection, "documents", {"title": "New", "content": "Text."})
    # What is written into memoryd's own is lost.
    for name, text in own.items():
        (root / name).write_text(f"{text}Lost.")
    # In place of it and later, too.
    (root / "README.md").write_text("My text 3.")
    await replicated.settle()
    assert await column(connection, "select content from documents where title <> 'New' order by 1") == [
        f"My text {number}." for number in range(4)
    ]
    assert await column(connection, "select path from memoryd.replica_left_out") == ["Readme 2.md"]


async def test_a_file_that_a_program_has_open_waits_until_it_is_closed(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    path = root / "slow.md"
    with path.open("w") as file:
        for number in range(3):
            file.write(f"Line {number} of a slow writer.\n")
            file.flush()
            # Its time says that nobody has written it for a while.
            os.utime(path, (path.stat().st_mtime - 30,) * 2)
            assert (await replicated.once()).waits
    assert await column(connection, "select title from documents") == []
    await replicated.settle()
    [content] = await column(connection, "select content from documents")
    assert "Line 2" in str(content)


async def test_what_a_program_still_had_open_of_an_erased_user_goes_again_when_it_is_saved(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, database: Database
) -> None:
    values: dict[str, object] = {"content": "Text.", "status": "active"}
    titles = ("Private", "Thrown away", "Fought over")
    for title in titles:
        await insert(connection, "documents", values | {"title": title, "user_id": USER})
    gone = await insert(connection, "documents", values | {"title": "Gone"})
    await remember(connection, "likes trains", kind="fact", user_id=USER)
    await know(connection, "Hers", "She likes trains.", created_by=str(USER))
    await know(connection, "Ours", "We like trains.")
    await replicated.settle()
    folder = root / f"users/{USER}/documents/documents"
    fought = folder / "Fought over.md"
    fought.write_text(fought.read_text().replace("Text.", "Mine."))
    await connection.execute("update documents set content = 'Theirs.' where title = 'Fought over'")
    await replicated.settle()
    opened = {
        file: file.read_bytes() for file in root.rglob("*.md") if file.name not in ("Index.md", "README.md")
    }
    assert len(opened) == 7
    (folder / "Thrown away.md").unlink()
    await replicated.settle()
    await connection.execute("select erase_user_memory($1)", USER)
    await connection.execute("delete from documents where id = $1", gone)
    await replicated.settle()
    assert list(replicated.files()) == [CORE]
    for again in (replicated, Replicated(root, database)):
        for file, content in opened.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.replace(b"Text.", b"Text of hers.").replace(b"She likes", b"She loves"))
        (root / "moved.md").write_bytes(opened[fought])
        report = await again.settle()
        assert report.counts["erased"] == len(opened)
        assert (list(replicated.files()), report.copies) == ([CORE], 0)
        assert [one.heading for one in sections(root, CORE)] == ["Ours"]
        assert await column(connection, "select title from shared_knowledge") == ["Ours"]
        assert await connection.fetchval("select count(*) from documents") == 0
        assert await connection.fetchval("select count(*) from agent_memory") == 0
    # What a service puts back has a file again; a program may not.
    await insert(connection, "documents", values | {"id": gone, "title": "Gone"})
    await replicated.settle()
    [back] = replicated.files().keys() - {CORE}
    (root / back).write_text((root / back).read_text().replace("Text.", "Edited."))
    await replicated.settle()
    assert await column(connection, "select content from documents") == ["Edited."]
    # Of whom these were nobody can tell, and after a year nothing is left of them.
    assert await column(
        connection,
        "select attname::text from pg_attribute where attrelid = 'memoryd.replica_erased'::regclass and attnum > 0",
    ) == ["id", "erased_at"]
    await connection.execute("update memoryd.replica_erased set erased_at = now() - interval '366 days'")
    await connection.execute("select memoryd.purge_documents(30)")
    assert await connection.fetchval("select count(*) from memoryd.replica_erased") == 0
