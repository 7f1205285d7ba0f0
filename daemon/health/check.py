"""One check of the doctor: its name, its finding, and its advice."""

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
    """The name of a check, its finding, and its advice."""

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
    """Splits a failure's message into the fault and its last sentence, the advice."""
    wrong, dot, advice = text.rpartition(". ")
    return (wrong + ".", advice) if dot else (text, None)
