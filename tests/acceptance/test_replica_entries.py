"""What is remembered in the replica, with a real daemon: entries appear as sections, and what people do with these happens."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from tests.acceptance.test_replica import appears, text_of
from tests.support.access.acting import ANN
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import insert, remember
from tests.support.waiting import IDLE, until

FOUND = "select exists (select from recall($1, agent_id => 'alice') r where r.content = $2)"


async def test_people_read_and_change_what_is_remembered(
    connection: asyncpg.Connection, daemons: Daemons, memoryd: Commands, tmp_path: Path
) -> None:
    root = tmp_path / "replica"
    daemon = await daemons.start(replica=root)
    memory = await remember(connection, "The office has a zebra.", kind="fact")
    about_ann = await remember(connection, "Ann likes tea.", user_id=ANN)
    known: dict[str, object] = {
        "title": "Trains",
        "content": "Take the train.",
        "tier": "core",
        "category": "team",
        "created_by": "a",
    }
    trains = await insert(connection, "shared_knowledge", known)
    own, core = root / "agents/alice/memories.md", root / "knowledge/core.md"
    written = await appears(own, with_text="The office has a zebra.")
    assert str(memory) in written
    await appears(core, with_text="## Trains")
    await appears(root / f"users/{ANN}/memories.md", with_text="Ann likes tea.")
    await appears(root / "Index.md", with_text="[Memories of alice]")
    assert await until(connection, IDLE)

    # An edit is found at once; an addition becomes an entry and gets its id.
    own.write_text(written.replace("zebra", "giraffe") + "\n## goal\n\nFeed the giraffe.\n")
    assert await until(connection, FOUND, "Which animal does the office have?", "The office has a giraffe.")
    added = await until(
        connection, "select id from agent_memory where content = 'Feed the giraffe.' and kind = 'goal'"
    )
    await appears(own, with_text=str(added))

    # A deletion, and the way back.
    text = text_of(core)
    core.write_text(text[: text.index("## Trains")])
    assert await until(connection, "select count(*) = 0 from shared_knowledge")
    status = (await memoryd("replica", "--json")).json
    assert (status["entries"], status["deleted_sections"]) == (3, 1)
    assert [one["id"] for one in status["deleted_entries"]] == [str(trains)]
    assert "Trains" in (await memoryd("replica")).out
    assert (await memoryd("replica", "undelete", str(trains))).code == 0
    await appears(core, with_text=str(trains))
    assert "no deleted document or entry" in (await memoryd("replica", "undelete", str(trains))).err

    # Both sides at once.
    await daemon.stop()
    core.write_text(text_of(core).replace("Take the train.", "Mine."))
    await connection.execute("update shared_knowledge set content = 'Theirs.'")
    await connection.execute("select erase_user_memory($1)", ANN)
    daemon = await daemons.start(replica=root)
    await appears(core, with_text="## Trains (conflict, ")
    [listed] = (await memoryd("replica", "conflicts", "--json")).json
    assert (listed["entry_id"], listed["path"]) == (str(trains), "knowledge/core.md")
    assert "knowledge/core.md" in (await memoryd("replica", "conflicts")).out
    assert (await memoryd("replica", "conflicts", "--keep", "theirs", listed["id"])).code == 0
    assert await until(connection, "select content = 'Theirs.' from shared_knowledge")
    assert "no conflict" in (await memoryd("replica", "conflicts")).out

    # The user who was erased meanwhile is gone from the folder; a file that is gone asks.
    assert not (root / "users" / str(ANN)).exists()
    assert not await connection.fetchval("select exists (select from agent_memory where id = $1)", about_ann)
    own.unlink()
    await daemon.event("replica_entries_wait", entries=2)
    assert "2 entries gone at once" in (await memoryd("replica")).out
    checks = (await memoryd("doctor", "--json", replica=root)).json
    assert ("replica", "warning") in {(check["name"], check["verdict"]) for check in checks}
    assert (await memoryd("replica", "--confirm-deletions")).code == 0
    assert await until(connection, "select count(*) = 0 from agent_memory")
    for words in ("giraffe", "Trains", "Theirs", "tea"):
        assert words not in daemon.text()


async def test_what_is_being_written_as_the_replica_begins_comes_into_it(
    connection: asyncpg.Connection, second: asyncpg.Connection, daemons: Daemons, tmp_path: Path
) -> None:
    root = tmp_path / "replica"
    ships: dict[str, object] = {
        "title": "Ships",
        "content": "Take the ship.",
        "tier": "core",
        "category": "team",
        "created_by": "a",
    }
    async with second.transaction():
        await insert(second, "shared_knowledge", ships)
        await remember(connection, "The office has a zebra.", kind="fact")
        await daemons.start(replica=root)
        await appears(root / "agents/alice/memories.md", with_text="The office has a zebra.")
    await appears(root / "knowledge/core.md", with_text="## Ships")
