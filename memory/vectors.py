"""Embeddings in numpy: from Postgres's own form, brought to length 1, put together; and which are nearest.

Promise: shapes and types are checked nowhere and stated everywhere; what comes in is never changed. Nothing that was born after
a memory is its neighbour. Words are compared page by page: the memory in use does not grow with the number of words that were
seen, except for their names, and what is found is what would be found at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""Shape (n, dimensions)."""
OneVector: TypeAlias = NDArray[np.float32]
"""Shape (dimensions,)."""

ROUNDING_SECONDS = 1e-6
"""Times in seconds since 1970 are exact to about this."""
PAGE = 1_000
"""Known words that are compared at once; each is a kilobyte."""
BLOCK = 250
"""New words that are compared with a page, and whose pairs are sent, at once."""
NEIGHBOURS = 40
MIN_SIMILARITY = 0.3
"""Cosine similarity from which two words count as near, to the local embedder: no other one is asked about words."""
PIECES = 3
LETTERS_OF_A_PIECE = 2
"""A word of this number of pieces or more, with fewer letters a piece, says nothing to the model: it knows only the pieces."""


def unpacked(packed: bytes, rows: int) -> Vectors:
    """The vectors in the joined answers of pgvector's vector_send, one for each of `rows`.

    Each is two 16-bit numbers, the dimensions and a zero, then the values.
    """
    return np.frombuffer(packed, dtype=">f4").reshape(rows, -1)[:, 1:].astype(np.float32)


def unpacked_doubles(packed: bytes) -> NDArray[np.float64]:
    """The numbers in any answers of float8send, one after the other."""
    return np.frombuffer(packed, dtype=">f8").astype(np.float64)


def unit(rows: Vectors) -> Vectors:
    """Rows of length 1: an embedding that a user brought along may have any length. A row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32, copy=False)


def rows_of(vectors: Sequence[NDArray[Any]]) -> Vectors:
    """The vectors as the rows of one array. There is at least one."""
    return np.stack(vectors).astype(np.float32, copy=False)


def stacked(vectors: Sequence[NDArray[Any] | None]) -> Vectors | None:
    """The vectors as the rows of one array, NaN for each that is None; None when all are."""
    width = next((len(v) for v in vectors if v is not None), None)
    if width is None:
        return None
    matrix = np.full((len(vectors), width), np.nan, dtype=np.float32)
    for row, vector in enumerate(vectors):
        if vector is not None:
            matrix[row] = vector
    return matrix


def nearest_earlier(
    vectors: Vectors, born: ArrayLike, *, pool: Vectors, pool_born: ArrayLike, limit: int, above: float
) -> list[list[tuple[int, float]]]:
    """For each vector the indexes in `pool` of the `limit` nearest that were born no later, and their cosine similarities.

    Only similarities above `above`, in no order. Vectors have shape (n, dimensions) and any length; `born` are seconds.
    """
    similarity = unit(vectors) @ unit(pool).T
    latest = np.asarray(born)[:, np.newaxis] + ROUNDING_SECONDS
    similarity[np.asarray(pool_born)[np.newaxis, :] > latest] = -1.0
    count = min(limit, similarity.shape[1])
    best = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
    return [
        [(index, cosine) for index in indexes if (cosine := float(row[index])) > above]
        for row, indexes in zip(similarity, best.tolist(), strict=True)
    ]


def has_meaning(word: str, pieces: int) -> bool:
    """Whether the model knows a word that its tokenizer splits into this number of pieces, and not only letters of it."""
    return pieces < PIECES or len(word) >= LETTERS_OF_A_PIECE * pieces


class NearestWords:
    """Of each of some words the NEIGHBOURS nearest among all that it was shown."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._similarity = np.full((len(vectors), NEIGHBOURS), -np.inf, dtype=np.float32)
        self._index = np.full((len(vectors), NEIGHBOURS), -1, dtype=np.int32)
        self._names: list[str] = []

    def see(self, names: Sequence[str], vectors: Vectors) -> None:
        """Compares all words with these, unit vectors of shape (len(names), dimensions)."""
        first = len(self._names)
        self._names += names
        for column in range(0, len(names), PAGE):
            others = vectors[column : column + PAGE]
            for start in range(0, len(self._vectors), BLOCK):
                rows = slice(start, start + BLOCK)
                similarity = self._vectors[rows] @ others.T
                # A word is no neighbour of its own; they were shown first, in their own order.
                own = np.arange(len(similarity)) + start - first - column
                same = np.nonzero((own >= 0) & (own < similarity.shape[1]))[0]
                similarity[same, own[same]] = -np.inf
                self._merge(rows, similarity, first + column)

    def _merge(self, rows: slice, similarity: NDArray[np.float32], first: int) -> None:
        count = min(NEIGHBOURS, similarity.shape[1])
        best = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
        found = np.concatenate([self._similarity[rows], np.take_along_axis(similarity, best, axis=1)], axis=1)
        indexes = np.concatenate([self._index[rows], (best + first).astype(np.int32)], axis=1)
        kept = np.argpartition(-found, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
        self._similarity[rows] = np.take_along_axis(found, kept, axis=1)
        self._index[rows] = np.take_along_axis(indexes, kept, axis=1)

    def named(self) -> list[str]:
        """The words themselves, which were shown first, and all neighbours that are near enough."""
        # Not by np.unique(), which imports all of numpy.ma: each daemon would pay for that at its first new word.
        indexes = np.flatnonzero(np.bincount(self._index[self._similarity >= MIN_SIMILARITY]))
        count = len(self._vectors)
        return self._names[:count] + [self._names[p] for p in indexes[indexes >= count].tolist()]

    def pairs(self, rows: slice, there: Collection[str]) -> tuple[list[str], list[str], list[float]]:
        """Columns of some words' pairs, both ways round: word, neighbour, cosine similarity. Only of words that are `there`."""
        row, column = np.nonzero(self._similarity[rows] >= MIN_SIMILARITY)
        index, similarity = self._index[rows][row, column], self._similarity[rows][row, column]
        row += rows.start
        # Of two new words that name each other, the one that comes first writes the pair.
        twice = index < np.minimum(row, len(self._vectors))
        twice[twice] = (self._index[index[twice]] == row[twice, np.newaxis]).any(axis=1)
        names = self._names
        found = [
            (names[r], names[p], s)
            for r, p, s in zip(
                row[~twice].tolist(), index[~twice].tolist(), similarity[~twice].tolist(), strict=True
            )
            if names[r] in there and names[p] in there
        ]
        return (
            [a for a, _, _ in found] + [b for _, b, _ in found],
            [b for _, b, _ in found] + [a for a, _, _ in found],
            [s for _, _, s in found] * 2,
        )
