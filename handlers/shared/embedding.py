"""Embeds texts, asking a remote embedder for no text twice; and asks recall as well as it can be asked.

recall() called directly searches only by words, unless the caller gives an embedding; `memoryd recall` and the requests add it
here, and the words near to words that are new.

Promise: an answer that was paid for is kept before anything else happens, so a crash between the slow half and the
commit half costs nothing. A local embedder is quicker than the look-up and is simply asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from pgvector import Vector

from handlers.shared.ports import Reader
from memory.calibration import Calibration
from memory.vectors import rows_of
from providers.ports import Embedder, RejectionError, UnavailableError, Vectors

Key = TypeVar("Key")

PATIENCE_SECONDS = 2.0
"""How long a context waits for a remote embedder."""

LOOK_UP = """
update memoryd.embeddings e
set used_at = now()
from unnest($2::bytea[]) as h(content_hash)
where e.embedder = $1 and e.content_hash = h.content_hash and vector_dims(e.embedding) = $3
returning e.content_hash, e.embedding
"""

KEEP = """
insert into memoryd.embeddings as e (embedder, content_hash, embedding)
select $1, h.content_hash, h.embedding
from unnest($2::bytea[], $3::vector[]) as h(content_hash, embedding)
order by h.content_hash
on conflict (embedder, content_hash) do update
set embedding = excluded.embedding, used_at = now()
where vector_dims(e.embedding) <> vector_dims(excluded.embedding)
"""

READ = "select text, words, lexemes from memoryd.read_question($1, $2, $3)"
NEAR = "select memoryd.near_words($1, $2)"
SEARCH = """
select s.*, extract(epoch from now() - s.created_at)::float8 as seconds
from memoryd.search(memoryd.recall_request($9, $2, $3, $4, $5, $6, $7, '{}', $1, $8)) s
"""


async def calibration_of(reader: Reader) -> Calibration:
    (found,) = await reader.fetch("select background, unit, spread from memoryd.calibration()")
    return Calibration(found["background"], found["unit"], found["spread"])


def embedding_of(memory: str) -> str:
    """SQL: a table of one row with the embedding of a memory, by the name of its table; of several passages their mean."""
    its = f"n.scope = {memory}.scope and n.id = {memory}.id and n.source = 'memory' and n.code is not null"
    read = "select avg(n.embedding)::vector as embedding from memoryd.entries n"
    return f"({read} where {its})"


class Embedding:
    def __init__(self, embedder: Embedder, reader: Reader) -> None:
        self._embedder = embedder
        self._reader = reader

    @property
    def name(self) -> str:
        """The embedder's: provider and model."""
        return self._embedder.name

    @property
    def is_measured(self) -> bool:
        """Whether its background is measured: the thresholds were found with the local embedder."""
        return not self._embedder.name.startswith("local/")

    async def of(self, texts: Sequence[str], *, asked: bool = False) -> Vectors:
        """Unit vectors, shape (len(texts), dimensions); `asked`: of questions. Raises UnavailableError or RejectionError."""
        instructions = self._embedder.instructions
        before = instructions.query if asked else instructions.document
        if before:
            texts = [before + text for text in texts]
        if not self._embedder.remote:
            return await self._embedder.embed(texts)
        name = self._embedder.name
        hashes = [hashlib.sha256(t.encode("utf-8", "replace")).digest() for t in texts]
        wanted = dict(zip(hashes, texts, strict=True))
        known = {
            r["content_hash"]: r["embedding"]
            for r in await self._reader.fetch(LOOK_UP, name, sorted(wanted), self._embedder.dimensions)
        }
        missing = [h for h in wanted if h not in known]
        if missing:
            vectors = await self._embedder.embed([wanted[h] for h in missing])
            known.update(zip(missing, vectors, strict=True))
            await self._reader.execute(KEEP, name, missing, [Vector(v) for v in vectors])
        return rows_of([v.to_numpy() if isinstance(v := known[h], Vector) else v for h in hashes])

    async def by_key(self, texts: Mapping[Key, str], *, asked: bool = False) -> dict[Key, Vector]:
        """As `of`, by any key, ready to be a query's argument."""
        vectors = await self.of(list(texts.values()), asked=asked) if texts else ()
        return {key: Vector(vector) for key, vector in zip(texts, vectors, strict=True)}

    async def if_possible(
        self, texts: Mapping[Key, str], *, asked: bool = False, patience: float | None = PATIENCE_SECONDS
    ) -> dict[Key, Vector]:
        """As `by_key`, or empty when the embedder does not answer within `patience` or will not take one of the texts.

        For those who would rather go on by words than wait.
        """
        try:
            async with asyncio.timeout(patience):
                return await self.by_key(texts, asked=asked)
        except (UnavailableError, RejectionError, TimeoutError):
            return {}

    async def if_local(self, texts: Mapping[Key, str]) -> dict[Key, Vector]:
        """As `if_possible`, but empty at once when the embedder is a remote one."""
        return {} if self._embedder.remote else await self.if_possible(texts)


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of memoryd.search() for a question."""

    text: str
    embedding: Vector | None
    near: str | None
    """A JSON array, see memoryd.question()."""
    by_words: bool = False
    """Whether it has no embedding because the embedder does not answer."""


class Questions:
    def __init__(self, *, reader: Reader, embedding: Embedding, words: Embedder) -> None:
        self._reader = reader
        self._embedding = embedding
        self._words = words

    @property
    def embedder(self) -> str:
        """The embedder's name: provider and model."""
        return self._embedding.name

    async def read(self, text: str, *, agent: str | None = None, user: UUID | None = None) -> Question:
        """The question with its embedding, where the embedder answers in time, and its new words' neighbours."""
        (row,) = await self._reader.fetch(READ, text, agent, user)
        asked = {0: row["text"]} if row["text"] else {}
        found, near = await asyncio.gather(
            self._embedding.if_possible(asked, asked=True), self._near(row["words"], row["lexemes"])
        )
        return Question(text, found.get(0), near, by_words=asked != {} and not found)

    async def _near(self, words: Sequence[str] | None, lexemes: Sequence[str] | None) -> str | None:
        if not words:
            return None
        vectors = await self._words.embed(words)
        (answer,) = await self._reader.fetch(NEAR, lexemes, [Vector(v) for v in vectors])
        found: str | None = answer[0]
        return found


async def search(
    reader: Reader,
    question: Question,
    *,
    agent: str | None = None,
    user: UUID | None = None,
    count: int = 10,
    sources: Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
    explained: bool = False,
) -> list[Any]:
    """The rows that recall() returns, best first, each with what every part contributed; `options` as there.

    `explained`: those of explain_recall(), with what does not belong to the question.
    """
    return await reader.fetch(
        SEARCH,
        json.dumps(dict(options or {})),
        question.text,
        agent,
        user,
        question.embedding,
        count,
        sources,
        question.near,
        "explain_recall" if explained else "recall",
    )
