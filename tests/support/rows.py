"""Rows for tests, written with SQL as any client would write them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import asyncpg

DIMENSIONS = 256
HALF_PRECISION = 1e-3
"""By how much a similarity may be off: entries keep the numbers of an embedding in 16 bits."""


def embedding(*numbers: float) -> str:
    """The literal of a vector that begins with these numbers; the rest are zeros."""
    return str([*numbers, *([0.0] * (DIMENSIONS - len(numbers)))])


async def remember(connection: asyncpg.Connection, content: str, **columns: object) -> UUID:
    """Inserts a memory, alice's unless told otherwise; returns its id."""
    return await insert(connection, "agent_memory", {"agent_id": "alice", "content": content} | columns)


async def ask(connection: asyncpg.Connection, message: str, **columns: object) -> UUID:
    """Inserts a command, alice's unless told otherwise; returns its id."""
    return await insert(connection, "agent_commands", {"agent_id": "alice", "message": message} | columns)


async def associate(connection: asyncpg.Connection, one: UUID, other: UUID, strength: float) -> UUID:
    """Links a memory to another, as related."""
    values = {
        "memory_id": one,
        "related_memory_id": other,
        "association_type": "related",
        "strength": strength,
    }
    return await insert(connection, "memory_associations", values)


async def say(connection: asyncpg.Connection, session: UUID, content: str, **columns: object) -> UUID:
    """Inserts a message of a conversation, the user's unless told otherwise; returns its id."""
    values = {"session_id": session, "role": "user", "content": content} | columns
    return await insert(connection, "conversation_messages", values)


async def conclude(connection: asyncpg.Connection, text: str, confidence: float, **columns: object) -> UUID:
    """Inserts an insight, alice's unless told otherwise; returns its id."""
    values = {
        "insight": text,
        "confidence": confidence,
        "agent_id": "alice",
        "category": "pattern",
        "source_memories": [],
    }
    return await insert(connection, "dream_insights", values | columns)


async def insert(connection: asyncpg.Connection, table: str, values: dict[str, object]) -> UUID:
    """Inserts a row; returns its id."""
    places = [f"${n}::text::vector" if name == "embedding" else f"${n}" for n, name in enumerate(values, 1)]
    statement = f"insert into {table} ({', '.join(values)}) values ({', '.join(places)}) returning id"
    made: UUID = await connection.fetchval(statement, *values.values())
    return made


async def column(connection: asyncpg.Connection, sql: str, *args: object) -> Sequence[object]:
    """The first column of all rows."""
    return [row[0] for row in await connection.fetch(sql, *args)]


async def one_row(connection: asyncpg.Connection, sql: str, *args: object) -> asyncpg.Record:
    """The only row."""
    [row] = await connection.fetch(sql, *args)
    return row


async def somebody(db: asyncpg.Connection, name: str = "Rita Roe") -> UUID:
    """A user with a memory, a message and a task's worth of names."""
    user = uuid4()
    session = await insert(db, "conversation_sessions", {"user_id": user, "agent_id": "clerk"})
    await say(db, session, "My name is told", user_id=user, speaker=name)
    await remember(db, "likes tea", agent_id="clerk", user_id=user)
    return user
