"""What recall() is compared with: BM25, the similarity of embeddings, and the sum of both, on the rows of one user.

Ten lines each, computed here from all rows, without an index. BM25 has k1 1.2 and b 0.75 and the averages of these rows; its
words are the database's own lexemes, in the language that most of the rows are in. Embeddings are of whole texts, by the local
embedder, as the question's is. In the sum both are relative to the best row's, and the second counts half.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Sequence
from itertools import islice

import asyncpg
import numpy as np
import numpy.typing as npt

from benchmarks.search.bodies import Body
from providers.local_embedder import LocalEmbedder

K1, B, DENSE = 1.2, 0.75, 0.5
RANKINGS = ("BM25", "dense", "BM25 + .5 dense")

LANGUAGE = "select mode() within group (order by memoryd.language_of(t)) from unnest($1::text[]) t"

LEXEMES = """
select array(select l.lexeme from unnest(v.lexemes) l) as lexemes,
       array(select cardinality(l.positions) from unnest(v.lexemes) l) as counts
from unnest($1::text[]) with ordinality as t(text, place)
cross join lateral (select memoryd.lexemes_in(t.text, $2) as lexemes offset 0) v
order by t.place
"""

Scores = npt.NDArray[np.float64]


class Naive:
    """The rows of one user, ranked by each of RANKINGS."""

    def __init__(self, ids: Sequence[uuid.UUID], words: Sequence[Counter[str]], vectors: Scores) -> None:
        self._ids = ids
        self._vectors = vectors
        lengths = np.array([max(1, w.total()) for w in words], dtype=float)
        self._norms = K1 * (1 - B + B * lengths / lengths.mean())
        self._rows: dict[str, list[tuple[int, int]]] = {}
        for place, counter in enumerate(words):
            for word, count in counter.items():
                self._rows.setdefault(word, []).append((place, count))

    def rank(
        self, words: Sequence[str], vector: Scores, count: int, without: frozenset[uuid.UUID]
    ) -> list[list[uuid.UUID]]:
        """The first `count` rows by each of RANKINGS, of all but `without`."""
        by_words = self._by_words(words)
        by_meaning = self._vectors @ vector
        both = _relative(by_words) + DENSE * _relative(np.maximum(0, by_meaning))
        return [self._first(s, count, without) for s in (by_words, by_meaning, both)]

    def _by_words(self, words: Sequence[str]) -> Scores:
        scores = np.zeros(len(self._ids))
        for word in words:
            rows = self._rows.get(word, [])
            weight = math.log(1 + (len(self._ids) - len(rows) + 0.5) / (len(rows) + 0.5))
            for place, count in rows:
                scores[place] += weight * count * (K1 + 1) / (count + self._norms[place])
        return scores

    def _first(self, scores: Scores, count: int, without: frozenset[uuid.UUID]) -> list[uuid.UUID]:
        ids = (self._ids[place] for place in np.argsort(-scores, kind="stable"))
        return list(islice((i for i in ids if i not in without), count))


def _relative(scores: Scores) -> Scores:
    best = float(scores.max())
    return scores / best if best > 0 else scores


async def rank_all(connection: asyncpg.Connection, body: Body, *, count: int) -> list[list[list[uuid.UUID]]]:
    """For each question of the body the first `count` rows by each of RANKINGS."""
    texts = list(body.texts.values())
    language = await connection.fetchval(LANGUAGE, texts)
    words = [
        Counter(dict(zip(r["lexemes"], r["counts"], strict=True)))
        for r in await connection.fetch(LEXEMES, texts, language)
    ]
    questions = [q.text for q in body.questions]
    asked = [r["lexemes"] for r in await connection.fetch(LEXEMES, questions, language)]
    embedder = LocalEmbedder()
    vectors = np.array(await embedder.embed(texts), dtype=float)
    naive = Naive(list(body.texts), words, vectors)
    rankings = [
        naive.rank(lexemes, np.array(vector, dtype=float), count, question.later)
        for lexemes, vector, question in zip(
            asked, await embedder.embed(questions), body.questions, strict=True
        )
    ]
    await embedder.close()
    return rankings
