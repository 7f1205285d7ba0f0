"""What a server writes into its own log, for tests that say what stands there and what never does."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest


class ServerLog:
    """The log of the embedded server behind a connection, from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._from = path.stat().st_size

    def text(self) -> str:
        """All that was written since, by every session."""
        with self._path.open("rb") as log:
            log.seek(self._from)
            return log.read().decode("utf-8", "replace")

    def audit_lines(self, login_pid: int) -> list[str]:
        """The lines of the audit that one session caused."""
        found = [line for line in self.text().splitlines() if "memoryd: audit " in line]
        return [line for line in found if f'"pid": {login_pid},' in line]


_IS_SUPERUSER = "select rolsuper from pg_roles where rolname = session_user"
_MAY_SET = """
select pg_advisory_xact_lock(hashtext('rights to parameters'));
grant set on parameter log_min_messages, log_min_error_statement, log_error_verbosity to {role}
"""


async def server_log(connection: asyncpg.Connection, admin: asyncpg.Connection) -> ServerLog:
    """The log from now on, as a server with Postgres's own settings writes it for this session: with the statement.

    Where it lies, and how a session is logged, is the superuser's to say (`admin`). Skips the test on a server whose log is
    out of reach.
    """
    path = Path(await admin.fetchval("show data_directory")).parent / "postgres.log"
    if not path.is_file():
        pytest.skip("the server's log is out of reach")
    if not await connection.fetchval(_IS_SUPERUSER):
        async with admin.transaction():
            await admin.execute(_MAY_SET.format(role=await connection.fetchval("select session_user")))
    await connection.execute(
        "set log_min_messages = warning; set log_min_error_statement = error; set log_error_verbosity = default"
    )
    return ServerLog(path)
