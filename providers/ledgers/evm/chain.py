"""The contract AgentMemoryAnchor on its chain: what it has, what transactions cost there, and sending them.

Promise: nothing is sent to another chain than the one that was named, and nothing above the named fee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes
from web3 import AsyncWeb3, Web3
from web3.exceptions import BadFunctionCallOutput, ContractLogicError, TransactionNotFound, Web3RPCError

from providers.ledgers.evm.artifact import load
from providers.ledgers.evm.faults import Refusal, refusal, translated, unavailable
from providers.ledgers.evm.rpc import connect

GWEI = 10**9
MAX_GAS = 400_000
"""An anchor takes about 100,000 (tests/integration/providers/test_evm_contract.py)."""
GAS_MARGIN = 1.25
FEE_WAIT_SECONDS = 60.0
NO_CONTRACT = "there is no AgentMemoryAnchor at MEMORYD_EVM_CONTRACT on this chain"


@dataclass(frozen=True, slots=True)
class Fees:
    """What one unit of gas may cost, in wei (EIP-1559)."""

    most: int
    tip: int


@dataclass(frozen=True, slots=True)
class Call:
    """What a transaction does: the same call is the same anchor."""

    chain_id: int
    to: str | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed transaction."""

    raw: bytes
    nonce: int
    fees: Fees
    call: Call

    @property
    def hash(self) -> str:
        """Its name on the chain, in hex with 0x."""
        return Web3.to_hex(Web3.keccak(self.raw))

    @classmethod
    def read(cls, raw: str) -> Signed:
        """From hex. Raises ValueError."""
        content = bytes(HexBytes(raw))
        said = TypedTransaction.from_bytes(HexBytes(content)).as_dict()
        fees = Fees(_number(said["maxFeePerGas"]), _number(said["maxPriorityFeePerGas"]))
        to = bytes(HexBytes(said["to"]))
        address = Web3.to_checksum_address(to) if to else None
        call = Call(_number(said["chainId"]), address, bytes(HexBytes(said["data"])))
        return cls(content, _number(said["nonce"]), fees, call)


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be spent."""

    max_fee_gwei: float
    max_tip_gwei: float


class Chain:
    """One contract on one chain, with the key that writes there."""

    def __init__(
        self,
        *,
        url: str,
        chain_id: int,
        contract: str,
        key: str,
        limits: Limits,
        timeout_seconds: float,
    ) -> None:
        """Raises ValueError with the setting to change."""
        self._account = account_of(key)
        if not Web3.is_address(contract):
            raise ValueError("MEMORYD_EVM_CONTRACT is no address: it is 0x and 40 hexadecimal digits")
        self._w3, self._provider = connect(url, timeout_seconds=timeout_seconds)
        self.contract = Web3.to_checksum_address(contract)
        self._contract: Any = self._w3.eth.contract(address=self.contract, abi=load().abi)
        self._chain_id = chain_id
        self._limits = limits
        self._is_there = False

    @property
    def address(self) -> str:
        """Of the key."""
        return str(self._account.address)

    async def head(self) -> int:
        """The number of the latest block. Raises Unavailable, also where the node is on another chain."""
        async with translated():
            found = await self._w3.eth.chain_id
            if found != self._chain_id:
                raise unavailable(
                    f"the node is on chain {found}, and MEMORYD_EVM_CHAIN_ID is {self._chain_id}: nothing is sent"
                )
            if not self._is_there and not await self._w3.eth.get_code(self.contract):
                raise unavailable(NO_CONTRACT)
            self._is_there = True
            return int(await self._w3.eth.block_number)

    async def found(self, agent_id: int, content: bytes, *, block: int) -> tuple[int, int] | None:
        """The position and category of this hash as of a block; None if it was not there, or the contract was not."""
        async with translated():
            try:
                position, category = await self._contract.functions.positionOf(agent_id, content).call(
                    block_identifier=block
                )
            except BadFunctionCallOutput:
                if not await self._w3.eth.get_code(self.contract, block):
                    return None
                raise unavailable(NO_CONTRACT) from None
            except ContractLogicError:
                raise unavailable(NO_CONTRACT) from None
            return (int(position), int(category)) if position else None

    def call(self, agent_id: int, content: bytes, category: int) -> Call:
        """What anchors a hash."""
        data = self._contract.encode_abi("anchor", args=[agent_id, content, category])
        return Call(self._chain_id, self.contract, bytes(HexBytes(data)))

    async def base_fee(self) -> int:
        """What a unit of gas costs in the latest block, in wei, without a tip. Raises Unavailable."""
        return await base_fee(self._w3)

    async def fees(self) -> Fees:
        """What a transaction may cost now. Raises Unavailable where that is above the limits."""
        return await fees_within(self._w3, self._limits)

    async def next_nonce(self) -> int:
        """The nonce of the next transaction of this key, after those that wait."""
        async with translated():
            return int(await self._w3.eth.get_transaction_count(self._account.address, "pending"))

    async def gas(self, call: Call) -> int:
        """How much gas a call may take. Raises Unavailable or Rejected where the contract refuses it."""
        async with translated():
            estimate = int(
                await self._w3.eth.estimate_gas(
                    {"from": self._account.address, "to": self.contract, "data": HexBytes(call.data)}
                )
            )
        if estimate > MAX_GAS:
            raise unavailable(
                f"the contract wants {estimate} gas, which is no AgentMemoryAnchor: check MEMORYD_EVM_CONTRACT"
            )
        return int(estimate * GAS_MARGIN)

    def sign(self, call: Call, *, nonce: int, fees: Fees, gas: int) -> Signed:
        """Sign a call of the contract."""
        signed = self._account.sign_transaction(
            {
                "type": 2,
                "chainId": self._chain_id,
                "nonce": nonce,
                "to": self.contract,
                "value": 0,
                "data": HexBytes(call.data),
                "gas": gas,
                "maxFeePerGas": fees.most,
                "maxPriorityFeePerGas": fees.tip,
            }
        )
        return Signed(bytes(signed.raw_transaction), nonce, fees, call)

    def is_own(self, signed: Signed) -> bool:
        """True if this key signed it, and not one of before."""
        return bool(Account.recover_transaction(signed.raw) == self._account.address)

    async def send(self, signed: Signed) -> Refusal | None:
        """Send; None if the node took it, else why not. Raises Unavailable."""
        async with translated():
            try:
                await self._w3.eth.send_raw_transaction(HexBytes(signed.raw))
            except Web3RPCError as error:
                why = refusal(error)
                if why in {"funds", "other"}:
                    raise
                return why
        return None

    async def block_of(self, transaction: str) -> int | None:
        """The block that a transaction is in; 0 if it waits, None if the node does not know it."""
        async with translated():
            try:
                said = await self._w3.eth.get_transaction(HexBytes(transaction))
            except TransactionNotFound:
                return None
            return int(said.get("blockNumber") or 0)

    async def succeeded(self, transaction: str) -> bool:
        """True if it is in a block, and was not reverted."""
        async with translated():
            try:
                receipt = await self._w3.eth.get_transaction_receipt(HexBytes(transaction))
            except TransactionNotFound:
                return False
            return receipt["status"] == 1

    async def close(self) -> None:
        """Close connections."""
        await self._provider.disconnect()


async def base_fee(w3: AsyncWeb3[Any]) -> int:
    """See `Chain.base_fee`."""
    async with translated():
        base = (await w3.eth.get_block("latest")).get("baseFeePerGas")
    if base is None:
        raise unavailable(
            "this chain has no fees of EIP-1559, which memoryd needs; check MEMORYD_EVM_RPC_URL"
        )
    return int(base)


async def fees_within(w3: AsyncWeb3[Any], limits: Limits) -> Fees:
    """See `Chain.fees`."""
    base = await base_fee(w3)
    async with translated():
        tip = min(int(await w3.eth.max_priority_fee), int(limits.max_tip_gwei * GWEI))
    most = min(2 * base + tip, int(limits.max_fee_gwei * GWEI))
    if most < base:
        raise unavailable(
            f"gas costs {base / GWEI:.3g} gwei, above MEMORYD_EVM_MAX_FEE_GWEI", retry_in=FEE_WAIT_SECONDS
        )
    return Fees(most, min(tip, most))


def account_of(key: str) -> LocalAccount:
    """The account of a private key in hex. Raises ValueError that does not quote it."""
    try:
        account: LocalAccount = Account.from_key(key)
    except Exception:  # noqa: BLE001 - the libraries below raise many kinds, and their messages may quote the key
        raise ValueError("MEMORYD_EVM_KEY is no private key: it is 64 hexadecimal digits") from None
    return account


def _number(value: Any) -> int:
    return int(value, 16) if isinstance(value, str) else int(value)
