"""A row was written, or its words changed: make it findable. And its lexemes are counted in, so that recall knows
which words are rare where.

Of every searchable row the passages are written into memoryd.entries, with their embeddings, lexemes and weights. A row whose
words change again meanwhile is left to the job of that change. While a remote embedder is down, rows are found by their words.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from pgvector import Vector

from handlers.shared.embedding import Embedding
from handlers.shared.indexing import (
    RowToIndex,
    is_again,
    learn_words,
    read_rows,
    texts_of,
    unknown_words,
    write_rows,
)
from handlers.shared.ports import AnyConnection, Commit, Job, Store, enqueue_for_later
from memory.vectors import OneVector
from providers.ports import UnavailableError

MAX_CHANGES = 5_000
"""Statements' changes that one transaction counts in."""

FOLD = "select memoryd.fold_lexeme_changes($1)"
MORE = "insert into memoryd.jobs (topic, lane) values ('statistics', 'lexemes')"


class IndexHandler:
    """A row without entries gets them."""

    def __init__(self, *, store: Store, embedding: Embedding) -> None:
        self._store = store
        self._embedding = embedding

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds the passages. Raises UnavailableError (the words of such rows are indexed) or RejectionError."""
        # Read before the vectors are: should the model change meanwhile, the older name is refused.
        embedder = self._embedding.name
        read: Mapping[str, Sequence[RowToIndex]] = {
            source: await read_rows(self._store, source, of_source)
            for source, of_source in _by_source(jobs).items()
        }
        texts = list(dict.fromkeys(text for rows in read.values() for text in texts_of(rows)))
        words = await unknown_words(self._store, texts)
        vectors: dict[str, OneVector | Vector] = {}
        try:
            if texts:
                vectors = dict(zip(texts, await self._embedding.of(texts), strict=True))
        except UnavailableError:
            for source, rows in read.items():
                async with self._store.transaction() as connection:
                    written = await write_rows(connection, source, rows, vectors={}, embedder=None)
                    await learn_words(connection, words, written.rows)
            raise

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> set[float]:
            pauses: set[float] = set()
            found_by_words: list[tuple[UUID, int]] = []
            for source, of_source in _by_source(ours).items():
                refs = {j.ref for j in of_source if j.ref is not None}
                written = await write_rows(
                    connection, source, read[source], vectors=vectors, embedder=embedder, only=refs
                )
                found_by_words += written.rows
                if written.locked:
                    again = {"again": True} if any(map(is_again, of_source)) else {}
                    payload = json.dumps({"source": source} | again)
                    pauses |= await enqueue_for_later(
                        connection, "index", written.locked, of_source, payload=payload
                    )
            await learn_words(connection, words, found_by_words)
            return pauses

        return commit


class StatisticsHandler:
    """Changes are counted in, many at once."""

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        async def commit(connection: AnyConnection, _ours: Sequence[Job]) -> None:
            if await connection.fetchval(FOLD, MAX_CHANGES) == MAX_CHANGES:
                await connection.execute(MORE)

        return commit


def _by_source(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    sources: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        sources[str((job.payload or {}).get("source", "memory"))].append(job)
    return sources
