"""Loads the local embedder's tokens into memoryd.tokens, from which memoryd.embed() makes vectors in SQL.

Promise: one transaction, so a kill leaves the old tokens or the new; of several daemons that start at once one loads. Tokens
are loaded once, and again where the files of the package wordllama are others. Who reads meanwhile does not wait.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Sequence

import asyncpg

from daemon.db.errors import MigrationError
from daemon.db.pool import pin
from daemon.db.settings import READ_SETTING, WRITE_SETTINGS
from providers.local_embedder import NAME
from providers.local_tokens import Token, fingerprint, read_tokens

KEY = "tokens"
"""Of the setting that has the fingerprint of the loaded files."""
SECONDS = 300.0

_READY = "select to_regclass('memoryd.tokens') is not null"
_WANTED = (
    "select value #>> '{}' from memoryd.settings where key = 'embedder' and getdatabaseencoding() = 'UTF8'"
)
_LOCK = "lock table memoryd.tokens in share row exclusive mode"
_ROWS = 1_000
_BEGIN = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)


async def tokens_are_missing(connection: asyncpg.Connection) -> bool:
    """Whether the database has the local embedder, and not its tokens as installed. Raises MigrationError."""
    if not await connection.fetchval(_READY) or await connection.fetchval(_WANTED) != NAME:
        return False
    return bool(await connection.fetchval(READ_SETTING, KEY) != await _fingerprint())


async def load_tokens(connection: asyncpg.Connection) -> bool:
    """Loads the tokens where they are missing; returns whether it did. Raises MigrationError if the package is damaged."""
    if not await tokens_are_missing(connection):
        return False
    async with connection.transaction():
        await pin(connection, None)
        await connection.execute(_LOCK, timeout=SECONDS)
        # Another process may have loaded them while this one waited.
        if not await tokens_are_missing(connection):
            return False
        try:
            tokens = await asyncio.to_thread(read_tokens)
        except RuntimeError as error:
            raise MigrationError(str(error)) from error
        await connection.execute("delete from memoryd.tokens")
        await connection.copy_to_table(
            "tokens",
            schema_name="memoryd",
            columns=["token", "rank", "head", "vector"],
            source=_binary(tokens),
            format="binary",
            timeout=SECONDS,
        )
        await connection.execute("analyze memoryd.tokens", timeout=SECONDS)
        await connection.execute(WRITE_SETTINGS, [KEY], [json.dumps(await _fingerprint())])
    return True


async def _fingerprint() -> str:
    try:
        return await asyncio.to_thread(fingerprint)
    except RuntimeError as error:
        raise MigrationError(str(error)) from error


async def _binary(tokens: Sequence[Token]) -> AsyncIterator[bytes]:
    """The rows as COPY reads them: for each field its length in bytes and its value."""
    yield _BEGIN
    for start in range(0, len(tokens), _ROWS):
        yield b"".join(_row(token) for token in tokens[start : start + _ROWS])
    yield _END


def _row(token: Token) -> bytes:
    text = token.text.encode()
    vector = struct.pack(">hh", len(token.vector), 0) + token.vector.astype(">f2").tobytes()
    return b"".join(
        (
            struct.pack(">hi", 4, len(text)),
            text,
            _integer(token.rank),
            _integer(token.head),
            struct.pack(">i", len(vector)),
            vector,
        )
    )


def _integer(value: int | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">ii", 4, value)
