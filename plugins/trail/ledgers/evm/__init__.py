"""Anchors in the contract AgentMemoryAnchor on an EVM chain."""

from __future__ import annotations

import sys

# py_ecc, which eth_account brings, raises the limit of recursion to 100,000. Deeply nested JSON, which anybody may write, would
# then end the daemon instead of being refused. So it is imported here, before all else of web3, and the limit set back.
_LIMIT = sys.getrecursionlimit()
import eth_account  # noqa: E402, F401 - for what it imports

sys.setrecursionlimit(_LIMIT)
