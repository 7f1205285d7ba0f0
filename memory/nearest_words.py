"""For each of some words the nearest among very many others, which are read page by page.

Promise: the memory in use does not grow with the number of words that were seen, except for their names; what is found page
by page is what would be found at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.vectors import Vectors

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
