"""The cause of a dream, and its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

Start = Literal["idle", "manual"]
"""Causes of a dream. An idle dream may turn out to be overdue: the fleet was never idle for that long."""


@dataclass(frozen=True, slots=True)
class DreamReport:
    """The figures of a dream."""

    dream_id: UUID
    status: Literal["completed", "interrupted"]
    memories_scanned: int = 0
    clusters_found: int = 0
    insights_generated: int = 0
    insights_judged: int = 0
    """Insights of earlier dreams whose confidence changed by what happened since."""
    insights_redrawn: int = 0
    """Insights that were drawn again, or deleted, because memories that they were drawn from changed or went."""
    links_faded: int = 0
    associations_pruned: int = 0
