"""Entries that leave their files: deleted, erased, forgotten, expired, or of a user who switched memory off."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import asyncpg

from daemon.db.pool import Database
from tests.support.access.acting import acting_as
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
from tests.support.rows import column, conclude, remember


async def test_a_deleted_section_is_restored_by_command_or_by_undoing_it(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    ids = [await know(connection, title, tags=["x"]) for title in ("One", "Two", "Three")]
    of_before = {"memory_type": "brand_memory", "metadata": '{"tone": 5}'}
    note = await remember(connection, "Likes tea.", kind="note", ttl_hours=24, **of_before)
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
    # Also where its metadata would be refused today.
    undone = connection.transaction()
    await undone.start()
    await connection.execute("insert into memoryd.settings values ('metadata_schemas', '\"refuse\"')")
    assert await connection.fetchval("select memoryd.restore_entry($1)", note)
    await undone.rollback()
    assert await connection.fetchval("select memoryd.purge_entries(30)") == 0
    await connection.execute("update memoryd.replica_buried set deleted_at = now() - interval '31 days'")
    assert await connection.fetchval("select memoryd.purge_entries(30)") == 1


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


async def test_a_user_forgets_no_section_of_another_user(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    ids = [
        await remember(connection, f"About her {number}.", user_id=USER, kind="fact") for number in range(2)
    ]
    await replicated.settle()
    path = path_of_user("memories")
    for number in range(2):
        edit(root, path, f"About her {number}.", f"Changed {number}.")
    await connection.execute("delete from agent_memory where id = any($1)", ids)
    for user, one in ((uuid4(), ids[0]), (USER, ids[1])):
        async with acting_as(connection, user):
            assert await connection.fetchval("select forget(array[$1::uuid])", one) == 0
    await replicated.settle()
    assert bodies(root, path) == ["Changed 0."]


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


async def test_a_file_over_that_of_other_entries_deletes_none(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await know(connection, "One", "One.")
    await know(connection, "Two", "Two.", tier="learning")
    await replicated.settle()
    (root / "knowledge/learning.md").rename(root / CORE)
    assert (await replicated.settle()).asked_entries == 0
    assert {path: bodies(root, path) for path in collections(root)} == {
        CORE: ["Two."],
        "knowledge/core 2.md": ["One."],
    }


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


async def test_while_a_person_is_asked_each_new_section_becomes_one_entry(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    for number in range(16):
        await know(connection, f"Number {number:02}", f"Text {number:02}.")
    await replicated.settle()
    text = (root / CORE).read_text("utf-8")
    copy = text[text.index("## Number 13") : text.index("## Number 14")]
    without(root, CORE, *(f"Number {number:02}" for number in range(12)))
    edit(root, CORE, "Text 15.", "A person's.")
    append(root, CORE, f"\n{copy}\n## Added\n\nAdded.\n")
    await connection.execute("delete from shared_knowledge where title = 'Number 15'")
    report = await replicated.settle()
    assert (report.asked_entries, report.counts["added"]) == (12, 3)
    assert not any((await replicated.once()).counts.values())
    await connection.execute("update memoryd.replica set deletions_confirmed_at = clock_timestamp()")
    await replicated.settle()
    expected = ["A person's.", "Added.", "Text 12.", "Text 13.", "Text 13.", "Text 14."]
    assert sorted(bodies(root, CORE)) == expected
    assert await column(connection, "select content from shared_knowledge order by content") == expected
