"""Asking recall as well as it can be asked: with the question's embedding, and the words near to words that are new here.

recall() called directly searches only by words, unless the caller gives an embedding; `memoryd recall` and the requests add it
here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import Vector

from handlers.shared.embedding import Embedding
from handlers.shared.ports import Reader
from providers.ports import Embedder

READ = "select text, words, lexemes from memoryd.read_question($1, $2, $3)"
NEAR = "select memoryd.near_words($1, $2)"


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
    """Makes questions ready."""

    def __init__(self, *, reader: Reader, embedding: Embedding, words: Embedder) -> None:
        self._reader = reader
        self._embedding = embedding
        self._words = words

    async def read(self, text: str, *, agent: str | None = None, user: UUID | None = None) -> Question:
        """The question with its embedding, where the embedder answers in time, and its new words' neighbours."""
        (row,) = await self._reader.fetch(READ, text, agent, user)
        asked = {0: row["text"]} if row["text"] else {}
        found = await self._embedding.if_possible(asked, asked=True)
        near = None
        if row["words"]:
            vectors = await self._words.embed(row["words"])
            (answer,) = await self._reader.fetch(NEAR, row["lexemes"], [Vector(v) for v in vectors])
            near = answer[0]
        return Question(text, found.get(0), near, by_words=asked != {} and not found)


SEARCH = """
select s.*, extract(epoch from now() - s.created_at)::float8 as seconds
from memoryd.search(memoryd.recall_request($9, $2, $3, $4, $5, $6, $7, '{}', $1, $8)) s
"""


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
