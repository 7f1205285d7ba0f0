"""A row in each of the five sources that recall searches, to be found, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

import asyncpg

from tests.support.rows import insert

TABLES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "memory": ("agent_memory", "content"),
        "conversation": ("conversation_messages", "content"),
        "document": ("memory_chunks", "chunk_text"),
        "knowledge": ("shared_knowledge", "content"),
        "insight": ("dream_insights", "insight"),
    }
)
"""Of each source its table, and the column that is searched."""


async def one_of_each(connection: asyncpg.Connection, text: str) -> dict[str, UUID]:
    """Inserts a row with this text into each source; returns their ids."""
    session = await insert(connection, "conversation_sessions", {"title": "a talk"})
    document = await insert(connection, "documents", {"title": "a paper"})
    values: dict[str, dict[str, object]] = {
        "memory": {"agent_id": "alice"},
        "conversation": {"session_id": session, "role": "user"},
        "document": {"document_id": document, "chunk_index": 0},
        "knowledge": {"tier": "core", "category": "team", "title": "a thing", "created_by": "alice"},
        "insight": {"source_memories": [], "category": "summary", "confidence": 0.9},
    }
    return {
        source: await insert(connection, table, values[source] | {column: text})
        for source, (table, column) in TABLES.items()
    }


async def found(connection: asyncpg.Connection, query: str, *more: object) -> dict[str, set[UUID]]:
    """What recall finds, by source."""
    places = "".join(f", ${n}" for n in range(2, len(more) + 2))
    rows = await connection.fetch(
        f"select source, id from recall($1{places}, match_count => 1000)", query, *more
    )
    return {source: {r["id"] for r in rows if r["source"] == source} for source in TABLES}
