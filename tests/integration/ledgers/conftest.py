"""One chain for all tests that need one: starting it takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from eth_account import Account

from plugins.trail.ledgers.evm.rpc import load
from tests.support.services.evm_node import EvmNode

KEY = "0x" + "11" * 32
OTHER_KEY = "0x" + "22" * 32


@dataclass(frozen=True, slots=True)
class Deployed:
    """A chain with the contract on it. `KEY` may write there; `OTHER_KEY` may not, and both have coins."""

    node: EvmNode
    contract: Any
    snapshot: Any


@pytest.fixture(scope="session")
def _deployed() -> Iterator[Deployed]:
    with EvmNode() as node:
        for key in (KEY, OTHER_KEY):
            node.fund(Account.from_key(key).address)
        contract = node.deploy(load().abi, load().bytecode)
        contract.functions.setWriter(Account.from_key(KEY).address, True).transact({"from": node.rich})
        yield Deployed(node, contract, node.snapshot())


@pytest.fixture
def deployed(_deployed: Deployed) -> Deployed:
    """The chain as it was at first."""
    _deployed.node.reset(_deployed.snapshot)
    return _deployed
