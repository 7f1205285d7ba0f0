"""What is remembered, as files with a section for each entry: both ways, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from daemon.db.pool import Database
from memory.replica_sections import Section, read_sections
from tests.support.replica import Replicated
from tests.support.rows import column, insert

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
