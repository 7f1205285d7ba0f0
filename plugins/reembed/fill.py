"""Filling another generation of entries with the embeddings of its model, a batch at a time.

Promise: a batch is written whole or not at all, only while the writer has the lease, and only for passages whose text is still
the one that was embedded. What is written is not embedded again: a run that was killed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import Vector

from handlers.shared.embedding import Embedding
from handlers.shared.indexing import MAX_CHARACTERS
from handlers.shared.ports import Store
from memory.passages import passages
from memory.vectors import OneVector
from providers.ports import RejectionError

Key = tuple[int, UUID, str, int]
"""Of a passage in the order of the key: scope, id, source, passage."""
START: Key = (-(2**63), UUID(int=0), "", -1)

LACKING = "select * from memoryd.lacking_passages($1, $2, $3, $4::smallint, $5, $6)"
FILL = "select memoryd.fill_generation($1, $2, $3, $4::smallint[], $5, $6)"
INDEX_AGAIN = "select memoryd.index_again($1, $2, $3)"
HOLD = "select true from memoryd.lanes where topic = 'reembed' and lane = 'build' and token = $1 for share"


class LeaseLostError(Exception):
    """Another process builds this generation now."""


@dataclass(frozen=True, slots=True)
class FillResult:
    """The result of a batch. `last`: the last key that it read; None at the end."""

    last: Key | None
    written: int


async def fill_batch(
    store: Store, embedding: Embedding, *, after: Key, maximum: int, token: int
) -> FillResult:
    """Embeds and writes the next passages that lack an embedding, about `maximum`. Raises UnavailableError or LeaseLostError.

    A text that the embedder rejects is left out: it is found by its words.
    """
    rows = await store.fetch(LACKING, *after, maximum, MAX_CHARACTERS)
    if not rows:
        return FillResult(None, 0)
    last = rows[-1]
    found: list[tuple[Any, int, str]] = []
    cut_otherwise: list[Any] = []
    for row in rows:
        if row["text"] is None:
            continue
        parts = passages(row["text"])
        if len(parts) != row["whole"]:
            cut_otherwise.append(row)
            continue
        found += [(row, number, parts[number]) for number in row["passages"]]
    vectors = await _embedded(embedding, list(dict.fromkeys(text for _, _, text in found)))
    ready = [(row, number, vectors[text]) for row, number, text in found if text in vectors]
    written = 0
    async with store.transaction() as connection:
        if not await connection.fetchval(HOLD, token):
            raise LeaseLostError
        if ready:
            written = await connection.fetchval(
                FILL,
                [row["scope"] for row, _, _ in ready],
                [row["id"] for row, _, _ in ready],
                [row["source"] for row, _, _ in ready],
                [number for _, number, _ in ready],
                [row["text_hash"] for row, _, _ in ready],
                [Vector(vector) for _, _, vector in ready],
            )
        for source in sorted({row["source"] for row in cut_otherwise}):
            mine = [row for row in cut_otherwise if row["source"] == source]
            await connection.execute(
                INDEX_AGAIN, source, [row["id"] for row in mine], [row["scope"] for row in mine]
            )
    return FillResult((last["scope"], last["id"], last["source"], max(last["passages"])), written)


async def _embedded(embedding: Embedding, texts: Sequence[str]) -> dict[str, OneVector]:
    if not texts:
        return {}
    try:
        return dict(zip(texts, await embedding.of(texts), strict=True))
    except RejectionError:
        if len(texts) == 1:
            return {}
    half = len(texts) // 2
    return await _embedded(embedding, texts[:half]) | await _embedded(embedding, texts[half:])
