"""A backup of a database of this version: what the tests of upgrades start from, once the version is released.

    python -m tests.support.database.release VERSION.backup

It is made on the oldest Postgres, so that every server takes it. Some of its rows the daemon has worked on; others wait.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import asyncpg

from plugins.embedded.programs import find_programs
from plugins.embedded.server import EmbeddedPostgres
from plugins.operate.backup.programs import find_program
from tests.support.access.acting import ANN
from tests.support.access.users import whole_user
from tests.support.folders import quiet_port, server_folder
from tests.support.processes.commands import Commands
from tests.support.rows import ask, insert, remember, say

OLDEST = 16
WORD = "wombat"
"""In every text of the user's."""
REMEMBERED = "the certificate of the staging server is purple"


def restore(file: Path, url: str, server: int) -> str:
    """As that version made it, not upgraded: what pg_restore says."""
    program = find_program("pg_restore", server)
    ended = subprocess.run([program, f"--dbname={url}", "--no-owner", file], capture_output=True, check=False)
    return ended.stderr.decode()


async def fill(connection: asyncpg.Connection, memoryd: Commands) -> None:
    """Rows that are done with, and then rows that wait for a daemon."""
    await whole_user(connection, ANN, WORD)
    for text in (REMEMBERED, "the staging server is in Bergen", "the staging server has eight cores"):
        await remember(connection, text, agent_id="alice")
    await ask(
        connection, "deploy the staging server", status="completed", output="deployed build 512", exit_code=0
    )
    done = await memoryd("run", "--once")
    assert done.code == 0, done.err
    for number in range(20):
        await ask(connection, f"restart worker {number}", agent_id="robot")
        await ask(connection, f"deploy build {number}", status="completed", output="deployed", exit_code=0)
        await remember(connection, f"worker {number} answers slowly after a deploy", agent_id="robot")
    session = await insert(connection, "conversation_sessions", {"user_id": ANN, "agent_id": "alice"})
    await say(connection, session, "I live in Bergen and my name is Ann.", user_id=ANN)
    text = "# Staging\n\nThe certificate is renewed in March."
    await insert(connection, "documents", {"title": "Staging", "source": "manual", "content": text})
    await insert(
        connection,
        "memory_requests",
        {"kind": "recall", "query": "purple certificate", "options": json.dumps({})},
    )


async def make(target: Path) -> None:
    """Writes the file."""
    with server_folder() as folder:
        options = {"fsync": "off", "listen_addresses": ""}
        server = EmbeddedPostgres(folder, port=quiet_port(), options=options, programs=find_programs(OLDEST))
        server.start()
        try:
            memoryd = Commands(server.socket_url, folder)
            assert (await memoryd("migrate")).code == 0
            connection = await asyncpg.connect(server.socket_url)
            try:
                await fill(connection, memoryd)
            finally:
                await connection.close()
            written = await memoryd("backup", str(target))
            assert written.code == 0, written.err
        finally:
            server.stop()


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1]).resolve()))
