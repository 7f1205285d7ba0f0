"""A user's folder shows the user's name beside the id: the id says whose it is, whatever stands behind it."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from tests.support.replica.entry_files import USER, append, bodies, is_called
from tests.support.replica.passes import Replicated
from tests.support.rows import column, conclude, insert, one_row, remember


async def write(connection: asyncpg.Connection, title: str) -> UUID:
    """A document of the user."""
    return await insert(
        connection, "documents", {"title": title, "content": "Text.", "status": "active", "user_id": USER}
    )


def folders(root: Path) -> list[str]:
    """The folders of users."""
    return sorted(path.name for path in (root / "users").iterdir()) if (root / "users").exists() else []


async def test_a_name_that_is_known_stands_beside_the_id(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await is_called(connection, "Zoë")
    await conclude(connection, "Likes tea.", 0.9, user_id=USER)
    await remember(connection, "Likes cake.", user_id=USER, kind="fact")
    await write(connection, "Diary")
    await remember(connection, "Of somebody else", user_id=UUID(int=7))
    await replicated.settle()
    assert folders(root) == [str(UUID(int=7)), f"{USER} Zoë"]
    home = root / f"users/{USER} Zoë"
    assert {str(path.relative_to(home)) for path in home.rglob("*.md")} == {
        "memories.md",
        "insights.md",
        "documents/documents/Diary.md",
    }
    # What people put there is the user's, too.
    (home / "mine.md").write_text("Mine.", "utf-8")
    append(root, f"users/{USER} Zoë/memories.md", "\n## fact\n\nLikes rain.\n")
    await replicated.settle()
    assert await column(connection, "select user_id from documents order by title") == [USER, USER]
    row = await one_row(connection, "select user_id from agent_memory where content = 'Likes rain.'")
    assert row["user_id"] == USER


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("../../etc", f"{USER} -..-etc"),
        (f"/ {UUID(int=9)}", f"{USER} - {UUID(int=9)}"),
        ("a\u202eb/CON", f"{USER} a b-CON"),
        ("\u200b", str(USER)),
        ("🦩" * 400, f"{USER} {'🦩' * 48}"),
    ],
)
async def test_a_name_stays_inside_the_users_folder(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, name: str, folder: str
) -> None:
    await is_called(connection, name)
    await write(connection, "Diary")
    await replicated.settle()
    assert folders(root) == [folder]
    await Replicated(root, replicated.database).settle()
    assert folders(root) == [folder]


async def test_a_guest_who_speaks_for_a_user_names_nobody(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await is_called(connection, "Tom", speaker="tom's friend")
    await is_called(connection, "Zoë", speaker="Zoë")
    await is_called(connection, "Guest", speaker="somebody")
    await write(connection, "Diary")
    await replicated.settle()
    assert folders(root) == [f"{USER} Zoë"]


async def test_a_name_that_is_learned_or_changes_later_moves_no_file(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await write(connection, "Before")
    await replicated.settle()
    await is_called(connection, "Mia")
    await write(connection, "Between")
    await replicated.settle()
    await is_called(connection, "Zoë")
    await write(connection, "After")
    await Replicated(root, replicated.database).settle()
    assert folders(root) == [str(USER)]
    assert len(list(root.glob("users/**/*.md"))) == 3
    assert await connection.fetchval("select count(*) from documents") == 3


async def test_a_person_who_renames_the_folder_loses_and_doubles_nothing(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    documents = [await write(connection, "Diary")]
    memory = await remember(connection, "Likes tea.", user_id=USER, kind="fact")
    await replicated.settle()
    for before, after in (
        (f"{USER}", f"{USER} Mia, the gardener"),
        (f"{USER} Mia, the gardener", f"{USER} Ann"),
    ):
        (root / "users" / before).rename(root / "users" / after)
        documents.append(await write(connection, f"Written to {after[37:]}"))
        await conclude(connection, after, 0.9, user_id=USER)
        report = await replicated.settle()
        assert report.asked == report.asked_entries == report.copies == report.counts["added"] == 0
        assert folders(root) == [after]
    assert set(await column(connection, "select id from documents where status = 'active'")) == set(documents)
    assert await column(connection, "select id from agent_memory") == [memory]
    assert len(bodies(root, f"users/{USER} Ann/insights.md")) == 2
    # Also under an id alone again.
    (root / "users" / f"{USER} Ann").rename(root / "users" / str(USER))
    assert (await replicated.settle()).counts["moved"] == 5
    assert await column(connection, "select count(*) from documents where user_id = $1", USER) == [3]


async def test_after_an_erasure_no_folder_has_the_name(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await is_called(connection, "Zoë")
    await write(connection, "Diary")
    await replicated.settle()
    await connection.execute("select erase_user_memory($1)", USER)
    await write(connection, "A new one")
    await replicated.settle()
    assert folders(root) == [str(USER)]


async def test_a_name_that_is_learned_while_daemons_are_killed_makes_no_second_file(
    connection: asyncpg.Connection, root: Path, database: Database
) -> None:
    for number in range(3):
        await write(connection, f"Diary {number}")
    await remember(connection, "Likes tea.", user_id=USER, kind="fact")
    step = 1
    while await Replicated(root, database).killed_at(step):
        if step % 7 == 0:
            await is_called(connection, f"Mia {step}")
        step += 1
    await Replicated(root, database).settle()
    assert sorted(path.name for path in root.glob("users/**/*.md")) == [
        "Diary 0.md",
        "Diary 1.md",
        "Diary 2.md",
        "memories.md",
    ]
    assert await connection.fetchval("select count(*) from documents") == 3
