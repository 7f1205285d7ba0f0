"""Files that are too long, or whose times are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import asyncpg
import pytest

from plugins.replica.rules.sections import read_sections
from tests.support.replica.entry_files import CORE, know
from tests.support.replica.passes import Replicated
from tests.support.rows import column, one_row


async def test_a_file_of_entries_that_is_too_long_for_a_document_is_read_all_the_same(
    connection: asyncpg.Connection, replicated: Replicated, root: Path
) -> None:
    await know(connection, "One")
    await replicated.settle()
    path = root / CORE
    long = "A very long line. " * 700_000
    path.write_text(
        path.read_text("utf-8").replace("Text.", "Mine.") + f"## Long\n\n{long}\n\n## Short\n\nShort.\n"
    )
    await replicated.settle()
    assert path.stat().st_size > 10_000_000
    assert await column(connection, "select path from memoryd.replica_left_out") == [CORE]
    rows = await connection.fetch("select title, content from shared_knowledge order by title")
    assert [tuple(row) for row in rows] == [("One", "Mine."), ("Short", "Short.")]
    said = read_sections(path.read_bytes())
    assert said is not None
    assert [(one.heading, one.id is None) for one in said.sections] == [
        ("One", False),
        ("Long", True),
        ("Short", False),
    ]
    assert said.sections[1].body.strip() == long.strip()


@pytest.mark.parametrize("seconds", [-1e9, 0, 4e9, 1e10])
async def test_times_that_are_wrong_stop_no_edit_and_are_taken_for_none(
    connection: asyncpg.Connection, replicated: Replicated, root: Path, seconds: float
) -> None:
    for text in ("First.", "Second."):
        (root / "a.md").write_text(text)
        os.utime(root / "a.md", (seconds, seconds))
        await replicated.settle()
        row = await one_row(
            connection,
            "select content, last_modified_human between 'epoch' and now() as sane from documents",
        )
        assert (row["content"], row["sane"]) == (text, True)
    (root / "a.md").unlink()
    await replicated.settle()
    assert await column(connection, "select status from documents") == ["deleted"]
