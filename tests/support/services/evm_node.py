"""A node of an EVM chain on a local port: eth-tester with py-evm behind JSON-RPC. Transactions wait in a pool as in geth.

with EvmNode() as node:
    node.fund(address)
    node.mine()             # puts what waits into a block
    before = node.snapshot()
    node.fork(before)       # the blocks since then are gone, and the transactions in them too
"""

from __future__ import annotations

import json
import sys
from ast import literal_eval
from collections.abc import Callable
from typing import Any

from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_tester import EthereumTester, PyEVMBackend
from eth_tester.exceptions import TransactionFailed
from hexbytes import HexBytes
from web3 import EthereumTesterProvider, Web3
from web3.types import RPCEndpoint

from tests.support.services.played_server import Asked, PlayedServer, Reply

# py-evm and py_ecc raise it to 100,000, when they are imported and when an EVM is made. Deeply nested JSON would then end the
# process of all tests.
RECURSION_LIMIT = 1000
sys.setrecursionlimit(RECURSION_LIMIT)

CHAIN_ID = 131277322940537
"""That of py-evm's tester."""
COIN = 10**18


class RpcError(Exception):
    """An error of JSON-RPC."""

    def __init__(self, message: str, *, code: int = -32000, data: str | None = None) -> None:
        super().__init__(message)
        self.said = {"code": code, "message": message} | ({} if data is None else {"data": data})


class EvmNode(PlayedServer):
    """The node. Transactions wait until `mine`."""

    def __init__(self) -> None:
        super().__init__()
        self.tester = EthereumTester(PyEVMBackend())
        self.w3: Any = Web3(EthereumTesterProvider(self.tester))
        sys.setrecursionlimit(RECURSION_LIMIT)
        self.rich: str = self.w3.eth.accounts[0]
        self.pool: dict[tuple[str, int], bytes] = {}
        """Sender and nonce, and the transaction that waits."""
        self.before: dict[str, Callable[[], None]] = {}
        """What happens before the next request of a method, once."""
        self.before_each: dict[str, Callable[[], None]] = {}
        """The same, each time."""
        self.answers: dict[str, Any] = {}
        """What is answered to a method instead of the truth: a value, or an RpcError."""
        self.sent: list[str] = []
        """Hashes of the transactions that were taken, in order."""

    def fund(self, address: str, *, coins: float = 1) -> None:
        """Give coins to an address."""
        value = int(coins * COIN)
        self.w3.eth.send_transaction({"from": self.rich, "to": address, "value": value})

    def deploy(self, abi: list[dict[str, Any]], bytecode: str) -> Any:
        """A contract of the rich account."""
        made = self.w3.eth.contract(abi=abi, bytecode=bytecode).constructor().transact({"from": self.rich})
        address = self.w3.eth.wait_for_transaction_receipt(made)["contractAddress"]
        return self.w3.eth.contract(address=address, abi=abi)

    def mine(self, blocks: int = 1) -> None:
        """Put what waits into blocks, then mine as many empty ones as are left."""
        for sender, nonce in sorted(self.pool, key=lambda one: one[1]):
            if nonce == self.w3.eth.get_transaction_count(Web3.to_checksum_address(sender)):
                raw = self.pool.pop((sender, nonce))
                self.tester.send_raw_transaction(Web3.to_hex(raw))
                blocks -= 1
        if blocks > 0:
            self.tester.mine_blocks(blocks)

    def snapshot(self) -> Any:
        """The chain as it is."""
        return self.tester.take_snapshot()

    def fork(self, snapshot: Any) -> None:
        """Go back to a chain of before. What waits stays."""
        self.tester.revert_to_snapshot(snapshot)

    def reset(self, snapshot: Any) -> None:
        """Go back, and forget what waits, what was asked and what goes wrong."""
        self.heal()
        self.fork(snapshot)
        for kept in (self.pool, self.before, self.before_each, self.answers, self.sent, self.requests):
            kept.clear()

    def asked(self, method: str) -> int:
        """How many requests of a method there were."""
        return sum(json.loads(one.body)["method"] == method for one in self.requests)

    def answer(self, asked: Asked) -> Reply:
        """Answer JSON-RPC."""
        request = json.loads(asked.body)
        method, params = request["method"], request["params"]
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if (first := self.before.pop(method, None)) is not None:
            first()
        if (each := self.before_each.get(method)) is not None:
            each()
        try:
            said["result"] = _in_hex(self._result(method, params))
        except RpcError as error:
            said["error"] = error.said
        return Reply(json.dumps(said).encode(), content_type="application/json")

    def _result(self, method: str, params: list[Any]) -> Any:
        if method in self.answers:
            if isinstance(self.answers[method], RpcError):
                raise self.answers[method]
            return self.answers[method]
        if method == "eth_chainId":
            return CHAIN_ID
        if method == "eth_sendRawTransaction":
            return self._take(bytes(HexBytes(params[0])))
        if method == "eth_getTransactionCount" and params[1] == "pending":
            nonce = self.w3.eth.get_transaction_count(params[0])
            while (params[0], nonce) in self.pool:
                nonce += 1
            return nonce
        if method == "eth_getTransactionByHash":
            for raw in self.pool.values():
                if Web3.to_hex(Web3.keccak(raw)) == params[0]:
                    return {"hash": params[0], "blockNumber": None, "blockHash": None}
        return self._ask_tester(method, params)

    def _ask_tester(self, method: str, params: list[Any]) -> Any:
        provider = self.w3.provider
        assert isinstance(provider, EthereumTesterProvider)
        ask = provider.request_func(self.w3, self.w3.middleware_onion)
        try:
            said = ask(RPCEndpoint(method), [_plain(one) for one in params])
        except TransactionFailed as failure:
            # The tester quotes the data as Python writes bytes.
            _, _, data = str(failure).partition("execution reverted: ")
            raise RpcError("execution reverted", code=3, data=_in_hex(literal_eval(data))) from None
        if "error" in said:
            error: Any = said["error"]
            raise (
                RpcError(str(error), code=-32000)
                if isinstance(error, str)
                else RpcError(
                    error["message"], code=error.get("code", -32000), data=_in_hex(error.get("data"))
                )
            )
        return said.get("result")

    def _take(self, raw: bytes) -> str:
        name = Web3.to_hex(Web3.keccak(raw))
        sender = Account.recover_transaction(raw)
        said = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        nonce, fee = int(said["nonce"]), int(said["maxFeePerGas"])
        if raw in self.pool.values():
            raise RpcError("already known")
        if nonce < self.w3.eth.get_transaction_count(sender):
            raise RpcError(f"nonce too low: next nonce {nonce + 1}, tx nonce {nonce}")
        if self.w3.eth.get_balance(sender) < fee * int(said["gas"]):
            raise RpcError("insufficient funds for gas * price + value: SECRET")
        if (other := self.pool.get((sender, nonce))) is not None:
            before = TypedTransaction.from_bytes(HexBytes(other)).as_dict()
            if fee * 10 < int(before["maxFeePerGas"]) * 11:
                raise RpcError("replacement transaction underpriced")
        self.pool[sender, nonce] = raw
        self.sent.append(name)
        return name


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    is_number = isinstance(value, str) and value.startswith("0x") and len(value) < 20
    return int(value, 16) if is_number and value != "0x" else value


def _in_hex(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, list | tuple):
        return [_in_hex(one) for one in value]
    return {name: _in_hex(one) for name, one in dict(value).items()}
