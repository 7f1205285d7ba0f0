"""What a dream is begun by, and what it saw and wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

Trigger = Literal["idle", "manual"]


@dataclass(frozen=True, slots=True)
class DreamReport:
    """What a dream saw and wrote."""

    dream_id: UUID
    status: Literal["completed", "interrupted"]
    memories_scanned: int = 0
    clusters_found: int = 0
    insights_generated: int = 0
    associations_pruned: int = 0
