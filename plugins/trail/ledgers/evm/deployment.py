"""Putting the contract AgentMemoryAnchor on a chain, and saying who may write there: `memoryd anchors deploy`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import TimeExhausted

from plugins.trail.ledgers.evm.account import GWEI, Account
from plugins.trail.ledgers.evm.chain import NO_CONTRACT
from plugins.trail.ledgers.evm.rpc import load, translated, unavailable

POLL_SECONDS = 0.5


class Deployer:
    """The owner of a contract. Raises UnavailableError and RejectionError as the ledger does."""

    def __init__(self, account: Account, *, tell: Callable[[str], None]) -> None:
        """`tell`: called with a sentence for each step."""
        self._account = account
        self._w3 = account.w3
        self._tell = tell

    async def run(self, contract: str | None, writers: Sequence[str], *, wait_seconds: float) -> str:
        """Deploy, unless the contract is there, and allow the writers. Answers its address."""
        try:
            address = contract or await self._deploy(wait_seconds)
            for writer in writers:
                await self._allow(address, writer, wait_seconds)
        finally:
            await self._account.close()
        return address

    async def _deploy(self, wait_seconds: float) -> str:
        """Put the contract on the chain, and answer its address. The key is its owner."""
        receipt = await self._send(None, load().bytecode, "the contract", wait_seconds)
        address = str(receipt["contractAddress"])
        async with translated():
            if not await self._w3.eth.get_code(Web3.to_checksum_address(address)):
                raise unavailable(NO_CONTRACT)
        self._tell(f"The contract is at {address}, and {self._account.address} owns it.")
        return address

    async def _allow(self, contract: str, writer: str, wait_seconds: float) -> None:
        """Allow an address to write. Only the owner can do it. Raises ValueError where one is no address."""
        for address in (contract, writer):
            if not Web3.is_address(address):
                raise ValueError(f"{address} is no address: it is 0x and 40 hexadecimal digits")
        made: Any = self._w3.eth.contract(address=Web3.to_checksum_address(contract), abi=load().abi)
        data = made.encode_abi("setWriter", args=[Web3.to_checksum_address(writer), True])
        await self._send(made.address, data, f"setWriter for {writer}", wait_seconds)
        self._tell(f"{writer} may write.")

    async def _send(self, to: str | None, data: str, name: str, wait_seconds: float) -> Any:
        """Send one transaction, and wait until it is in a block."""
        account, content = self._account, bytes(HexBytes(data))
        await account.check_chain()
        fees = await account.fees()
        gas = await account.gas(to, content)
        signed = account.sign(to, content, nonce=await account.next_nonce(), fees=fees, gas=gas)
        transaction = Web3.to_hex(Web3.keccak(signed))
        self._tell(
            f"Sending {name}: transaction {transaction}, at most {gas * fees.most / GWEI / GWEI:.6f} of the chain's coin."
        )
        async with translated():
            await self._w3.eth.send_raw_transaction(HexBytes(signed))
            try:
                receipt = await self._w3.eth.wait_for_transaction_receipt(
                    HexBytes(transaction), timeout=wait_seconds, poll_latency=POLL_SECONDS
                )
            except TimeExhausted:
                raise unavailable(
                    f"{transaction} is in no block after {wait_seconds:g} s: look it up before you repeat it"
                ) from None
        if receipt["status"] != 1:
            raise unavailable(f"{transaction} was reverted")
        return receipt
