"""A file that moved is noted before anybody is told of it: who is told may move it away, and be killed then."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from daemon.db.pool import Database
from plugins.documents.ingest import Ingest
from plugins.documents.parsing.parser import ChildParser
from plugins.documents.store import Ownership
from tests.support.rows import column


async def test_a_move_is_noted_before_it_is_told(
    connection: asyncpg.Connection, database: Database, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.md", tmp_path / "two.md"
    one.write_text("Text.")
    parser = ChildParser()
    ingest = Ingest(database=database, parser=parser, owned=Ownership(source="drop"))
    assert [outcome.result async for outcome in ingest.take([one])] == ["added"]
    one.rename(two)
    outcomes = ingest.take([two])
    assert (await anext(outcomes)).result == "moved"
    assert await column(connection, "select drop_path from documents") == [str(two)]
    await parser.close()
