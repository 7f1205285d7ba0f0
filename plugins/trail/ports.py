"""The interface of a ledger. Its faults are `UnavailableError` and `RejectionError` of providers.ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LedgerItem:
    """What a ledger is asked to keep: an anchored memory, or a checkpoint of the trail."""

    key: str
    """Names it for ever: the id of the anchor, or 'checkpoint/' and the number of leaves. The same key is the same content."""
    category: str
    """'milestone', 'decision', 'incident' or 'checkpoint'."""
    agent_id: str
    """Whose memory it is; '' of a checkpoint."""
    content_hash: bytes
    """32 bytes: the SHA-256 that `cid` is made of."""
    cid: str
    """CIDv1 (raw, sha2-256, base32) of the bytes."""
    payload: bytes | None
    """The bytes themselves, where they may leave the machine: a checkpoint's always, a memory's where a setting says so."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a ledger says of something that it has kept."""

    reference: str
    """Where it is found there: a transaction's hash, a CID, a serial number. Of one line."""
    proof: bytes | None
    """What convinces somebody without asking the ledger: a timestamp token. None where there is none."""
    final: bool
    """False while the ledger may still take it back (a transaction without enough confirmations): ask again."""


class Progress(Protocol):
    """What earlier attempts at the same thing have reached, so that nothing is done twice."""

    def reached(self, step: str) -> str | None:
        """What was kept of this step; None if it was not reached."""

    async def keep(self, step: str, value: str) -> None:
        """Keep this. It is stored for good when this returns."""


class Ledger(Protocol):
    """Somebody else who keeps what the trail says, so that its owner cannot rewrite it unseen."""

    name: str
    """As settings name it: 'rfc3161', 'ipfs', 'evm'."""
    keeps_memories: bool
    """True if it keeps each anchored memory; False if it keeps checkpoints only."""

    async def entrust(self, item: LedgerItem, progress: Progress) -> Receipt:
        """Have it kept, or find that it was. Called again with the same key after a crash, or a receipt that was not final.

        Raises `UnavailableError` or `RejectionError`.
        """

    async def dispute(self, item: LedgerItem, receipt: Receipt) -> str | None:
        """Answer None if it has what the receipt says, else a sentence that says what differs. Raises `UnavailableError`."""

    async def close(self) -> None:
        """Let go of connections. The ledger is not used afterwards."""
