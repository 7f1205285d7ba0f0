"""The embedded server's own log: no content, whatever goes wrong, and it does not grow for ever."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from plugins.embedded.server import LOG_BYTES, EmbeddedPostgres

SECRET = "hiv-positive"

# Each is refused with a message that quotes what it was given.
BAD = [
    "insert into agent_memory (agent_id, kind, content) values ('alice', $1, 'x')",
    "select $1::text::uuid",
    "select $1::text::int",
    "select ($1::text || '}')::jsonb",
    "do $$ begin raise warning 'hiv-positive'; raise exception 'hiv-positive' using detail = 'hiv-positive'; end $$",
]


def log_of(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted((folder / "data").glob("postgres.log*")))


async def test_values_of_failing_statements_are_not_in_the_servers_log(folder: Path, data: Path) -> None:
    server = EmbeddedPostgres(data)
    server.start()
    connection = await asyncpg.connect(server.socket_url)
    for statement in BAD:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(statement.replace("$1", f"'{SECRET}'"))
        assert refused.value.args
    # Memoryd's own fall-back for its audit trail, and why a session ended, are there.
    await connection.execute("do $$ begin raise log 'memoryd: admin_read of nothing'; end $$")
    await connection.close()
    log = log_of(folder)
    assert SECRET not in log
    assert "memoryd: admin_read of nothing" in log
    assert "ready to accept connections" in log


def test_a_big_log_is_moved_away_at_a_start(data: Path) -> None:
    server = EmbeddedPostgres(data)
    with server.log_path.open("ab") as log:
        log.truncate(LOG_BYTES + 1)
    server.start()
    assert server.log_path.stat().st_size < LOG_BYTES
    assert server.log_path.stat().st_mode & 0o077 == 0
    assert server.log_path.with_name("postgres.log.1").stat().st_size > LOG_BYTES
    server.stop()
