"""A row was written or its words changed, by whomever: make it findable.

Of every searchable row: its embedding, its lexemes and their weights. A row whose words change once more meanwhile keeps
nothing stale: the change's own job brings the right index. While a remote embedder is down, rows are found by their words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from uuid import UUID

from handlers.embedding import Embedding
from handlers.index_messages import MessageIndex
from handlers.index_rows import RowIndex
from handlers.index_words import learn_words, unknown_words
from handlers.ports import AnyConnection, Commit, Index, Job, Store
from providers.ports import Unavailable

INDEXES: Mapping[str, Index] = MappingProxyType(
    {
        "memory": RowIndex("agent_memory", text="t.content", associated=True),
        "conversation": MessageIndex(),
        "document": RowIndex(
            "memory_chunks",
            text="concat_ws(E'\\n', t.context, t.chunk_text)",
            embedding="dense_embedding",
        ),
        "knowledge": RowIndex(
            "shared_knowledge",
            text="concat_ws(E'\\n', t.title, t.content, array_to_string(t.tags, ' '))",
        ),
        "insight": RowIndex("dream_insights", text="t.insight"),
    }
)
"""How the rows of each source are indexed."""


SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 10.0
"""Seconds after which a row is asked for again that somebody's transaction held."""

# The age is kept, so that `memoryd status` tells of rows that have long been held.
PUT_OFF = """
insert into memoryd.jobs (topic, ref, payload, created_at, visible_at)
select 'index', h.id, jsonb_build_object('source', $1::text, 'alone', true), h.since, now() + make_interval(secs => h.pause)
from unnest($2::uuid[], $3::timestamptz[], $4::double precision[]) as h(id, since, pause)
"""


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
                written, held = await _write(connection, read[source].writes(vectors, only=refs))
                all_written += written
                if held:
                    pauses |= await _put_off(connection, source, held, of_source)
            await learn_words(connection, words, all_written)
            return pauses

        return commit


async def _write(
    connection: AnyConnection, statements: Iterator[tuple[str, list[object]]]
) -> tuple[list[UUID], list[UUID]]:
    """The rows that were written, and those that somebody's transaction holds."""
    rows = [r for sql, arguments in statements for r in await connection.fetch(sql, *arguments) if r]
    return [r["id"] for r in rows if not r["held"]], [r["id"] for r in rows if r["held"]]


async def _put_off(
    connection: AnyConnection, source: str, held: Sequence[UUID], jobs: Sequence[Job]
) -> set[float]:
    """Asks for rows again, those alone; the longer they have waited, the later. Returns the pauses, in seconds."""
    now = datetime.now(UTC)
    since = dict.fromkeys(held, now)
    for job in jobs:
        if job.ref in since:
            since[job.ref] = min(since[job.ref], job.created_at)
    pauses = [
        min(LONGEST_PAUSE, max(SHORTEST_PAUSE, round((now - one).total_seconds() / 4)))
        for one in since.values()
    ]
    await connection.execute(PUT_OFF, source, list(since), list(since.values()), pauses)
    return set(pauses)


def _by_source(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    sources: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        sources[str((job.payload or {}).get("source", "memory"))].append(job)
    return sources
