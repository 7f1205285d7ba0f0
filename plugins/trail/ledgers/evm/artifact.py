"""The compiled contract AgentMemoryAnchor: what contract/compile.cjs wrote, so that nothing is compiled at run time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

PATH = Path(__file__).parent / "contract" / "AgentMemoryAnchor.json"

CATEGORIES: Mapping[str, int] = MappingProxyType(
    {"milestone": 0, "decision": 1, "incident": 2, "checkpoint": 3}
)
"""The numbers that the contract has for them."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The contract as it is deployed and called."""

    abi: list[dict[str, Any]]
    bytecode: str
    """Hex, with 0x: what creates the contract."""
    compiler: str
    source_sha256: str
    """Of contract/AgentMemoryAnchor.sol, in hex."""


@cache
def load() -> Artifact:
    """Read the artifact."""
    said = json.loads(PATH.read_text("utf-8"))
    return Artifact(said["abi"], said["bytecode"], said["compiler"], said["source_sha256"])
