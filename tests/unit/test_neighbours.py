"""The nearest earlier memories: by cosine similarity, never later ones, never too far ones."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from memory.vectors import Vectors, nearest_earlier, rows_of, stacked, unit, unpacked_doubles


def rows(*angles: float) -> Vectors:
    """Vectors at these angles in degrees, of length 2."""
    radians = np.radians(angles)
    return np.stack([2 * np.cos(radians), 2 * np.sin(radians)], axis=1).astype(np.float32)


def near(born: float, *, limit: int = 3, above: float = 0.5) -> dict[int, float]:
    """To a memory at angle 0, of memories at 0, 30, 59 and 61 degrees that were born at 1, 2, 3 and 4."""
    [found] = nearest_earlier(
        rows(0.0),
        np.array([born]),
        pool=rows(0.0, 30.0, 59.0, 61.0),
        pool_born=np.array([1.0, 2.0, 3.0, 4.0]),
        limit=limit,
        above=above,
    )
    return dict(found)


def test_what_is_near_enough_has_its_cosine() -> None:
    assert near(9.0) == pytest.approx(
        {0: 1.0, 1: np.cos(np.radians(30)), 2: np.cos(np.radians(59))}, abs=1e-6
    )


@pytest.mark.parametrize(("born", "places"), [(0.5, set()), (1.0, {0}), (2.5, {0, 1}), (3.0, {0, 1, 2})])
def test_what_was_born_later_is_no_neighbour(born: float, places: set[int]) -> None:
    assert near(born).keys() == places


def test_no_more_than_so_many() -> None:
    assert near(9.0, limit=2).keys() == {0, 1}
    assert near(9.0, limit=50, above=-1.0).keys() == {0, 1, 2, 3}


def test_vectors_are_brought_to_length_1_and_zeros_stay() -> None:
    brought = unit(np.array([[3, 4], [0, 0]], dtype=np.float32))
    assert brought.tolist() == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))


def test_vectors_become_rows_and_sent_numbers_an_array() -> None:
    found = rows_of([np.array([1.0, 2.0], dtype=">f4"), np.array([3.0, 4.0], dtype=">f4")])
    assert found.dtype == np.dtype(np.float32)
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert unpacked_doubles(struct.pack(">2d", 0.1, 1.7e9)).tolist() == [0.1, 1.7e9]


def test_a_vector_that_is_missing_is_a_row_without_numbers() -> None:
    found = stacked([None, np.array([1.0, 2.0])])
    assert found is not None
    assert np.isnan(found[0]).all()
    assert found[1].tolist() == [1.0, 2.0]
    assert stacked([None]) is None
    assert stacked([]) is None
