"""Two group chats with what is said there, and what is found of it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import asyncpg

from tests.support.access.acting import ANN, BOB, CAT, DAN, acting_as
from tests.support.access.isolation import index_world
from tests.support.content.index import entries, stale
from tests.support.database.statistics import miscounted
from tests.support.rows import column, insert, say

GARDEN, KITCHEN = UUID(int=0x6A), UUID(int=0x17)
"""Ann, Bob and Cat are members of the garden; Cat also of the kitchen. Dan is a member of none."""

LINES = {
    "ann": (ANN, GARDEN, "the tulips stand by the lantern"),
    "bob": (BOB, GARDEN, "the lantern needs a new candle"),
    "agent": (None, GARDEN, "I ordered candles for the lantern"),
    "cook": (CAT, KITCHEN, "the lantern hangs over the stove"),
}
GARDENS = {LINES[who][2] for who in ("ann", "bob", "agent")}
RECALL = "select content from recall('lantern', match_count => 100)"
FOR_USER = "select content from recall('lantern', user_id => $1, match_count => 100)"


async def join(connection: asyncpg.Connection, chat: UUID, *users: UUID) -> None:
    """Makes users members of a group."""
    for user in users:
        await insert(connection, "chat_group_members", {"chat_id": chat, "user_id": user})


async def leave(connection: asyncpg.Connection, chat: UUID, user: UUID) -> None:
    """Ends a membership."""
    await connection.execute("delete from chat_group_members where chat_id = $1 and user_id = $2", chat, user)


async def exact(connection: asyncpg.Connection) -> None:
    """Checks that each message has exactly the entries that it should have, and that their words are counted right."""
    while await connection.fetchval("select memoryd.fold_lexeme_changes()"):
        pass
    assert await stale(connection) == []
    assert await miscounted(connection) == []


async def talk(connection: asyncpg.Connection, *, indexed: bool = True) -> dict[str, UUID]:
    """Two groups with what is said there, and lines of Ann's and Dan's alone. Returns the ids of the lines."""
    for chat, name in ((GARDEN, "garden"), (KITCHEN, "kitchen")):
        await insert(connection, "chat_groups", {"id": chat, "platform": "telegram", "group_name": name})
    await join(connection, GARDEN, ANN, BOB, CAT)
    await join(connection, KITCHEN, CAT)
    said = {}
    for who, (user, chat, text) in LINES.items():
        role = "user" if user else "assistant"
        said[who] = await say(connection, chat, text, user_id=user, chat_id=chat, role=role)
    said["prompt"] = await say(connection, GARDEN, "guard the lantern", chat_id=GARDEN, role="system")
    said["alone"] = await say(connection, uuid4(), "my own lantern", user_id=ANN)
    said["stranger"] = await say(connection, uuid4(), "a stranger's lantern", user_id=DAN)
    if indexed:
        await index_world(connection)
        await exact(connection)
    return said


async def found(connection: asyncpg.Connection, user: UUID | None, sql: str = RECALL) -> list[str]:
    """What a call brings to an end user, in the order of the texts: each line once, or the test sees it."""
    async with acting_as(connection, user):
        return sorted(map(str, await column(connection, sql)))


async def snapshot(connection: asyncpg.Connection) -> Sequence[tuple[object, ...]]:
    """All entries; none is out of date."""
    await exact(connection)
    return await entries(connection)
