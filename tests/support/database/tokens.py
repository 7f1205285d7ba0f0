"""The local embedder's tokens in test databases: 20 MB, so only tests that ask for them have them.

Tests that migrate by the command line have them as users do.
"""

from __future__ import annotations

import json

import asyncpg

from daemon.db.settings import WRITE_SETTINGS
from daemon.db.tokens import KEY, load_tokens
from providers.local_tokens import fingerprint


async def leave_tokens_out(connection: asyncpg.Connection) -> None:
    """Notes them as loaded, so that a daemon does not load them; memoryd.embed() answers null."""
    await connection.execute(WRITE_SETTINGS, [KEY], [json.dumps(fingerprint())])


async def put_tokens_in(connection: asyncpg.Connection) -> None:
    """Loads them as `memoryd migrate` does."""
    await connection.execute("delete from memoryd.settings where key = $1", KEY)
    assert await load_tokens(connection)
