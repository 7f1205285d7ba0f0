"""What a cosine says: the same similarity means the same with every model."""

from __future__ import annotations

import numpy as np
import pytest

from memory.calibration import SUBJECTS, Calibration, Rows, measure

COUNT = len(SUBJECTS)


def vectors(count: int, *, common: float, seed: int, dimensions: int = 384) -> Rows:
    """Unit vectors of unrelated texts, whose cosines have this mean."""
    own = np.random.default_rng(seed).standard_normal((count, dimensions))
    own[:, 0] = 0
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    own *= np.sqrt(1 - common)
    own[:, 0] = np.sqrt(common)
    rows: Rows = own.astype(np.float32)
    return rows


@pytest.mark.parametrize("common", [0.0, 0.1, 0.75, 0.85])
def test_unrelated_texts_have_no_similarity_and_the_same_text_has_one(common: float) -> None:
    documents, rows = vectors(COUNT, common=common, seed=1), vectors(200, common=common, seed=2)
    found = measure(documents, documents, rows)
    assert found.background == pytest.approx(common, abs=0.01)
    assert found.similarity(common) == pytest.approx(0, abs=0.1)
    assert found.similarity(1) == 1
    assert found.similarity(found.cosine(0.5)) == pytest.approx(0.5)


def test_rows_about_one_thing_do_not_become_the_background() -> None:
    documents = vectors(COUNT, common=0.75, seed=1)
    alike = np.repeat(vectors(1, common=0.75, seed=2), 500, axis=0)
    assert measure(documents, documents, alike).background == pytest.approx(0.75, abs=0.02)


def test_related_texts_of_a_model_whose_cosines_are_near_0_reach_the_thresholds() -> None:
    documents = vectors(COUNT, common=0.0, seed=1, dimensions=4096)
    found = measure(documents, documents, vectors(200, common=0.0, seed=2, dimensions=4096))
    assert found.spread is not None
    assert found.spread < 0.03
    assert found.similarity(0.12) > 0.5


def test_vectors_without_a_direction_do_not_count() -> None:
    documents = vectors(COUNT, common=0.75, seed=1)
    odd = np.zeros((3, 384), dtype=np.float32)
    odd[1] = np.nan
    sound = measure(documents, documents, documents)
    assert measure(documents, documents, np.vstack([documents, odd])) == sound
    nothing = np.zeros((COUNT, 384), dtype=np.float32)
    with pytest.raises(ValueError, match="direction"):
        measure(nothing, nothing, nothing)


def test_a_model_that_answers_the_same_for_all_texts_divides_by_no_zero() -> None:
    same = np.repeat(vectors(1, common=0.5, seed=1), COUNT, axis=0)
    found = measure(same, same, same)
    assert found.unit > 0
    assert -1 <= found.similarity(0.3) <= found.similarity(1) <= 1


def test_the_local_model_is_what_the_thresholds_were_found_with() -> None:
    assert Calibration().similarity(0.7) == 0.7
