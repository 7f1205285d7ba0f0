"""The embedded server's own log: no content, whatever goes wrong, and it does not grow for ever."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from daemon.embedded.server import EmbeddedPostgres
from daemon.embedded.server_log import LOG_BYTES

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


async def test_the_servers_log_is_rotated_while_the_server_writes(folder: Path) -> None:
    server = EmbeddedPostgres(folder / "data", options={"shared_buffers": "16MB"})
    server.start()
    connection = await asyncpg.connect(server.socket_url)
    say = "do $$ begin for n in 1..4 loop raise log '%', repeat('x', 1000000); end loop; end $$"
    for _ in range(9):
        while server.log_path.stat().st_size <= LOG_BYTES:
            await connection.execute(say)
        server.turn_log()
        assert server.log_path.stat().st_size == 0
    await connection.execute("do $$ begin raise log 'after all that'; end $$")
    await connection.close()
    assert "after all that" in server.log_path.read_text()
    assert {p.name for p in server.log_path.parent.glob("postgres.log*")} == {
        "postgres.log",
        "postgres.log.1",
    }
    assert server.log_path.with_name("postgres.log.1").stat().st_size <= LOG_BYTES
    # By a command that only finds the server running, too.
    with server.log_path.open("ab") as log:
        log.truncate(LOG_BYTES + 1)
    assert EmbeddedPostgres(folder / "data").start() is False
    assert server.log_path.stat().st_size < LOG_BYTES
    assert server.log_path.stat().st_mode & 0o077 == 0
