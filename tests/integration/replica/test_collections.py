"""What is remembered, as files with a section for each entry: both ways, and nothing lost."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from daemon.replica.folder import FolderUnavailable
from daemon.replica.local_folder import LocalFolder
from memory.replica_sections import Section, read_sections
from tests.support.replica import Replicated, SteppedDatabase
from tests.support.rows import ask, column, conclude, insert, one_row, remember

USER = UUID("00000000-0000-0000-0000-0000000000aa")
CORE = "knowledge/core.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the replica is."""
    return tmp_path / "replica"


@pytest.fixture
async def replicated(root: Path, database: Database) -> Replicated:
    """An empty replica."""
    made = Replicated(root, database)
    await made.settle()
    return made


async def know(connection: asyncpg.Connection, title: str, content: str = "Text.", **columns: object) -> UUID:
    """An entry of the team's knowledge, of tier core unless told otherwise."""
    values = {"title": title, "content": content, "tier": "core", "category": "team", "created_by": "planner"}
    return await insert(connection, "shared_knowledge", values | columns)


def sections(root: Path, path: str) -> list[Section]:
    """The sections of a file."""
    said = read_sections((root / path).read_bytes())
    assert said is not None
    return said.sections


async def test_knowledge_is_a_file_that_is_kept_both_ways(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    trains = await know(connection, "Trains", "Take the train.")
    await know(connection, "Hotels", "Two stars.")
    await replicated.settle()
    text = (root / CORE).read_text("utf-8")
    first = sections(root, CORE)[0]
    assert (first.id, first.heading, first.body) == (trains, "Trains", "Take the train.")
    hotels = text.index("## Hotels")
    (root / CORE).write_text(
        text[:hotels].replace("Take the train.", "Take the night train.") + "## Coats\n\nBring one.\n"
    )
    report = await replicated.settle()
    assert report.counts["taken"] == report.counts["added"] == report.counts["deleted"] == 1
    rows = await connection.fetch(
        "select title, content, tier, last_modified_human is not null from shared_knowledge order by created_at"
    )
    assert [tuple(row) for row in rows] == [
        ("Trains", "Take the night train.", "core", True),
        ("Coats", "Bring one.", "core", True),
    ]
    coats = await connection.fetchval("select id from shared_knowledge where title = 'Coats'")
    assert [one.id for one in sections(root, CORE)] == [trains, coats]
    await connection.execute("update shared_knowledge set content = 'Bring two.' where title = 'Coats'")
    await replicated.settle()
    assert sections(root, CORE)[1].body == "Bring two."
    assert await column(connection, "select title from documents") == []


def path_of_user(name: str) -> str:
    """A file of the user's."""
    return f"users/{USER}/{name}.md"


def edit(root: Path, path: str, old: str, new: str) -> None:
    """A person replaces words in a file."""
    text = (root / path).read_text("utf-8")
    assert old in text, text
    (root / path).write_text(text.replace(old, new), "utf-8")


def append(root: Path, path: str, text: str) -> None:
    """A person writes at the end of a file."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    with (root / path).open("a", encoding="utf-8") as file:
        file.write(text)


def without(root: Path, path: str, *headings: str) -> None:
    """A person deletes the sections whose heading or text contains one of these words."""
    above, *some = (root / path).read_text("utf-8").split("\n## ")
    kept = [one for one in some if not any(words in one for words in headings)]
    assert len(kept) <= len(some) - len(headings)
    (root / path).write_text("\n## ".join([above, *kept]), "utf-8")


def bodies(root: Path, path: str) -> list[str]:
    """The texts of a file's sections."""
    return [one.body for one in sections(root, path)]


def collections(root: Path) -> set[str]:
    """The paths of the files of entries."""
    found = {str(path.relative_to(root)) for path in root.rglob("*.md")}
    return {path for path in found if "/" in path and not path.startswith("documents/")}


async def test_each_entry_is_in_the_file_where_a_person_looks_for_it(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    org = UUID(int=5)
    await know(connection, "Core")
    await know(connection, "Learnt", tier="learning", org_id=org)
    await know(connection, "Done", tier="working", status="resolved")
    await know(connection, "Old", status="archived")
    await remember(connection, "Likes tea.", kind="fact")
    await remember(connection, "Saw a bird.", kind="observation")
    await remember(connection, "Keeps a bird.", kind="observation", ttl_hours=None)
    await remember(connection, "For a day.", kind="note", ttl_hours=24)
    await remember(connection, "For all.", agent_id="_shared")
    await remember(connection, "Bob's.", agent_id="bob/../x", kind="goal")
    await remember(connection, "About her.", user_id=USER)
    await conclude(connection, "Birds sing.", 0.7)
    await conclude(connection, "All sing.", 0.7, agent_id=None)
    await conclude(connection, "She sings.", 0.7, user_id=USER)
    await replicated.settle()
    assert {path: bodies(root, path) for path in collections(root)} == {
        "knowledge/core.md": ["Text."],
        f"knowledge/{org}/learning.md": ["Text."],
        "knowledge/working.md": ["Text."],
        "agents/alice/memories.md": ["Likes tea.", "Keeps a bird.", "For a day."],
        "agents/_shared/memories.md": ["For all."],
        "agents/bob-..-x/memories.md": ["Bob's."],
        "agents/alice/insights.md": ["Birds sing."],
        "agents/_shared/insights.md": ["All sing."],
        path_of_user("memories"): ["About her."],
        path_of_user("insights"): ["She sings."],
    }
    index = (root / "Index.md").read_text("utf-8")
    assert "[Knowledge: core](<knowledge/core.md>)" in index
    assert "[Memories of alice](<agents/alice/memories.md>)" in index
    assert str(USER) not in index
    assert [one.heading.split(",")[0] for one in sections(root, path_of_user("memories"))] == [
        "note of alice"
    ]
    assert ("status", "resolved") in sections(root, "knowledge/working.md")[0].notes
    assert await column(connection, "select title from documents") == []


async def test_what_is_no_longer_current_leaves_its_file(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    for number in range(4):
        await remember(connection, f"Memory {number}.", kind="fact")
    await know(connection, "Old")
    await replicated.settle()
    await connection.execute("delete from agent_memory where content = 'Memory 0.'")
    await connection.execute("update agent_memory set expires_at = now() where content = 'Memory 1.'")
    await connection.execute(
        "update agent_memory set kind = 'outcome', ttl_hours = 1 where content = 'Memory 2.'"
    )
    await connection.execute("update shared_knowledge set status = 'archived'")
    report = await replicated.settle()
    assert bodies(root, "agents/alice/memories.md") == ["Memory 3."]
    assert not (root / CORE).exists()
    assert report.counts["deleted"] == 0
    await connection.execute("delete from agent_memory")
    await know(connection, "New")
    await replicated.settle()
    assert collections(root) == {CORE}


async def test_a_person_adds_entries_of_each_kind(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await remember(connection, "Likes tea.", kind="fact")
    await remember(connection, "About her.", user_id=USER)
    await conclude(connection, "Birds sing.", 0.7)
    await replicated.settle()
    append(
        root, "agents/alice/memories.md", "\n## goal\n\nDrink less tea.\n\n## Ann's birthday\n\n12 March\n"
    )
    append(root, path_of_user("memories"), "## She likes trains\n")
    append(root, "agents/alice/insights.md", "## correction\nBirds do not sing.\n")
    append(root, "knowledge/learning.md", "Above.\n\n## Trains\n<!-- category: decision -->\nTake them.\n")
    append(root, "agents/new one/memories.md", "## fact\n\nIs new.\n")
    report = await replicated.settle()
    assert report.counts["added"] == 6
    rows = await connection.fetch(
        "select agent_id, user_id, kind, content, ttl_hours from agent_memory where source = 'replica' order by content"
    )
    assert [tuple(row) for row in rows] == [
        ("alice", None, "fact", "Ann's birthday\n\n12 March", None),
        ("alice", None, "goal", "Drink less tea.", None),
        ("new one", None, "fact", "Is new.", None),
        ("_shared", USER, "fact", "She likes trains", None),
    ]
    knowledge = await one_row(connection, "select tier, category, title, content from shared_knowledge")
    assert tuple(knowledge) == ("learning", "decision", "Trains", "Take them.")
    insight = "select agent_id, category from dream_insights where insight = 'Birds do not sing.'"
    assert tuple(await one_row(connection, insight)) == ("alice", "correction")
    for path in collections(root):
        assert all(one.id is not None for one in sections(root, path))
    # The text above the first section is the person's.
    assert (root / "knowledge/learning.md").read_text("utf-8").startswith("Above.\n")
    assert (await replicated.settle()).counts["written"] == 0


async def test_of_what_both_sides_changed_both_are_kept_and_each_way_out_works(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    titles = ("One", "Two", "Three", "Four", "Five")
    for title in titles:
        await know(connection, title)
    await replicated.settle()
    edit(root, CORE, "\nText.", "\nMine.")
    await connection.execute("update shared_knowledge set content = 'Theirs.'")
    assert (await replicated.settle()).counts["conflicts"] == 5
    assert bodies(root, CORE) == ["Mine.", "Theirs."] * 5
    assert set(await column(connection, "select content from shared_knowledge")) == {"Mine."}
    text = (root / CORE).read_text("utf-8")
    assert text.count("(conflict, 20") == 5
    assert "memoryd conflicts --keep theirs" in text
    # One: its conflict is deleted. Two: its own section. Three and Four: by command. Five: stays, changed.
    above, *some = text.split("\n## ")
    assert some[1].startswith("One (conflict")
    assert some[2].startswith("Two\n")
    some[9] = some[9].replace("Theirs.", "Theirs, changed.")
    (root / CORE).write_text("\n## ".join([above, some[0], *some[3:]]), "utf-8")
    for title, command in (
        ("Three", "take_section_conflict(c.id)"),
        ("Four", "end_section_conflicts(array[c.id])"),
    ):
        await connection.execute(
            f"select memoryd.{command} from memoryd.replica_section_conflicts c where c.title = $1", title
        )
    await replicated.settle()
    rows = await connection.fetch("select title, content from shared_knowledge order by created_at")
    assert [tuple(row) for row in rows] == [
        ("One", "Mine."),
        ("Two", "Theirs."),
        ("Three", "Theirs."),
        ("Four", "Mine."),
        ("Five", "Mine."),
    ]
    assert sorted(bodies(root, CORE)) == sorted(
        ["Mine.", "Theirs.", "Theirs.", "Mine.", "Mine.", "Theirs, changed."]
    )
    assert await column(connection, "select body from memoryd.replica_section_conflicts") == [
        "Theirs, changed."
    ]


async def test_a_deleted_section_is_restored_by_command_or_by_undoing_it(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    ids = [await know(connection, title, tags=["x"]) for title in ("One", "Two", "Three")]
    note = await remember(connection, "Likes tea.", kind="note", ttl_hours=24)
    await replicated.settle()
    text = (root / CORE).read_text("utf-8")
    without(root, CORE, "One", "Two")
    (root / "agents/alice/memories.md").write_text("nothing\n")
    assert (await replicated.settle()).counts["deleted"] == 2
    assert await column(connection, "select id from shared_knowledge") == [ids[2]]
    assert await connection.fetchval("select memoryd.restore_entry($1)", ids[0])
    assert not await connection.fetchval("select memoryd.restore_entry($1)", ids[0])
    await replicated.settle()
    assert [one.heading for one in sections(root, CORE)] == ["Three", "One"]
    (root / CORE).write_text(text.replace("Text.", "Words."), "utf-8")
    await replicated.settle()
    rows = await connection.fetch("select id, content, tags from shared_knowledge order by created_at")
    assert [tuple(row) for row in rows] == [(one, "Words.", ["x"]) for one in ids]
    # A file without any of its sections, and without the line by which it is known, is most likely a mistake.
    assert await column(connection, "select id from agent_memory") == [note]
    await connection.execute("update memoryd.replica set deletions_confirmed_at = clock_timestamp()")
    await replicated.settle()
    assert await column(connection, "select id from agent_memory") == []
    assert await connection.fetchval("select memoryd.purge_entries(30)") == 0
    await connection.execute("update memoryd.replica_buried set deleted_at = now() - interval '31 days'")
    assert await connection.fetchval("select memoryd.purge_entries(30)") == 1


async def test_sections_move_between_files_on_either_side(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    ids = [await know(connection, title) for title in ("One", "Two", "Three")]
    await know(connection, "Other", tier="learning")
    await replicated.settle()
    text = (root / CORE).read_text("utf-8")
    one = text[text.index("## One") : text.index("## Two")]
    without(root, CORE, "One")
    append(root, "knowledge/learning.md", one.replace("Text.", "A lesson."))
    # At the same time an agent moves another one.
    await connection.execute("update shared_knowledge set tier = 'working' where title = 'Two'")
    report = await replicated.settle()
    assert (report.counts["deleted"], report.counts["added"]) == (0, 0)
    rows = await connection.fetch(
        "select id, tier, content from shared_knowledge where id = any($1) order by title", ids
    )
    assert [tuple(row) for row in rows] == [
        (ids[0], "learning", "A lesson."),
        (ids[2], "core", "Text."),
        (ids[1], "working", "Text."),
    ]
    assert [s.heading for s in sections(root, CORE)] == ["Three"]
    assert [s.heading for s in sections(root, "knowledge/working.md")] == ["Two"]
    # A copy is a new entry.
    append(root, "knowledge/working.md", one)
    await replicated.settle()
    assert await connection.fetchval("select count(*) from shared_knowledge where title = 'One'") == 2


async def test_a_section_that_is_copied_while_its_file_is_moved_is_a_copy(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    trains = await know(connection, "Trains", "By day.")
    await know(connection, "Hotels", tier="working")
    await replicated.settle()
    section = (root / CORE).read_text("utf-8").partition("\n## ")[2]
    (root / CORE).rename(root / "knowledge/our core.md")
    append(root, "knowledge/working.md", f"\n## {section}")
    await replicated.settle()
    rows = await connection.fetch("select id, title, tier from shared_knowledge order by tier, title")
    assert [tuple(row)[1:] for row in rows] == [
        ("Trains", "core"),
        ("Hotels", "working"),
        ("Trains", "working"),
    ]
    assert rows[0]["id"] == trains
    assert [one.id for one in sections(root, "knowledge/our core.md")] == [trains]


@pytest.mark.parametrize("is_first", [True, False])
async def test_of_two_sections_with_the_same_id_the_one_with_a_text_is_the_entry(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, is_first: bool
) -> None:
    trains = await know(connection, "Trains", "By day.")
    await replicated.settle()
    above, _, own = (root / CORE).read_text("utf-8").partition("\n## ")
    heading = own.partition("\n\n")[0]
    both = [heading, own.replace("By day.", "By night.")]
    (root / CORE).write_text("\n## ".join([above, *(both if is_first else reversed(both))]), "utf-8")
    await replicated.settle()
    rows = await connection.fetch("select id, content from shared_knowledge")
    assert [tuple(row) for row in rows] == [(trains, "By night.")]
    shown = {one.body: one.id for one in sections(root, CORE)}
    assert shown == {"By night.": trains, "": None}


async def test_an_entry_of_a_user_does_not_move_to_another_by_its_id(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    memory = await remember(connection, "About her.", user_id=USER)
    await remember(connection, "Likes tea.", kind="fact")
    await replicated.settle()
    section = (root / path_of_user("memories")).read_text("utf-8").partition("\n## ")[2]
    append(root, "agents/alice/memories.md", f"\n## {section}")
    other = UUID(int=7)
    append(root, f"users/{other}/memories.md", f"## {section}")
    await replicated.settle()
    rows = await connection.fetch("select user_id, id = $1 from agent_memory order by created_at", memory)
    assert tuple(rows[0]) == (USER, True)
    assert {tuple(row) for row in rows[2:]} == {(None, False), (other, False)}


async def test_many_sections_gone_at_once_wait_for_a_yes(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    for number in range(20):
        await know(connection, f"Number {number:02}", f"Text {number:02}.")
    for number in range(3):
        await remember(connection, f"Memory {number}", kind="fact")
    await replicated.settle()
    text = (root / CORE).read_text("utf-8")
    without(root, CORE, *(f"Number {number:02}" for number in range(11)))
    edit(root, CORE, "Text 19.", "A person's.")
    (root / "agents/alice/memories.md").unlink()
    report = await replicated.settle()
    assert (report.asked_entries, report.counts["deleted"]) == (14, 0)
    assert (
        await connection.fetchval("select count(*) from shared_knowledge where content = 'A person''s.'") == 1
    )
    assert await connection.fetchval("select sum(missing) from memoryd.replica_collections") == 14
    # The sections are back: nobody is asked any more.
    (root / CORE).write_text(text.replace("Text 19.", "A person's."), "utf-8")
    assert (await replicated.settle()).asked_entries == 3
    without(root, CORE, *(f"Number {number:02}" for number in range(11)))
    await replicated.settle()
    await connection.execute("update memoryd.replica set deletions_confirmed_at = clock_timestamp()")
    assert (await replicated.settle()).counts["deleted"] == 14
    assert len(sections(root, CORE)) == 9
    assert not (root / "agents/alice/memories.md").exists()
    assert await connection.fetchval("select sum(missing) from memoryd.replica_collections") == 0


async def test_a_large_collection_has_parts_and_a_new_entry_changes_the_last_one(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await connection.execute(
        "insert into agent_memory (agent_id, kind, content, created_at) "
        "select 'alice', 'fact', 'Memory ' || n, now() - interval '1 hour' + n * interval '1 second' "
        "from generate_series(1, 1201) n"
    )
    await replicated.settle()
    paths = ["agents/alice/memories.md", "agents/alice/memories 2.md", "agents/alice/memories 3.md"]
    assert [len(sections(root, path)) for path in paths] == [500, 500, 201]
    assert bodies(root, paths[1])[0] == "Memory 501"
    before = [(root / path).stat().st_mtime_ns for path in paths]
    await remember(connection, "One more.", kind="fact")
    await connection.execute("delete from agent_memory where content = 'Memory 1201'")
    await replicated.settle()
    assert [(root / path).stat().st_mtime_ns for path in paths[:2]] == before[:2]
    assert bodies(root, paths[2])[-2:] == ["Memory 1200", "One more."]


async def test_an_erasure_deletes_files_sections_and_what_could_bring_them_back(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, database: Database
) -> None:
    hers = [await remember(connection, f"About her {number}.", user_id=USER) for number in range(3)]
    await remember(connection, "Likes tea.", kind="fact")
    await conclude(connection, "Drawn from hers.", 0.7, source_memories=[hers[0]])
    await conclude(connection, "Deleted, and drawn from hers.", 0.7, source_memories=[hers[0]])
    await know(connection, "Hers", created_by=str(USER))
    await know(connection, "Ours")
    await replicated.settle()
    path = path_of_user("memories")
    without(root, path, "About her 0")
    without(root, "agents/alice/insights.md", "Deleted, and")
    edit(root, path, "About her 1.", "Mine.")
    await connection.execute("update agent_memory set content = 'Theirs.' where content = 'About her 1.'")
    await replicated.settle()
    assert await connection.fetchval("select count(*) from memoryd.replica_buried") == 2
    # While no daemon runs a person writes into these files, moves one and copies it; then the user is erased.
    edit(root, path, "About her 2.", "About her 2, changed.")
    edit(root, CORE, "## Hers", "## Still hers")
    append(root, path, "## fact\n\nNew about her.\n")
    (root / "users" / str(USER) / "copy.md").write_bytes((root / path).read_bytes())
    (root / path).rename(root / "moved.md")
    await connection.execute("select erase_user_memory($1)", USER)
    assert await connection.fetchval("select count(*) from memoryd.replica_buried") == 0
    assert await connection.fetchval("select count(*) from memoryd.replica_section_conflicts") == 0
    await Replicated(root, database).settle()
    assert collections(root) == {CORE, "agents/alice/memories.md"}
    assert not (root / "moved.md").exists()
    assert [one.heading for one in sections(root, CORE)] == ["Ours"]
    assert not (root / "users").exists() or not list((root / "users").iterdir())
    assert await connection.fetchval("select count(*) from agent_memory") == 1
    assert (
        await connection.fetchval(
            "select count(*) from memoryd.replica_collections where user_id is not null"
        )
        == 0
    )
    # What is remembered about the user from now on has a file again.
    await remember(connection, "Back.", user_id=USER)
    await Replicated(root, database).settle()
    assert bodies(root, path) == ["Back."]


async def test_what_is_forgotten_goes_and_what_expires_stays_where_a_person_wrote_into_it(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    ids = [await remember(connection, f"Memory {number}.", kind="fact") for number in range(4)]
    await replicated.settle()
    path = "agents/alice/memories.md"
    edit(root, path, "Memory 0.", "Changed 0.")
    edit(root, path, "Memory 2.", "Changed 2.")
    await connection.execute("select forget($1)", ids[:2])
    await connection.execute("delete from agent_memory where id = any($1)", ids[2:])
    await replicated.settle()
    assert bodies(root, path) == ["Changed 2."]
    assert await column(connection, "select content from agent_memory") == ["Changed 2."]


async def test_memory_that_is_off_is_not_written_out(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    path = path_of_user("memories")
    for number in range(2):
        await remember(connection, f"About her {number}.", user_id=USER)
    await replicated.settle()
    await connection.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", USER)
    await replicated.settle()
    assert not (root / path).exists()
    assert await connection.fetchval("select count(*) from agent_memory") == 2
    # What a person writes there meanwhile stays what it is.
    append(root, path, "## fact\n\nWritten.\n")
    await replicated.settle()
    assert bodies(root, path) == ["Written."]
    assert await connection.fetchval("select count(*) from agent_memory") == 2
    await connection.execute("update memory_settings set memory_enabled = true")
    await replicated.settle()
    assert set(bodies(root, path)) == {"Written.", "About her 0.", "About her 1."}


async def test_a_file_is_followed_where_a_person_moves_it_and_a_copy_is_left_alone(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await know(connection, "One")
    await remember(connection, "About her.", user_id=USER)
    await replicated.settle()
    (root / CORE).rename(root / "What we know.md")
    (root / "copy.md").write_bytes((root / path_of_user("memories")).read_bytes())
    await replicated.settle()
    await connection.execute("update shared_knowledge set content = 'New.'")
    await connection.execute("update agent_memory set content = 'New.'")
    await replicated.settle()
    assert bodies(root, "What we know.md") == bodies(root, path_of_user("memories")) == ["New."]
    assert not (root / CORE).exists()
    assert bodies(root, "copy.md") == ["About her."]
    assert await column(connection, "select title from documents") == []
    assert "What%20we%20know.md" in (root / "Index.md").read_text("utf-8")


async def test_a_document_that_is_where_a_collection_would_be_stays_a_document(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await insert(connection, "documents", {"title": "Core", "content": "A document.", "status": "active"})
    await replicated.settle()
    (root / "knowledge").mkdir()
    (root / "documents/documents/Core.md").rename(root / CORE)
    await replicated.settle()
    await know(connection, "One")
    await replicated.settle()
    assert await column(connection, "select replica_path from documents") == [CORE]
    assert "A document." in (root / CORE).read_text("utf-8")
    assert bodies(root, "knowledge/core 2.md") == ["Text."]


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
    await connection.execute("select memoryd.rewrite_replica(), memoryd.rewrite_collections()")
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
    deadline = time.monotonic() + 20
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


async def test_a_file_of_an_erased_user_goes_though_it_is_no_text(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await remember(connection, "likes trains", kind="fact", user_id=USER)
    await replicated.settle()
    file = root / path_of_user("memories")
    file.write_bytes(file.read_bytes() + "Ein Zug fährt\n".encode("latin-1"))
    await replicated.settle()
    await connection.execute("select erase_user_memory($1)", USER)
    await replicated.settle()
    assert not file.exists()


async def test_many_sections_that_are_gone_from_many_files_are_asked_about(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    agents = [f"agent {n}" for n in range(8)]
    for agent in agents:
        for n in range(5):
            await remember(connection, f"fact {n}", kind="fact", agent_id=agent)
    await replicated.settle()
    for agent in agents:
        file = root / f"agents/{agent}/memories.md"
        file.write_text(file.read_text("utf-8").partition("\n## ")[0] + "\n", "utf-8")
    report = await replicated.settle()
    assert report.asked_entries > 0
    assert await connection.fetchval("select count(*) from agent_memory") >= 28


async def test_texts_of_conflicts_stay_while_memory_is_off(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await remember(connection, "likes trains", kind="fact", user_id=USER)
    await replicated.settle()
    edit(root, path_of_user("memories"), "likes trains", "likes night trains")
    await connection.execute("update agent_memory set content = 'likes planes'")
    await replicated.settle()
    assert sorted(bodies(root, path_of_user("memories"))) == ["likes night trains", "likes planes"]
    await connection.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", USER)
    await replicated.settle()
    await connection.execute("update memory_settings set memory_enabled = true")
    await replicated.settle()
    assert sorted(bodies(root, path_of_user("memories"))) == ["likes night trains", "likes planes"]
