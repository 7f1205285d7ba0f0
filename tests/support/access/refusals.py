"""How a statement is refused."""

from __future__ import annotations

import asyncpg
import pytest


async def refused(connection: asyncpg.Connection, sql: str, *args: object) -> tuple[str, str, str]:
    """SQLSTATE, message and hint with which a statement is refused; the transaction around it goes on."""
    with pytest.raises(asyncpg.PostgresError) as raised:
        async with connection.transaction():
            await connection.fetch(sql, *args)
    return raised.value.sqlstate, raised.value.args[0], getattr(raised.value, "hint", None) or ""
