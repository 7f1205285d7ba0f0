"""Rows of which the database may refuse some: each is left out by itself, and stops no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

T = TypeVar("T")


async def accepted(
    write: Callable[[Sequence[T]], Awaitable[list[Any]]], rows: Sequence[T]
) -> tuple[list[Any], list[tuple[T, str]]]:
    """Writes rows in one statement; if the database refuses it, in halves. Returns what `write` did, and what is refused, each
    with the reason and what to do.
    """
    if not rows:
        return [], []
    try:
        return await write(rows), []
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        if len(rows) == 1:
            return [], [(rows[0], f"{error.args[0]}. {getattr(error, 'hint', None) or ''}".strip())]
    half = len(rows) // 2
    first, refused = await accepted(write, rows[:half])
    second, others = await accepted(write, rows[half:])
    return first + second, refused + others
