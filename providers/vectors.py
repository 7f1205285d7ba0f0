"""What every embedder does alike: makes texts safe to send, in groups, and a row of numbers a unit vector.

Promise: no text crashes a tokenizer or a JSON encoder, and no row that leaves an embedder has NaN in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from providers.ports import Vectors


def clean(text: str, limit: int) -> str:
    """Answer the first `limit` characters of the text, NUL as a space and lone surrogates as U+FFFD."""
    text = text[:limit].replace("\x00", " ")
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def grouped(
    texts: Iterable[str], *, most: int, count: int | None = None, cost: Callable[[str], int] = len
) -> Iterator[list[str]]:
    """The texts, in order, in groups of at most `count` texts that cost `most` together; one that costs more stands alone."""
    group: list[str] = []
    size = 0
    for text in texts:
        added = cost(text)
        if group and (len(group) == count or size + added > most):
            yield group
            group, size = [], 0
        group.append(text)
        size += added
    if group:
        yield group


def blank(dimensions: int) -> npt.NDArray[np.float32]:
    """Answer the vector of a text that says nothing: the first axis, shape (dimensions,).

    Zeros would be more honest, but they have no direction: the cosine distance to them is NaN.
    """
    vector = np.zeros(dimensions, dtype=np.float32)
    vector[0] = 1.0
    return vector


def unit(rows: Vectors) -> Vectors:
    """Scale each row to unit length, in place, and answer the same array; a row of zeros becomes `blank`."""
    # Squares of single precision vanish below 1e-23 and overflow above 1e19.
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    rows /= np.where(lengths > 0, lengths, 1)[:, np.newaxis]
    rows[lengths == 0] = blank(rows.shape[1])
    return rows
