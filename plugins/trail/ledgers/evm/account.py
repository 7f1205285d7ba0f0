"""A key on a chain: what transactions cost there, and signing them.

Promise: nothing is sent to another chain than the one that was named, and nothing above the named fee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from eth_account import Account as Accounts
from eth_account.signers.local import LocalAccount
from hexbytes import HexBytes
from web3.types import TxParams

from plugins.trail.ledgers.evm.rpc import connect, translated, unavailable

GWEI = 10**9
GAS_MARGIN = 1.25
FEE_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Fees:
    """What one unit of gas may cost, in wei (EIP-1559)."""

    most: int
    tip: int


class Account:
    """A key, and a node of its chain. Raises UnavailableError, and RejectionError where a contract refuses a call."""

    def __init__(
        self, key: str, *, url: str, chain_id: int, max_fee_gwei: float, timeout_seconds: float
    ) -> None:
        """`key`: in hex. Raises ValueError with the setting to change, which does not quote the key."""
        try:
            self._signer: LocalAccount = Accounts.from_key(key)
        except Exception:  # noqa: BLE001 - the libraries below raise many kinds, and their messages may quote the key
            raise ValueError("MEMORYD_EVM_KEY is no private key: it is 64 hexadecimal digits") from None
        self.address = str(self._signer.address)
        self.chain_id = chain_id
        self.w3, self._provider = connect(url, timeout_seconds=timeout_seconds)
        self._most = int(max_fee_gwei * GWEI)

    async def check_chain(self) -> None:
        """Raises UnavailableError where the node is on another chain."""
        async with translated():
            found = await self.w3.eth.chain_id
        if found != self.chain_id:
            raise unavailable(
                f"the node is on chain {found}, and MEMORYD_EVM_CHAIN_ID is {self.chain_id}: nothing is sent"
            )

    async def base_fee(self) -> int:
        """What a unit of gas costs in the latest block, in wei, without a tip."""
        async with translated():
            base = (await self.w3.eth.get_block("latest")).get("baseFeePerGas")
        if base is None:
            raise unavailable(
                "this chain has no fees of EIP-1559, which memoryd needs; check MEMORYD_EVM_RPC_URL"
            )
        return int(base)

    async def fees(self) -> Fees:
        """What a transaction may cost now. Raises UnavailableError where that is above the limit."""
        base = await self.base_fee()
        async with translated():
            tip = int(await self.w3.eth.max_priority_fee)
        most = min(2 * base + tip, self._most)
        if most < base:
            raise unavailable(
                f"gas costs {base / GWEI:.3g} gwei, above MEMORYD_EVM_MAX_FEE_GWEI", retry_in=FEE_WAIT_SECONDS
            )
        return Fees(most, min(tip, most))

    async def gas(self, to: str | None, data: bytes, *, most: int | None = None) -> int:
        """How much gas a transaction may take. Raises UnavailableError where it wants more than `most`."""
        async with translated():
            asked = cast(TxParams, {"from": self.address, **_call(to, data)})
            estimate = int(await self.w3.eth.estimate_gas(asked))
        if most is not None and estimate > most:
            raise unavailable(
                f"the contract wants {estimate} gas, which is no AgentMemoryAnchor: check MEMORYD_EVM_CONTRACT"
            )
        return int(estimate * GAS_MARGIN)

    async def next_nonce(self) -> int:
        """The nonce of the next transaction of this key, after those that wait."""
        async with translated():
            return int(await self.w3.eth.get_transaction_count(self._signer.address, "pending"))

    def sign(self, to: str | None, data: bytes, *, nonce: int, fees: Fees, gas: int) -> bytes:
        """A signed transaction. `to` None: it creates a contract."""
        signed = self._signer.sign_transaction(
            {
                **_call(to, data),
                "type": 2,
                "chainId": self.chain_id,
                "nonce": nonce,
                "value": 0,
                "gas": gas,
                "maxFeePerGas": fees.most,
                "maxPriorityFeePerGas": fees.tip,
            }
        )
        return bytes(signed.raw_transaction)

    def has_signed(self, transaction: bytes) -> bool:
        """True if this key signed it, and not one of before."""
        return bool(Accounts.recover_transaction(transaction) == self.address)

    async def close(self) -> None:
        await self._provider.disconnect()


def _call(to: str | None, data: bytes) -> dict[str, Any]:
    return {"data": HexBytes(data)} | ({} if to is None else {"to": to})
