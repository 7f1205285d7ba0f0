"""What the statements of the replica have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from daemon.db.pool import Database

REFUSALS = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)
"""The errors of the database for a text that it refuses."""

T = TypeVar("T")


def columns_of(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as arrays, one for each argument of a statement."""
    return [list(column) for column in zip(*rows, strict=True)]


class Statements:
    """Runs statements as the daemon that keeps the replica."""

    def __init__(self, database: Database, daemon: UUID) -> None:
        self._database = database
        self._daemon = daemon

    async def write(self, statement: str, rows: Sequence[tuple[Any, ...]], *more: object) -> list[Any]:
        """Writes these rows, if there are any; returns the result.

        The arguments: the daemon's id, an array for each column, and `more`.
        """
        if not rows:
            return []
        rows_of: list[Any] = await self._database.fetch(statement, self._daemon, *columns_of(rows), *more)
        return rows_of


async def accepted(
    work: Callable[[Sequence[T]], Awaitable[list[Any]]], things: Sequence[T], refused: Callable[[T], None]
) -> list[Any]:
    """Writes in one statement; if the database refuses a text, in halves, so that only this text is left out."""
    try:
        return await work(things)
    except REFUSALS:
        if len(things) == 1:
            refused(things[0])
            return []
        half = len(things) // 2
        return [*await accepted(work, things[:half], refused), *await accepted(work, things[half:], refused)]
