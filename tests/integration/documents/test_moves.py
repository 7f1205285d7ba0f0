"""Files that were taken in before and are found somewhere else now."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import asyncpg

from daemon.db.pool import Database
from plugins.documents.ingest import Ingest
from plugins.documents.ports import Parser
from plugins.documents.store import Ownership
from plugins.files.local import File
from tests.support.rows import column

LONG = "gdrive:" + "x" * 10_010


class Moved:
    """A source whose files have all been moved."""

    def look_at(self, path: Path) -> File:
        digest = (b"first" if path == Path(LONG) else b"second").ljust(32, b".")
        return File(path, datetime(2026, 1, 1, tzinfo=UTC), digest)

    def read(self, path: Path) -> tuple[bytes, File]:
        raise AssertionError(path)

    def is_there(self, name: str) -> bool:
        return False


async def test_a_path_that_is_too_long_is_refused_and_stops_no_other_file(
    connection: asyncpg.Connection, database: Database
) -> None:
    await connection.execute(
        "insert into documents (title, source, content, drop_path, file_hash, last_modified_human) "
        "select n, 'x', 'x', n, rpad(n, 32, '.')::bytea, now() from unnest(array['first', 'second']) n"
    )
    ingest = Ingest(database=database, parser=cast("Parser", None), owned=Ownership("ingest"), source=Moved())
    outcomes = [one async for one in ingest.take([Path(LONG), Path("gdrive:short")])]
    assert {one.path.name[:14]: one.result for one in outcomes} == {
        LONG[:14]: "rejected",
        "gdrive:short": "moved",
    }
    assert await column(connection, "select drop_path from documents order by 1") == ["first", "gdrive:short"]
