"""Texts of entries that lost against another change: what a person wrote into their sections is kept, however they end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from daemon.db.pool import Database
from plugins.replica.store.entries import CHANGE_CONFLICTS, CollectionsStore
from tests.support.replica.entry_files import CORE, USER, append, bodies, edit, know, sections, without
from tests.support.replica.passes import Replicated
from tests.support.rows import column, remember

CONTENTS = "select content from shared_knowledge order by content"


async def _fight(connection: asyncpg.Connection, replicated: Replicated, root: Path) -> None:
    """A person and an agent change one entry."""
    await know(connection, "One", category="decision")
    await replicated.settle()
    edit(root, CORE, "\nText.", "\nMine.")
    await connection.execute("update shared_knowledge set content = 'Theirs.'")


async def test_what_a_person_wrote_into_a_conflict_stays_when_an_agent_deletes_the_entry(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await _fight(connection, replicated, root)
    await replicated.settle()
    edit(root, CORE, "\nTheirs.", "\nTheirs, changed.")
    await connection.execute("delete from shared_knowledge")
    await replicated.settle()
    rows = await connection.fetch("select category, title, content from shared_knowledge")
    assert [tuple(row) for row in rows] == [("decision", "One", "Theirs, changed.")]
    assert bodies(root, CORE) == ["Theirs, changed."]
    assert await column(connection, "select body from memoryd.replica_section_conflicts") == []


async def test_conflicts_of_an_entry_that_an_agent_deletes_go_when_no_person_wrote_into_them(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await _fight(connection, replicated, root)
    await replicated.settle()
    await connection.execute("delete from shared_knowledge")
    await replicated.settle()
    assert await column(connection, CONTENTS) == []
    assert not (root / CORE).exists()


@pytest.mark.parametrize(
    "ending",
    [
        "delete from shared_knowledge",
        "select memoryd.end_section_conflicts(array_agg(c.id)) from memoryd.replica_section_conflicts c",
    ],
)
async def test_what_a_person_wrote_into_a_conflict_that_ends_at_that_moment_stays(
    connection: asyncpg.Connection,
    replicated: Replicated,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    await _fight(connection, replicated, root)
    await replicated.settle()
    edit(root, CORE, "\nTheirs.", "\nTheirs, changed.")
    write = CollectionsStore.write

    async def too_late(store: CollectionsStore, statement: str, *args: Any) -> list[Any]:
        if statement == CHANGE_CONFLICTS:
            monkeypatch.undo()
            await connection.execute(ending)
        return await write(store, statement, *args)

    monkeypatch.setattr(CollectionsStore, "write", too_late)
    await replicated.settle()
    assert "Theirs, changed." in bodies(root, CORE)
    assert bodies(root, CORE) == await column(connection, CONTENTS)
    assert await column(connection, "select body from memoryd.replica_section_conflicts") == []


async def test_a_conflict_that_nobody_has_seen_stays_when_a_person_deletes_the_section(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, database: Database
) -> None:
    await _fight(connection, replicated, root)
    step = 0
    while not await column(connection, "select body from memoryd.replica_section_conflicts"):
        assert await Replicated(root, database).killed_at(step)
        step += 1
    assert bodies(root, CORE) == ["Mine."]
    without(root, CORE, "One")
    await Replicated(root, database).settle()
    assert await column(connection, CONTENTS) == ["Theirs."]
    assert bodies(root, CORE) == ["Theirs."]


@pytest.mark.parametrize("is_changed", [False, True])
async def test_texts_of_conflicts_of_what_is_forgotten_or_erased_do_not_come_back(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, is_changed: bool
) -> None:
    path = "agents/alice/memories.md"
    memory = await remember(connection, "Memory.", kind="fact")
    await know(connection, "Hers", created_by=str(USER))
    await replicated.settle()
    edit(root, path, "Memory.", "Mine.")
    edit(root, CORE, "\nText.", "\nMine.")
    await connection.execute("update agent_memory set content = 'Theirs.'")
    await connection.execute("update shared_knowledge set content = 'Theirs.'")
    await replicated.settle()
    assert bodies(root, path) == bodies(root, CORE) == ["Mine.", "Theirs."]
    if is_changed:
        edit(root, path, "Theirs.", "Theirs, changed.")
        edit(root, CORE, "Theirs.", "Theirs, changed.")
    opened = {file: (root / file).read_bytes().replace(b"irs", b"irs?") for file in (path, CORE)}
    await connection.execute("select forget($1)", [memory])
    await connection.execute("select erase_user_memory($1)", USER)
    texts = await column(connection, "select title || body from memoryd.replica_section_conflicts")
    assert texts == ["", ""]
    await replicated.settle()
    assert await column(connection, CONTENTS) == []
    assert await connection.fetchval("select count(*) from agent_memory") == 0
    assert await column(connection, "select id from memoryd.replica_section_conflicts") == []
    assert not (root / path).exists()
    assert not (root / CORE).exists()
    # Nor with a program that had the files open, and saves them changed.
    for file, content in opened.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)
    await replicated.settle()
    assert await column(connection, CONTENTS) == []
    assert await connection.fetchval("select count(*) from agent_memory") == 0


async def test_who_saves_an_old_copy_changes_only_what_they_touched(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    ids = {title: await know(connection, title, f"{title}.") for title in ("Mine", "Theirs", "Both", "Gone")}
    await replicated.settle()
    opened = (root / CORE).read_text("utf-8")
    await connection.execute(
        "update shared_knowledge set content = content || ' By an agent.' where title in ('Theirs', 'Both')"
    )
    await connection.execute("delete from shared_knowledge where title = 'Gone'")
    await know(connection, "New", "New.")
    await replicated.settle()
    touched = opened.replace("Mine.", "Mine. By a person.").replace("Both.", "Both. By a person.")
    rows = "select title || ': ' || content from shared_knowledge order by title"
    lost = "select body from memoryd.replica_section_conflicts where not ended"
    # The second time it is the same program that saves what it still has open.
    for number in range(2):
        (root / CORE).write_text(touched.replace("Mine.", f"Mine {number}."), "utf-8")
        await replicated.settle()
        assert await column(connection, rows) == [
            "Both: Both. By a person.",
            f"Mine: Mine {number}. By a person.",
            "New: New.",
            "Theirs: Theirs. By an agent.",
        ]
        assert await column(connection, lost) == ["Both. By an agent."]
    assert {one.id for one in sections(root, CORE) if one.conflict is None} >= {ids["Mine"], ids["Theirs"]}
    # What a person deletes in a copy that is not old is deleted.
    without(root, CORE, "New")
    await replicated.settle()
    assert len(await column(connection, rows)) == 3


async def test_a_section_that_is_missing_in_an_old_copy_keeps_what_a_person_wrote_since(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await _fight(connection, replicated, root)
    await replicated.settle()
    opened = (root / CORE).read_text("utf-8")
    edit(root, CORE, "\nMine.", "\nAnother person's.")
    edit(root, CORE, "\nTheirs.", "\nTheirs, changed.")
    await replicated.settle()
    (root / CORE).write_text(opened, "utf-8")
    without(root, CORE, "One")
    await replicated.settle()
    assert bodies(root, CORE) == ["Another person's.", "Theirs, changed."]
    without(root, CORE, "One")
    await replicated.settle()
    assert await column(connection, CONTENTS) == []


async def test_a_conflict_goes_with_an_entry_that_is_moved_in_an_old_copy(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await _fight(connection, replicated, root)
    await know(connection, "Other", "Other.", tier="learning")
    await know(connection, "Last", "Last.")
    opened = (root / CORE).read_text("utf-8")
    await replicated.settle()
    (root / CORE).write_text(opened, "utf-8")
    without(root, CORE, "One")
    append(root, "knowledge/learning.md", "\n## One" + opened.partition("## One")[2])
    await replicated.settle()
    assert bodies(root, "knowledge/learning.md") == ["Other.", "Mine.", "Theirs."]
    assert bodies(root, CORE) == ["Last."]


async def test_an_old_copy_with_a_conflict_that_is_over_brings_it_not_back(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await _fight(connection, replicated, root)
    await replicated.settle()
    opened = (root / CORE).read_text("utf-8")
    await connection.execute(
        "select memoryd.end_section_conflicts(array_agg(id)) from memoryd.replica_section_conflicts"
    )
    await replicated.settle()
    (root / CORE).write_text(opened, "utf-8")
    await replicated.settle()
    assert bodies(root, CORE) == ["Mine."]


async def test_files_of_an_earlier_version_get_hashes_and_nothing_else_changes(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await know(connection, "One")
    await know(connection, "Two")
    await replicated.settle()
    old = re.sub(r", version \d+|, hash: \w+", "", (root / CORE).read_text("utf-8"))
    (root / CORE).write_text(old.replace("Text.", "Mine.", 1), "utf-8")
    await connection.execute("update memoryd.replica_collections set version = 0")
    await replicated.settle()
    assert await column(connection, "select content from shared_knowledge order by title") == [
        "Mine.",
        "Text.",
    ]
    assert await column(connection, "select body from memoryd.replica_section_conflicts") == []
    assert all(one.began for one in sections(root, CORE))
