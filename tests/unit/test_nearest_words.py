"""The nearest words, found page by page, are those that are found at once."""

from __future__ import annotations

import numpy as np
import pytest

from memory.vectors import BLOCK, MIN_SIMILARITY, NEIGHBOURS, PAGE, NearestWords, Vectors, unpacked


def unit(count: int, seed: int) -> Vectors:
    """So many unit vectors near to each other."""
    rows = np.random.default_rng(seed).normal(0.35, 1.0, (count, 16))
    vectors: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def packed(vectors: Vectors) -> bytes:
    """As Postgres sends them."""
    head = np.array([vectors.shape[1], 0], dtype=">i2").tobytes()
    return b"".join(head + v.astype(">f4").tobytes() for v in vectors)


@pytest.mark.parametrize(
    ("new", "known"), [(1, 0), (3, 5), (BLOCK + 7, 0), (BLOCK * 2 + 1, PAGE + 300), (PAGE + 10, 45)]
)
def test_pages_give_the_same_nearest_words_as_one_comparison(new: int, known: int) -> None:
    vectors, others = unit(new, 1), unit(known, 2)
    names = [f"new{n}" for n in range(new)] + [f"old{n}" for n in range(known)]
    nearest = NearestWords(vectors)
    nearest.see(names[:new], vectors)
    for start in range(0, known, PAGE):
        part = slice(start, start + PAGE)
        nearest.see(names[new:][part], unpacked(packed(others[part]), len(others[part])))
    found: dict[tuple[str, str], float] = {}
    rows = 0
    for start in range(0, new, BLOCK):
        columns = nearest.pairs(slice(start, start + BLOCK), set(names))
        rows += len(columns[0])
        found |= {(a, b): s for a, b, s in zip(*columns, strict=True)}
    similarity = vectors @ np.concatenate([vectors, others]).T
    similarity[np.arange(new), np.arange(new)] = -1.0
    wanted = set()
    for row in range(new):
        for place in np.argsort(-similarity[row], kind="stable")[:NEIGHBOURS]:
            if similarity[row, place] >= MIN_SIMILARITY:
                wanted |= {(names[row], names[place]), (names[place], names[row])}
    assert set(found) == wanted
    assert rows == len(found), "a pair is there twice"
    assert all(found[b, a] == s for (a, b), s in found.items())
    assert set(nearest.named()) == {a for a, _ in wanted} | set(names[:new])


def test_deleted_words_are_left_out() -> None:
    vectors = unit(5, 1)
    nearest = NearestWords(vectors)
    nearest.see(list("abcde"), vectors)

    def pairs(among: str) -> set[tuple[str, str]]:
        words, neighbours, _ = nearest.pairs(slice(0, 5), set(among))
        return set(zip(words, neighbours, strict=True))

    assert pairs("abcde") == {("a", "d"), ("d", "a"), ("b", "c"), ("c", "b")}
    assert pairs("abc") == {("b", "c"), ("c", "b")}
