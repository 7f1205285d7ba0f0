"""A window of time that has few rows is read by itself, however many rows of other times have the same words."""

from __future__ import annotations

import json

import asyncpg
import pytest

from tests.support.content.index import index_all

ROWS = 1500
TEXT = "the office coffee machine was cleaned again"
SEED = """
insert into agent_memory (agent_id, kind, content, created_at)
select 'alice', 'note', $1, timestamptz '2026-03-01' + n * interval '1 minute' from generate_series(1, $2) n
"""
READ = """
select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
from pg_stat_xact_user_tables where relid = 'memoryd.entries'::regclass
"""
RECALL = "select id, created_at from recall($1, agent_id => 'alice', match_count => 50, options => $2)"


async def read_by(connection: asyncpg.Connection, window: dict[str, str]) -> tuple[int, int]:
    """Rows that are found, and rows of the index that were read for them."""
    async with connection.transaction():
        before = await connection.fetchval(READ) or 0
        found = await connection.fetch(RECALL, TEXT, json.dumps(window))
        return len(found), (await connection.fetchval(READ) or 0) - before


@pytest.mark.usefixtures("tokens")
async def test_a_window_with_few_rows_reads_few(connection: asyncpg.Connection) -> None:
    await connection.execute(SEED, TEXT, ROWS)
    await index_all(connection)
    # One of those in the last window has not been embedded yet.
    await connection.execute(
        "update memoryd.entries set embedding = null where created_at = '2026-03-01T00:11:00Z'"
    )
    await connection.execute("vacuum analyze memoryd.entries")

    found, whole = await read_by(connection, {})
    assert found == 50
    assert whole > 300
    for window, rows in (
        ({"since": "2001-01-01", "until": "2001-02-01"}, 0),
        ({"since": "2030-01-01"}, 0),
        ({"until": "2026-03-01"}, 0),
        ({"since": "2026-03-01T00:09:30Z", "until": "2026-03-01T00:13:30Z"}, 4),
    ):
        found, read = await read_by(connection, window)
        assert found == rows, window
        assert read < 300, (window, read)
    # Of a window with many rows the best are looked for, as ever.
    found, _ = await read_by(connection, {"since": "2026-03-01", "until": "2026-03-01T20:00:00Z"})
    assert found == 50
