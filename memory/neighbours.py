"""Which earlier memories are nearest to new ones by embedding.

Promise: one product of two matrices for a whole batch; nothing that was born after a memory is its neighbour.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from memory.vectors import Vectors, unit

ROUNDING_SECONDS = 1e-6
"""Times in seconds since 1970 are exact to about this."""


def nearest_earlier(
    vectors: Vectors,
    born: ArrayLike,
    *,
    pool: Vectors,
    pool_born: ArrayLike,
    limit: int,
    above: float,
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
