"""What the statements of the replica have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

REFUSALS = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)
"""What the database says of a text that it does not take."""

T = TypeVar("T")
R = TypeVar("R")


def columns_of(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as arrays, one for each argument of a statement."""
    return [list(column) for column in zip(*rows, strict=True)]


async def accepted(
    work: Callable[[Sequence[T]], Awaitable[R]], things: Sequence[T], refused: Callable[[T], None]
) -> list[R]:
    """Does it in one statement; if the database refuses a text, in halves, so that only that one is left out."""
    if not things:
        return []
    try:
        return [await work(things)]
    except REFUSALS:
        if len(things) == 1:
            refused(things[0])
            return []
        half = len(things) // 2
        return [
            *await accepted(work, things[:half], refused),
            *await accepted(work, things[half:], refused),
        ]
