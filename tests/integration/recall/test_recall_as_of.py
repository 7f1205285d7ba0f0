"""recall() with as_of: what stood at a time, also if it was replaced since."""

from __future__ import annotations

import json
from itertools import pairwise
from uuid import uuid4

import asyncpg

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.content.index import index_rows
from tests.support.rows import column, insert, remember, say

AS_OF = "select content from recall('where does the walrus live', user_id => $2, options => $1::jsonb) order by content"


async def at(connection: asyncpg.Connection, time: str | None, **options: object) -> list[str]:
    """What is recalled of a time."""
    given = json.dumps({"as_of": time} | options)
    return [str(c) for c in await column(connection, AS_OF, given, ANN)]


async def history(connection: asyncpg.Connection) -> None:
    """Three places of a walrus, one after the other, and a message."""
    places = ("Oslo", "Bergen", "Tromsø")
    ids = [
        await remember(connection, f"The walrus lives in {p}", user_id=ANN, kind="fact", created_at=when)
        for p, when in zip(
            places, await times(connection, "2026-01-01", "2026-03-01", "2026-05-01"), strict=True
        )
    ]
    for old, new in pairwise(ids):
        await connection.execute(
            "update agent_memory o set superseded_by = n.id, valid_to = n.created_at from agent_memory n "
            "where o.id = $1 and n.id = $2",
            old,
            new,
        )
    [april] = await times(connection, "2026-04-01")
    await say(connection, uuid4(), "The walrus lives well", user_id=ANN, created_at=april)
    for source in ("memory", "conversation"):
        await index_rows(connection, source)


async def times(connection: asyncpg.Connection, *texts: str) -> list[object]:
    """Times at midnight, UTC."""
    return list(
        await column(connection, "select (t || 'Z')::timestamptz from unnest($1::text[]) t", list(texts))
    )


async def test_a_time_brings_what_stood_then(scratch: asyncpg.Connection) -> None:
    """Nothing that came later, nothing that was replaced before; a message stands from when it was said."""
    await history(scratch)
    message = "The walrus lives well"
    assert await at(scratch, None) == ["The walrus lives in Tromsø", message]
    assert await at(scratch, "2025-12-31T00:00Z") == []
    assert await at(scratch, "2026-01-01T00:00Z") == ["The walrus lives in Oslo"]
    assert await at(scratch, "2026-02-28T23:59Z") == ["The walrus lives in Oslo"]
    assert await at(scratch, "2026-03-01T00:00Z") == ["The walrus lives in Bergen"]
    assert await at(scratch, "2026-04-02T00:00Z") == ["The walrus lives in Bergen", message]
    assert await at(scratch, "2026-05-02T00:00Z") == ["The walrus lives in Tromsø", message]
    assert await at(scratch, "infinity") == ["The walrus lives in Tromsø", message]


async def test_what_expired_and_what_was_archived_does_not_come_back(scratch: asyncpg.Connection) -> None:
    """History is what was replaced, not what was meant to be forgotten."""
    await remember(scratch, "The walrus lives here", user_id=ANN)
    await scratch.execute("update agent_memory set expires_at = now() - interval '1 second'")
    await insert(
        scratch,
        "shared_knowledge",
        {
            "tier": "working",
            "category": "project",
            "title": "walrus",
            "content": "The walrus lives",
            "created_by": "x",
            "status": "archived",
        },
    )
    for source in ("memory", "knowledge"):
        await index_rows(scratch, source)
    assert await at(scratch, "infinity") == []
    everything = "select content from recall('walrus', options => '{\"as_of\": \"infinity\"}')"
    assert await column(scratch, everything) == []


async def test_a_user_asks_for_their_own_history_alone(scratch: asyncpg.Connection) -> None:
    """Row-level security holds for what was replaced, too."""
    await history(scratch)
    for user, count in ((ANN, 1), (BOB, 0)):
        async with acting_as(scratch, user):
            found = await scratch.fetch(AS_OF, '{"as_of": "2026-02-01T00:00Z"}', None)
            assert len(found) == count
