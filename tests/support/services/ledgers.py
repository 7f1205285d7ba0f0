"""What ledgers are given: items, and progress that a test can look at, or cut off."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from collections.abc import Callable

from plugins.trail.ports import LedgerItem


class Killed(Exception):
    """The process ends here."""


class KeptProgress:
    """Progress in memory. Implements `Progress`."""

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}
        self.kept: list[str] = []
        """Each value that was kept, in order."""
        self.on_keep: Callable[[], None] = lambda: None
        """What happens after a step was kept."""

    def reached(self, step: str) -> str | None:
        """What was kept of this step."""
        return self.steps.get(step)

    async def keep(self, step: str, value: str) -> None:
        """Keep this."""
        self.steps[step] = value
        self.kept.append(value)
        self.on_keep()

    def kill_when_kept(self) -> None:
        """Let the process end right after the next step was kept."""

        def kill() -> None:
            self.on_keep = lambda: None
            raise Killed

        self.on_keep = kill


def cid_of(content: bytes) -> str:
    """CIDv1, raw, sha2-256, base32."""
    digest = hashlib.sha256(content).digest()
    return "b" + b32encode(bytes((0x01, 0x55, 0x12, 0x20)) + digest).decode().lower().rstrip("=")


def entrusted(
    content: bytes, *, category: str = "decision", key: str = "anchor", payload: bool = True
) -> LedgerItem:
    """What a ledger is given for this content."""
    return LedgerItem(
        key=key,
        category=category,
        agent_id="" if category == "checkpoint" else "alice",
        content_hash=hashlib.sha256(content).digest(),
        cid=cid_of(content),
        payload=content if payload else None,
    )
