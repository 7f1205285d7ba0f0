"""Entries of the team's knowledge, and what may poison a context."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tests.support.rows import insert


async def know(connection: asyncpg.Connection, title: str, content: str, **columns: object) -> UUID:
    """Inserts an entry of knowledge, sybil's unless told otherwise; returns its id."""
    values: dict[str, object] = {"tier": "core", "category": "procedure", "created_by": "sybil"}
    return await insert(
        connection, "shared_knowledge", values | {"title": title, "content": content} | columns
    )
