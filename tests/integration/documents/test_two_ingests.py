"""Two who take the same files in at once do not wait for each other: whichever order they found them in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from daemon.db.pool import Database
from plugins.documents.ports import Parsed
from plugins.documents.store import Ownership, ReadFile, write
from plugins.files.local import File
from tests.support.rows import column
from tests.support.waiting import until

WAITING = """
select count(*) = $1 from pg_stat_activity
where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
"""


def read(name: str) -> ReadFile:
    file = File(Path(name), datetime(2026, 1, 1, tzinfo=UTC), name.encode().ljust(32, b"."))
    return ReadFile(file, Parsed(f"About {name}", name, "markdown", {}))


async def test_the_order_in_which_files_are_found_makes_no_deadlock(
    connection: asyncpg.Connection, second: asyncpg.Connection, database: Database
) -> None:
    """A third has written the file in the middle. Each of the two has then begun, and waits for it, or for the other."""
    a, m, z = read("a.md"), read("m.md"), read("z.md")
    third = second.transaction()
    await third.start()
    await second.execute(
        "insert into documents (title, source, content, drop_path, file_hash, last_modified_human) "
        "values ('m', 'x', 'x', 'm.md', $1, now())",
        m.file.digest,
    )
    both = []
    for number, order in enumerate(([a, m, z], [z, m, a]), 1):
        both.append(asyncio.create_task(write(database, order, Ownership("ingest"))))
        await until(connection, WAITING, number)
    await third.rollback()
    first, last = await asyncio.gather(*both)
    assert sorted(row["drop_path"] for row in [*first, *last]) == ["a.md", "m.md", "z.md"]
    assert await column(connection, "select drop_path from documents order by 1") == ["a.md", "m.md", "z.md"]
