"""What is remembered, as files with a section for each entry: both ways, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from tests.support.replica.entry_files import (
    CORE,
    USER,
    append,
    bodies,
    collections,
    edit,
    know,
    path_of_user,
    sections,
    without,
)
from tests.support.replica.passes import Replicated
from tests.support.rows import column, conclude, insert, one_row, remember


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
    assert "memoryd replica conflicts --keep theirs" in text
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
