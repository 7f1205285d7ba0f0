"""Putting the contract AgentMemoryAnchor on a chain, and saying who may write there. `python -m contracts.deploy` calls it.

Promise: nothing is sent to another chain than the one that was named, and nothing above the named fee.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import TransactionNotFound

from providers.ledgers.evm.artifact import load
from providers.ledgers.evm.chain import GAS_MARGIN, GWEI, NO_CONTRACT, Limits, account_of, fees_within
from providers.ledgers.evm.faults import translated, unavailable
from providers.ledgers.evm.rpc import connect

POLL_SECONDS = 0.5


class Deployer:
    """The owner of a contract. Raises Unavailable and Rejected as the ledger does."""

    def __init__(
        self,
        *,
        url: str,
        chain_id: int,
        key: str,
        limits: Limits,
        timeout_seconds: float,
        tell: Callable[[str], None],
    ) -> None:
        """`tell`: called with a sentence for each step. Raises ValueError with the setting to change."""
        self._account = account_of(key)
        self._w3, self._provider = connect(url, timeout_seconds=timeout_seconds)
        self._chain_id = chain_id
        self._limits = limits
        self._tell = tell

    @property
    def address(self) -> str:
        """Of the key."""
        return str(self._account.address)

    async def deploy(self, *, wait_seconds: float) -> str:
        """Put the contract on the chain, and answer its address. The key is its owner."""
        receipt = await self._run({"data": load().bytecode}, "the contract", wait_seconds)
        address = str(receipt["contractAddress"])
        async with translated():
            if not await self._w3.eth.get_code(Web3.to_checksum_address(address)):
                raise unavailable(NO_CONTRACT)
        return address

    async def allow(self, contract: str, writer: str, *, wait_seconds: float) -> None:
        """Allow an address to write. Only the owner can do it. Raises ValueError where one is no address."""
        for address in (contract, writer):
            if not Web3.is_address(address):
                raise ValueError(f"{address} is no address: it is 0x and 40 hexadecimal digits")
        made: Any = self._w3.eth.contract(address=Web3.to_checksum_address(contract), abi=load().abi)
        data = made.encode_abi("setWriter", args=[Web3.to_checksum_address(writer), True])
        await self._run({"to": made.address, "data": data}, f"setWriter for {writer}", wait_seconds)

    async def close(self) -> None:
        """Close connections."""
        await self._provider.disconnect()

    async def _run(self, call: dict[str, Any], name: str, wait_seconds: float) -> Any:
        """Send one transaction, and wait until it is in a block."""
        async with translated():
            found = await self._w3.eth.chain_id
            if found != self._chain_id:
                raise unavailable(
                    f"the node is on chain {found}, and MEMORYD_EVM_CHAIN_ID is {self._chain_id}: nothing is sent"
                )
        fees = await fees_within(self._w3, self._limits)
        async with translated():
            gas = int(
                GAS_MARGIN * await self._w3.eth.estimate_gas({"from": self._account.address, **call})  # type: ignore[typeddict-item]
            )
            nonce = await self._w3.eth.get_transaction_count(self._account.address, "pending")
            signed = self._account.sign_transaction(
                {
                    **call,
                    "type": 2,
                    "chainId": self._chain_id,
                    "nonce": nonce,
                    "value": 0,
                    "gas": gas,
                    "maxFeePerGas": fees.most,
                    "maxPriorityFeePerGas": fees.tip,
                }
            )
            transaction = Web3.to_hex(Web3.keccak(bytes(signed.raw_transaction)))
            self._tell(
                f"Sending {name}: transaction {transaction}, at most {gas * fees.most / GWEI / GWEI:.6f} of the chain's coin."
            )
            await self._w3.eth.send_raw_transaction(HexBytes(signed.raw_transaction))
        try:
            async with asyncio.timeout(wait_seconds):
                return await self._receipt(transaction)
        except TimeoutError:
            raise unavailable(
                f"{transaction} is in no block after {wait_seconds:g} s: look it up before you repeat it"
            ) from None

    async def _receipt(self, transaction: str) -> Any:
        while True:
            async with translated():
                try:
                    receipt = await self._w3.eth.get_transaction_receipt(HexBytes(transaction))
                except TransactionNotFound:
                    receipt = None
            if receipt is not None:
                if receipt["status"] != 1:
                    raise unavailable(f"{transaction} was reverted")
                return receipt
            await asyncio.sleep(POLL_SECONDS)
