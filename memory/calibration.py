"""What a cosine of an embedding model says: its background and its spread, measured from its own vectors.

Unrelated texts have a cosine of 0.03 with one model, of 0.75 with another. A calibrated similarity is 0 for unrelated texts
and 1 for the same text, whatever the model: so every threshold of memoryd has one value for all models.

Promise: the background is the model's, not that of a database's subject: texts are compared with sentences on 24 unrelated
subjects, so a database about one thing keeps its similarities high.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SUBJECTS = (
    "The train to Lisbon leaves at nine in the morning.",
    "She bakes rye bread every Sunday.",
    "Restart the server before the certificate expires.",
    "My brother broke his left arm while skiing.",
    "The contract was signed by both parties.",
    "Kotlin compiles to bytecode of the JVM.",
    "Heavy rain flooded the lower fields.",
    "He plays the cello in a small orchestra.",
    "Please send the invoice to our accountant.",
    "Whales sing across whole oceans.",
    "The museum is closed on Mondays.",
    "I am allergic to peanuts.",
    "Her thesis is about medieval coins.",
    "The brakes of the bicycle are worn.",
    "Wir treffen uns morgen im Büro.",
    "Der Garten braucht mehr Wasser.",
    "Le chat dort sur le canapé.",
    "La facture a été payée hier.",
    "El equipo ganó el partido por dos goles.",
    "Necesito una contraseña nueva.",
    "La batteria del telefono è scarica.",
    "O preço do café subiu outra vez.",
    "我喜欢吃辣的菜。",
    "会议改到下周三。",
)
"""Sentences of which no two are about the same thing."""

WIDEST = 10
"""Spreads above the background from which on texts say the same: a model whose cosines are all near 0 never comes near 1."""
NARROWEST = 0.05

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of one model. The default is that of the local one, by which the thresholds were found."""

    background: float = 0.0
    """The mean cosine of unrelated texts."""
    unit: float = 1.0
    """What a cosine has above the background where two texts say the same."""
    spread: float | None = None
    """The standard deviation of the cosines of unrelated texts."""

    def similarity(self, cosine: float) -> float:
        """The calibrated similarity, -1 to 1. In SQL: memoryd.calibrated()."""
        return max(-1.0, min(1.0, (cosine - self.background) / self.unit))

    def cosine(self, similarity: float) -> float:
        """The cosine that has this calibrated similarity."""
        return self.background + similarity * self.unit


def measure(questions: Rows, documents: Rows, sample: Rows) -> Calibration:
    """From the vectors of SUBJECTS as questions and as documents, and of a sample of the database's rows.

    Vectors without a direction do not count. Raises ValueError where nothing is left to compare.
    """
    pairs: list[Rows] = []
    for asked in (questions, documents):
        others = directed(asked) @ directed(documents).T
        pairs.append(others[~np.eye(len(others), dtype=bool)])
        if len(sample):
            pairs.append((directed(asked) @ directed(sample).T).ravel())
    # The sentences count as much as the rows, however many these are.
    means = [_mean_and_square(one) for one in pairs]
    background = float(np.mean([mean for mean, _ in means]))
    spread = float(np.sqrt(max(0.0, float(np.mean([square for _, square in means])) - background**2)))
    unit = max(NARROWEST, min(1 - background, WIDEST * spread))
    return Calibration(round(background, 6), round(unit, 6), round(spread, 6))


def _mean_and_square(cosines: Rows) -> tuple[float, float]:
    found = cosines[np.isfinite(cosines)].astype(np.float64)
    if not len(found):
        raise ValueError("the model's vectors have no direction")
    return float(found.mean()), float((found**2).mean())


def directed(vectors: Rows) -> Rows:
    """Vectors as unit rows, NaN for one that is all zeros or no numbers."""
    rows = np.asarray(vectors, dtype=np.float32)
    with np.errstate(all="ignore"):
        found: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found
