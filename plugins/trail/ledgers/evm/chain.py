"""The contract AgentMemoryAnchor on its chain: what it has, and sending what it is to have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import BadFunctionCallOutput, ContractLogicError, TransactionNotFound, Web3RPCError

from plugins.trail.ledgers.evm.account import Account, Fees
from plugins.trail.ledgers.evm.rpc import Refusal, load, refusal, translated, unavailable

MAX_GAS = 400_000
"""An anchor takes about 100,000 (tests/integration/ledgers/test_evm_contract.py)."""
NO_CONTRACT = "there is no AgentMemoryAnchor at MEMORYD_EVM_CONTRACT on this chain"


@dataclass(frozen=True, slots=True)
class Call:
    """What a transaction does: the same call is the same anchor."""

    chain_id: int
    to: str | None
    data: bytes


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    raw: bytes
    nonce: int
    fees: Fees
    call: Call

    @property
    def hash(self) -> str:
        """Its name on the chain, in hex with 0x."""
        return Web3.to_hex(Web3.keccak(self.raw))

    @classmethod
    def read(cls, raw: str) -> SignedTransaction:
        """From hex. Raises ValueError."""
        content = bytes(HexBytes(raw))
        said = TypedTransaction.from_bytes(HexBytes(content)).as_dict()
        fees = Fees(_number(said["maxFeePerGas"]), _number(said["maxPriorityFeePerGas"]))
        to = bytes(HexBytes(said["to"]))
        address = Web3.to_checksum_address(to) if to else None
        call = Call(_number(said["chainId"]), address, bytes(HexBytes(said["data"])))
        return cls(content, _number(said["nonce"]), fees, call)


class Chain:
    """One contract on one chain, with the key that writes there."""

    def __init__(self, account: Account, *, contract: str) -> None:
        """Raises ValueError with the setting to change."""
        if not Web3.is_address(contract):
            raise ValueError("MEMORYD_EVM_CONTRACT is no address: it is 0x and 40 hexadecimal digits")
        self.account = account
        self.contract = Web3.to_checksum_address(contract)
        self._w3 = account.w3
        self._contract: Any = self._w3.eth.contract(address=self.contract, abi=load().abi)
        self._is_there = False

    async def head(self) -> int:
        """The number of the latest block. Raises UnavailableError, also where the node is on another chain."""
        await self.account.check_chain()
        async with translated():
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
        data = self._contract.encode_abi("anchor", args=[agent_id, content, category])
        return Call(self.account.chain_id, self.contract, bytes(HexBytes(data)))

    async def gas(self, call: Call) -> int:
        """How much gas a call may take. Raises UnavailableError or RejectionError where the contract refuses it."""
        return await self.account.gas(call.to, call.data, most=MAX_GAS)

    def sign(self, call: Call, *, nonce: int, fees: Fees, gas: int) -> SignedTransaction:
        raw = self.account.sign(call.to, call.data, nonce=nonce, fees=fees, gas=gas)
        return SignedTransaction(raw, nonce, fees, call)

    async def send(self, signed: SignedTransaction) -> Refusal | None:
        """Send; None if the node took it, else why not. Raises UnavailableError."""
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


def _number(value: Any) -> int:
    return int(value, 16) if isinstance(value, str) else int(value)
