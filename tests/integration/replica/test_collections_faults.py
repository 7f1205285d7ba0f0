"""What may go wrong with files of entries: nothing is lost, and the rest goes on."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import asyncpg
import pytest

from daemon.db.pool import Database
from plugins.replica.folder import FolderUnavailable
from plugins.replica.local_folder import LocalFolder
from tests.support.replica.entry_files import (
    CORE,
    append,
    bodies,
    edit,
    know,
    sections,
    without,
)
from tests.support.replica.passes import Replicated, SteppedDatabase
from tests.support.rows import ask, column, remember


async def test_what_the_database_refuses_stays_in_the_file_and_stops_nothing(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await know(connection, "One")
    await know(connection, "Two")
    await replicated.settle()
    long = "x" * 10_001
    edit(root, CORE, "## One", f"## {long}")
    append(root, CORE, f"## {long}\n\nToo long.\n\n## Good\n\nFine.\n\n## Unfinished\n")
    report = await replicated.settle()
    assert report.counts["added"] == 1
    await connection.execute("update shared_knowledge set content = 'New.' where title = 'Two'")
    await replicated.settle()
    assert [one.heading for one in sections(root, CORE)] == [long, "Two", long, "Good", "Unfinished"]
    assert bodies(root, CORE)[1] == "New."
    assert set(await column(connection, "select title from shared_knowledge")) == {"One", "Two", "Good"}


async def test_what_changed_while_nobody_noted_it_is_found_and_lost_files_are_written_again(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, database: Database, tmp_path: Path
) -> None:
    ids = [await know(connection, title) for title in ("One", "Two")]
    await replicated.settle()
    # No daemon has kept the replica for a day.
    await connection.execute(
        "update memoryd.replica set leased_until = '-infinity', synced_at = now() - interval '2 days'"
    )
    await connection.execute("select memoryd.purge_entries(30)")
    await connection.execute("update shared_knowledge set content = 'New.' where title = 'One'")
    await connection.execute("delete from shared_knowledge where title = 'Two'")
    await know(connection, "Three")
    assert await connection.fetchval("select count(*) from memoryd.replica_changes") == 0
    await Replicated(root, database).settle()
    assert [(one.heading, one.body) for one in sections(root, CORE)] == [("One", "New."), ("Three", "Text.")]
    # The folder is lost.
    root.rename(tmp_path / "away")
    with pytest.raises(FolderUnavailable):
        await Replicated(root, database).once()
    await connection.execute("select memoryd.rewrite_replica()")
    report = await Replicated(root, database).settle()
    assert (report.counts["deleted"], report.asked_entries) == (0, 0)
    assert sections(root, CORE)[0].id == ids[0]


async def test_what_cannot_be_written_is_written_later_and_edits_are_taken_meanwhile(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await know(connection, "One")
    await know(connection, "Two")
    await replicated.settle()
    edit(root, CORE, "## One\n", "## First\n")
    await connection.execute("update shared_knowledge set content = 'An agent''s.' where title = 'Two'")

    def fail(*_args: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(LocalFolder, "write", fail)
        report = await replicated.once()
        assert report.failures > 0
    assert set(await column(connection, "select title from shared_knowledge")) == {"First", "Two"}
    await replicated.settle()
    assert [(one.heading, one.body) for one in sections(root, CORE)] == [
        ("First", "Text."),
        ("Two", "An agent's."),
    ]


async def test_a_file_that_is_still_written_waits(
    connection: asyncpg.Connection, root: Path, database: Database
) -> None:
    await know(connection, "One")
    slow = Replicated(root, database, settle_seconds=0.5)
    await slow.settle()
    text = (root / CORE).read_text("utf-8")
    (root / CORE).write_text(text[: text.index("Text.")], "utf-8")
    report = await slow.once()
    assert report.waits
    (root / CORE).write_text(text.replace("Text.", "Whole."), "utf-8")
    deadline = time.monotonic() + 90
    while (await slow.once()).counts["taken"] == 0:
        assert time.monotonic() < deadline
    assert await column(connection, "select content from shared_knowledge") == ["Whole."]


async def test_a_pass_at_rest_reads_no_entry_and_writes_nothing(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await know(connection, "One")
    await remember(connection, "Likes tea.", kind="fact")
    await replicated.settle()
    for path in root.rglob("*.md"):
        os.utime(path, (1e9, 1e9))
    await replicated.settle()
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    asked: list[str] = []
    fetch = SteppedDatabase.fetch

    async def watched(self: SteppedDatabase, sql: str, *args: object) -> object:
        asked.append(sql)
        return await fetch(self, sql, *args)

    monkeypatch.setattr(SteppedDatabase, "fetch", watched)
    monkeypatch.setattr(LocalFolder, "read", None)
    # An outcome is no change of what people read, nor is the use of an entry.
    await remember(connection, "Task: x", kind="outcome", command_id=await ask(connection, "x"))
    await connection.execute("select touch_knowledge(id) from shared_knowledge")
    await replicated.once()
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert not [sql for sql in asked if "replica_entries" in sql]


async def test_killed_anywhere_it_goes_on_without_loss_or_double(
    connection: asyncpg.Connection, root: Path, database: Database
) -> None:
    step = 0
    while step < 70:
        await connection.execute(
            "delete from shared_knowledge; delete from memoryd.replica_collections; delete from memoryd.replica_changes; "
            "delete from memoryd.replica_buried; delete from memoryd.replica_section_conflicts"
        )
        folder = root / str(step)
        for title in ("Edited", "Removed", "Fought", "Theirs", "Erased"):
            await know(connection, title)
        await Replicated(folder, database).settle()
        edit(folder, CORE, "## Edited", "## Edited by me")
        without(folder, CORE, "Removed")
        text = (folder / CORE).read_text("utf-8")
        at = text.index("## Fought")
        (folder / CORE).write_text(
            text[:at] + text[at:].replace("Text.", "Mine.", 1) + "\n## Added\n\nAdded.\n"
        )
        await connection.execute(
            "update shared_knowledge set content = 'Theirs.' where title in ('Fought', 'Theirs')"
        )
        await connection.execute("delete from shared_knowledge where title = 'Erased'")
        await know(connection, "New")
        await Replicated(folder, database).killed_at(step)
        await Replicated(folder, database).settle()
        rows = await connection.fetch("select title, content from shared_knowledge order by title")
        assert [tuple(row) for row in rows] == [
            ("Added", "Added."),
            ("Edited by me", "Text."),
            ("Fought", "Mine."),
            ("New", "Text."),
            ("Theirs", "Theirs."),
        ], step
        shown = sorted((one.heading.split(" (")[0], one.body) for one in sections(folder, CORE))
        assert shown == sorted([*(tuple(row) for row in rows), ("Fought", "Theirs.")]), step
        assert await connection.fetchval("select count(*) from memoryd.replica_buried") == 1
        step += 1 + step // 10
