"""Embeddings in numpy: from Postgres's own form, brought to length 1, put together.

Promise: shapes and types are checked nowhere and stated everywhere; what comes in is never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""Shape (n, dimensions)."""
OneVector: TypeAlias = NDArray[np.float32]
"""Shape (dimensions,)."""


def unpacked(packed: bytes, rows: int) -> Vectors:
    """The vectors in so many answers of pgvector's vector_send, one after the other.

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
