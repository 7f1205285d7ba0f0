"""A row was written or its words changed, by whomever: make it findable.

Of every searchable row: its embedding, its lexemes and their weights. A row whose words change once more meanwhile keeps
nothing stale: the change's own job brings the right index. While a remote embedder is down, rows are found by their words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from uuid import UUID

from handlers.embedding import Embedding
from handlers.index_messages import MessageIndex
from handlers.index_rows import RowIndex
from handlers.index_words import learn_words
from handlers.ports import AnyConnection, Commit, Index, Job, Reader
from providers.ports import Unavailable

INDEXES: Mapping[str, Index] = MappingProxyType(
    {
        "memory": RowIndex("agent_memory", text="t.content", associated=True),
        "conversation": MessageIndex(),
        "document": RowIndex(
            "memory_chunks", text="concat_ws(E'\\n', t.context, t.chunk_text)", embedding="dense_embedding"
        ),
        "knowledge": RowIndex(
            "shared_knowledge", text="concat_ws(E'\\n', t.title, t.content, array_to_string(t.tags, ' '))"
        ),
        "insight": RowIndex("dream_insights", text="t.insight"),
    }
)
"""How the rows of each source are indexed."""


class IndexHandler:
    """A row without an index gets one."""

    def __init__(self, *, reader: Reader, embedding: Embedding) -> None:
        self._reader = reader
        self._embedding = embedding

    async def prepare(self, jobs: Sequence[Job]) -> Commit:
        """Embeds the texts. Raises Unavailable or Rejected; of rows whose embedder is unavailable the words are indexed."""
        read = {
            source: await INDEXES[source].read(self._reader, list(ids))
            for source, ids in _by_source(jobs).items()
        }
        texts = list(dict.fromkeys(text for rows in read.values() for text in rows.texts()))
        await learn_words(self._reader, texts)
        try:
            vectors = dict(zip(texts, await self._embedding.of(texts), strict=True)) if texts else {}
        except Unavailable:
            for rows in read.values():
                for statement, arguments in rows.writes({}, only=None):
                    await self._reader.execute(statement, *arguments)
            raise

        async def commit(connection: AnyConnection, ours: Sequence[Job]) -> None:
            for source, ids in _by_source(ours).items():
                for statement, arguments in read[source].writes(vectors, only=ids):
                    await connection.execute(statement, *arguments)

        return commit


def _by_source(jobs: Sequence[Job]) -> dict[str, set[UUID]]:
    refs: defaultdict[str, set[UUID]] = defaultdict(set)
    for job in jobs:
        if job.ref is not None:
            refs[str((job.payload or {}).get("source", "memory"))].add(job.ref)
    return refs
