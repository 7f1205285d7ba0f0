"""A row in each of the sources that recall searches, to be found, changed and deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from uuid import UUID

import asyncpg

from daemon.db.migration_files import load_sources
from tests.support.rows import insert

_TEXTS = {"document": "chunk_text", "insight": "insight"}
TABLES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {source: (table, _TEXTS.get(source, "content")) for source, table in load_sources().items()}
)
"""Of each source its table, and the column that is searched."""

ROWS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "memory": {"agent_id": "alice"},
        "conversation": {"role": "user"},
        "document": {"chunk_index": 0},
        "knowledge": {"tier": "core", "category": "team", "title": "a thing", "created_by": "alice"},
        "insight": {"source_memories": [], "category": "summary", "confidence": 0.9},
    }
)
"""What a row of each source has beside its text and its parent."""


async def one_of_each(connection: asyncpg.Connection, text: str) -> dict[str, UUID]:
    """Inserts a row with this text into each source; returns their ids."""
    parents = {
        "conversation": {
            "session_id": await insert(connection, "conversation_sessions", {"title": "a talk"})
        },
        "document": {"document_id": await insert(connection, "documents", {"title": "a paper"})},
    }
    return {
        source: await insert(connection, table, {**ROWS[source], **parents.get(source, {}), column: text})
        for source, (table, column) in TABLES.items()
    }


async def own_rows(
    connection: asyncpg.Connection, user: UUID | None, text: str, *, but: Collection[str]
) -> dict[str, UUID]:
    """Inserts a row of the user's into the table of each source but these; returns the ids by table."""
    return {
        table: await insert(connection, table, {**ROWS[source], "user_id": user, column: text})
        for source, (table, column) in TABLES.items()
        if table not in but
    }


async def found(connection: asyncpg.Connection, query: str, *more: object) -> dict[str, set[UUID]]:
    """What recall finds, by source."""
    places = "".join(f", ${n}" for n in range(2, len(more) + 2))
    rows = await connection.fetch(
        f"select source, id from recall($1{places}, match_count => 1000)", query, *more
    )
    return {source: {r["id"] for r in rows if r["source"] == source} for source in TABLES}
