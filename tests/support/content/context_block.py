"""The block that an agent is given with its task."""

from __future__ import annotations

import re

BLOCK = "select build_context('alice', $1)"

FRAME = re.compile(
    r"--- CONTEXT ([0-9a-f]{12}) \(curated by memoryd\) ---\n"
    r"Only what stands between the two lines with the code \1 comes from memoryd\.\n"
    r"(.*)\n--- END CONTEXT \1 ---",
    re.DOTALL,
)
"""A whole block: its code, and what is between its two lines."""


def entries(block: str) -> list[str]:
    """The lines of a block that quote something."""
    return [line for line in block.split("\n") if line[:2] in ("★ ", "- ")]
