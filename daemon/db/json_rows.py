"""Rows as JSON, given to Postgres in arrays of bounded length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

BATCH_LENGTH = 4_000_000
"""Characters of rows that are sent at once; a longer row is sent by itself."""


def batches(lines: Iterable[str], *, rows: int) -> Iterator[str]:
    """Rows of JSON, a line each, as arrays: of this many rows at most, and of one longer row alone."""
    batch: list[str] = []
    length = 0
    for line in lines:
        if batch and (len(batch) >= rows or length + len(line) > BATCH_LENGTH):
            yield f"[{','.join(batch)}]"
            batch, length = [], 0
        batch.append(line)
        length += len(line)
    if batch:
        yield f"[{','.join(batch)}]"
