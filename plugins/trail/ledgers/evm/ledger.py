"""Anchors on a chain: keccak256 of each CID in the contract AgentMemoryAnchor. Nothing but the hash leaves the machine.

The contract itself is asked whether it has the hash; transactions are only how it gets there. So a reorganised chain, a crash
and two daemons need no cases of their own:

    there, deep enough   final
    there                not final yet: ask again
    not there            the transaction that was sent before waits, or is sent again as it is, or is replaced by a new one

Promise: a signed transaction is kept before it is sent, so that after a crash the same one is sent again. The same hash twice
in the contract is one anchor, so that a second transaction costs gas, and changes nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from web3 import Web3

from plugins.trail.ledgers.evm.account import Fees
from plugins.trail.ledgers.evm.chain import Call, Chain, SignedTransaction
from plugins.trail.ledgers.evm.rpc import CATEGORIES, PROVIDER, unavailable
from plugins.trail.ports import LedgerItem, Progress, Receipt
from providers.ports import RejectionError

NONCE_ATTEMPTS = 5
MAX_REVERTED = 2
"""Reverted transactions of one item. Each costs gas, although the contract accepted the call before."""
STEP = "transaction"
CONFIRMATIONS = 12
"""Blocks until an anchor is final, counted from its own."""
REPLACED_FROM = 1.125
"""Nodes replace a waiting transaction by one that pays at least this much more."""


class EvmLedger:
    """Implements `Ledger`."""

    name = "evm"
    keeps_memories = True

    def __init__(self, chain: Chain, *, agent_id: int, confirmations: int = CONFIRMATIONS) -> None:
        """`agent_id`: as whom it writes. `confirmations`: blocks from the one that has the anchor on, until it is final."""
        self._chain = chain
        self._account = chain.account
        self._agent_id = agent_id
        self._confirmations = confirmations
        self._sending = asyncio.Lock()

    async def entrust(self, item: LedgerItem, progress: Progress) -> Receipt:
        """Anchor it, see `Ledger.entrust`. It waits for no block: a receipt that is not final is asked for again."""
        category = CATEGORIES.get(item.category)
        if category is None:
            raise RejectionError(
                f"{PROVIDER}: the contract has no category {item.category!r}", provider=PROVIDER
            )
        content = content_of(item)
        head = await self._chain.head()
        before = SentTransaction.read(progress)
        if found := await self._chain.found(self._agent_id, content, block=head):
            position, anchored_as = found
            if anchored_as != category:
                raise RejectionError(
                    f"{PROVIDER}: it is anchored in another category ({anchored_as}, not {category})",
                    provider=PROVIDER,
                )
            block = head - self._confirmations + 1
            is_deep = block >= 0 and await self._chain.found(self._agent_id, content, block=block) is not None
            return Receipt(await self._reference(before, position), None, is_deep)
        call = self._chain.call(self._agent_id, content, category)
        reverted = 0
        if before is not None and before.signed.call == call:
            if (waiting := await self._waiting(before, progress)) is not None:
                return Receipt(waiting.hash, None, False)
            reverted = before.reverted + (await self._chain.block_of(before.signed.hash) not in {None, 0})
        return Receipt((await self._send(call, progress, reverted)).hash, None, False)

    async def dispute(self, item: LedgerItem, receipt: Receipt) -> str | None:
        head = await self._chain.head()
        found = await self._chain.found(self._agent_id, content_of(item), block=head)
        if found is None:
            return f"the contract {self._chain.contract} has no anchor with this hash"
        if found[1] != CATEGORIES.get(item.category):
            return f"the contract {self._chain.contract} has it in another category"
        return None

    async def close(self) -> None:
        await self._account.close()

    async def _reference(self, sent: SentTransaction | None, position: int) -> str:
        """The transaction, or where that is another daemon's, the index in the contract."""
        if sent is not None and await self._chain.succeeded(sent.signed.hash):
            return sent.signed.hash
        return f"{self._chain.contract}#{position}"

    async def _waiting(self, sent: SentTransaction, progress: Progress) -> SignedTransaction | None:
        """The transaction that will bring the anchor, which may be a new one that pays more; None if there is none."""
        signed = sent.signed
        block = await self._chain.block_of(signed.hash)
        if block:
            # A node that has the transaction, and is behind with the contract, is asked again later.
            return signed if await self._chain.succeeded(signed.hash) else None
        if block is None and await self._chain.send(signed) not in {None, "known"}:
            return None
        if not self._account.has_signed(signed.raw):
            return signed
        if await self._account.next_nonce() < signed.nonce:
            # One with a nonce in between was lost, and this one would wait for ever.
            return None
        if signed.fees.most >= await self._account.base_fee():
            return signed
        fees = await self._account.fees()
        if fees.most < signed.fees.most * REPLACED_FROM:
            return signed
        gas = await self._chain.gas(signed.call)
        fees = Fees(fees.most, min(fees.most, max(fees.tip, int(signed.fees.tip * REPLACED_FROM) + 1)))
        dearer = self._chain.sign(signed.call, nonce=signed.nonce, fees=fees, gas=gas)
        await SentTransaction(dearer, sent.reverted).keep(progress)
        return dearer if await self._chain.send(dearer) is None else signed

    async def _send(self, call: Call, progress: Progress, reverted: int) -> SignedTransaction:
        """Send a new transaction. Another daemon with the same key may take the nonce meanwhile: then the next one is tried."""
        if reverted >= MAX_REVERTED:
            raise RejectionError(f"{PROVIDER}: {reverted} transactions were reverted", provider=PROVIDER)
        gas = await self._chain.gas(call)
        fees = await self._account.fees()
        async with self._sending:
            nonce = 0
            for _ in range(NONCE_ATTEMPTS):
                nonce = max(nonce, await self._account.next_nonce())
                signed = self._chain.sign(call, nonce=nonce, fees=fees, gas=gas)
                await SentTransaction(signed, reverted).keep(progress)
                why = await self._chain.send(signed)
                if why in {None, "known"}:
                    return signed
                if why == "fee":
                    raise unavailable(
                        "the node wants a higher fee; if this lasts, raise MEMORYD_EVM_MAX_FEE_GWEI"
                    )
                nonce += 1
        raise unavailable("other senders with the same key were faster each time")


@dataclass(frozen=True, slots=True)
class SentTransaction:
    signed: SignedTransaction
    reverted: int
    """How many transactions before it were reverted."""

    @classmethod
    def read(cls, progress: Progress) -> SentTransaction | None:
        """The stored transaction, or None."""
        kept = progress.reached(STEP)
        if kept is None:
            return None
        reverted, _, raw = kept.partition(" ")
        return cls(SignedTransaction.read(raw), int(reverted))

    async def keep(self, progress: Progress) -> None:
        await progress.keep(STEP, f"{self.reverted} {Web3.to_hex(self.signed.raw)}")


def content_of(item: LedgerItem) -> bytes:
    """The content on the chain: keccak256 of the CID."""
    return bytes(Web3.keccak(text=item.cid))
