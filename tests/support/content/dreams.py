"""Memories to dream of, and asking for a dream."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.support.rows import insert, one_row, remember
from tests.support.waiting import until


async def dream(connection: asyncpg.Connection) -> dict[str, Any]:
    """Asks for a dream and waits for its report."""
    request = await insert(connection, "memory_requests", {"kind": "dream"})
    await until(
        connection, "select status <> 'pending' from memory_requests where id = $1", request, timeout=60
    )
    row = await one_row(
        connection, "select status, result, error from memory_requests where id = $1", request
    )
    assert (row["status"], row["error"]) == ("done", None)
    report: dict[str, Any] = json.loads(row["result"])
    return report


async def remember_all(
    connection: asyncpg.Connection, kind: str, contents: list[str], **columns: object
) -> list[UUID]:
    """One memory for each, over the last two days."""
    made = []
    for n, content in enumerate(contents):
        created_at = datetime.now(UTC) - timedelta(hours=46 - 40 * n / len(contents))
        made.append(await remember(connection, content, kind=kind, created_at=created_at, **columns))
    return made


async def failures(connection: asyncpg.Connection, count: int, **columns: object) -> list[UUID]:
    texts = [
        f"Task: restore the tape backup {n} → failed (exit 1)\nchecksum mismatch on tape"
        for n in range(count)
    ]
    return await remember_all(connection, "error", texts, **columns)


async def successes(connection: asyncpg.Connection, count: int, **columns: object) -> list[UUID]:
    texts = [f"Task: bake sourdough bread {n} → completed\nbread baked golden" for n in range(count)]
    return await remember_all(connection, "outcome", texts, **columns)


async def notes(connection: asyncpg.Connection, count: int, **columns: object) -> list[UUID]:
    return await remember_all(
        connection, "note", [f"heron nesting beside the pond, sighting {n}" for n in range(count)], **columns
    )
