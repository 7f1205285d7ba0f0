"""A row was written, or its words changed: make it findable.

Of every searchable row: its embedding, its lexemes and their weights. A row whose words change again
meanwhile is left to the job of that change. While a remote embedder is down, rows are found by their words.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from uuid import UUID

from handlers.indexing.messages import MessageIndex
from handlers.indexing.rows import RowIndex
from handlers.indexing.words import learn_words, unknown_words
from handlers.shared.embedding import Embedding
from handlers.shared.locked_rows import enqueue_for_later
from handlers.shared.ports import AnyConnection, Commit, Index, Job, Store
from providers.ports import Unavailable

INDEXES: Mapping[str, Index] = MappingProxyType(
    {
        "memory": RowIndex("agent_memory", associated=True),
        "conversation": MessageIndex(),
        "document": RowIndex("memory_chunks", embedding="dense_embedding"),
        "knowledge": RowIndex("shared_knowledge"),
        "insight": RowIndex("dream_insights"),
    }
)
"""How the rows of each source are indexed."""


class IndexHandler:
    """A row without an index gets one."""

    def __init__(self, *, store: Store, embedding: Embedding) -> None:
        self._store = store
        self._embedding = embedding

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds the texts. Raises Unavailable or Rejected; of rows whose embedder is unavailable the words are indexed."""
        read = {
            source: await INDEXES[source].read(self._store, of_source)
            for source, of_source in _by_source(jobs).items()
        }
        texts = list(dict.fromkeys(text for rows in read.values() for text in rows.texts()))
        words = await unknown_words(self._store, texts)
        try:
            vectors = dict(zip(texts, await self._embedding.of(texts), strict=True)) if texts else {}
        except Unavailable:
            for rows in read.values():
                async with self._store.transaction() as connection:
                    written, _ = await _write(connection, rows.writes({}, only=None))
                    await learn_words(connection, words, written)
            raise

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> set[float]:
            pauses: set[float] = set()
            all_written: list[UUID] = []
            for source, of_source in _by_source(ours).items():
                refs = {j.ref for j in of_source if j.ref is not None}
                written, locked = await _write(connection, read[source].writes(vectors, only=refs))
                all_written += written
                if locked:
                    payload = json.dumps({"source": source, "only_this_row": True})
                    pauses |= await enqueue_for_later(connection, "index", locked, of_source, payload=payload)
            await learn_words(connection, words, all_written)
            return pauses

        return commit


async def _write(
    connection: AnyConnection, statements: Iterator[tuple[str, list[object]]]
) -> tuple[list[UUID], list[UUID]]:
    """The rows that were written, and those that another transaction has locked."""
    rows = [r for sql, arguments in statements for r in await connection.fetch(sql, *arguments) if r]
    return (
        [r["id"] for r in rows if not r["locked_elsewhere"]],
        [r["id"] for r in rows if r["locked_elsewhere"]],
    )


def _by_source(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    sources: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        sources[str((job.payload or {}).get("source", "memory"))].append(job)
    return sources
