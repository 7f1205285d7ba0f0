"""One finding of the doctor: what was looked at, what was found, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Verdict = Literal["ok", "warning", "problem"]
Facts: TypeAlias = Mapping[str, Any]
"""What doctor.READ_SERVER or doctor.READ_MEMORY answered."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, what was found, and what to do about it."""

    name: str
    verdict: Verdict
    found: str
    advice: str | None = None


BELOW = "An administrator runs what stands under administrator, below."
"""For what is part of the one block (daemon/db/administrator.py)."""


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def split_advice(text: str) -> tuple[str, str | None]:
    """A failure's message in two: what is wrong, and its last sentence, which says what to do."""
    wrong, dot, advice = text.rpartition(". ")
    return (wrong + ".", advice) if dot else (text, None)
