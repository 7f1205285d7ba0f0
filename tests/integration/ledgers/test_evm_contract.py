"""The contract AgentMemoryAnchor on a real EVM: who may write, what it keeps, and the artifact."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from eth_tester.exceptions import TransactionFailed
from web3 import Web3

from plugins.trail.ledgers.evm.chain import MAX_GAS
from plugins.trail.ledgers.evm.rpc import CATEGORIES, PATH, load
from tests.integration.ledgers.conftest import Deployed

AGENT = 16905
HASHES = [bytes([number]) * 32 for number in range(1, 6)]


def send(deployed: Deployed, call: Any, *, sender: str | None = None) -> Any:
    transaction = call.transact({"from": sender or deployed.node.rich})
    return deployed.node.w3.eth.wait_for_transaction_receipt(transaction)


def refused(deployed: Deployed, call: Any, error: str, *, sender: str | None = None) -> None:
    """It is reverted with this error."""
    names = [one for one in load().abi if one["type"] == "error" and one["name"] == error]
    signature = f"{error}({','.join(one['type'] for one in names[0]['inputs'])})"
    with pytest.raises(TransactionFailed) as failure:
        call.call({"from": sender or deployed.node.rich})
    assert str(Web3.keccak(text=signature)[:4])[2:-1] in str(failure.value)
    with pytest.raises(TransactionFailed):
        send(deployed, call, sender=sender)


def anchor_many(deployed: Deployed, count: int) -> None:
    """Anchor the numbers from `count` down to 1 as hashes, in one transaction: by a contract whose constructor is this loop."""
    w3, sender = deployed.node.w3, deployed.node.w3.eth.accounts[1]
    selector = Web3.keccak(text="anchor(uint256,bytes32,uint8)")[:4].hex()
    start = f"63{selector}60e01b600052" + f"7f{AGENT:064x}600452" + f"60{count:02x}"
    call = f"6000600060646000600073{deployed.contract.address[2:]}5af150"
    loop = "5b" + "80602452" + call + "60019003" + f"8060{len(start) // 2:02x}57" + "00"
    deployment = {"from": sender, "data": f"0x{start}{loop}", "gas": 15_000_000}
    snapshot = deployed.node.snapshot()
    address = w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction(deployment))["contractAddress"]
    deployed.node.fork(snapshot)
    send(deployed, deployed.contract.functions.setWriter(address, True))
    w3.eth.send_transaction(deployment)


def test_the_artifact_is_of_this_source() -> None:
    source = PATH.with_suffix(".sol")
    assert hashlib.sha256(source.read_bytes()).hexdigest() == json.loads(PATH.read_text())["source_sha256"], (
        "compile it again: see compile.cjs beside it"
    )


@pytest.mark.skipif(
    not os.environ.get("NODE_PATH") or shutil.which("node") is None,
    reason="needs node, and solc in NODE_PATH: see compile.cjs beside it",
)
def test_the_compiler_gives_this_artifact() -> None:
    subprocess.run(["node", PATH.with_name("compile.cjs"), "--check"], check=True)


def test_categories_have_the_numbers_of_the_contract(deployed: Deployed) -> None:
    for name, number in CATEGORIES.items():
        assert deployed.contract.functions[name.upper()]().call() == number


def test_an_agent_without_anchors_has_none(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    assert functions.anchorCount(AGENT).call() == 0
    assert functions.getLatestAnchor(AGENT).call() == [(b"\0" * 32, b"\0" * 32, 0, 0, "0x" + "0" * 40), 0]
    assert functions.getAnchors(AGENT, 0, 10).call() == []
    assert functions.positionOf(AGENT, HASHES[0]).call() == [0, 0]


def test_anchors_are_a_chain_in_order(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    for number, content in enumerate(HASHES):
        receipt = send(deployed, functions.anchor(AGENT, content, number % 4))
        (event,) = deployed.contract.events.Anchored().process_receipt(receipt)
        assert event["args"]["agentId"] == AGENT
        assert event["args"]["contentHash"] == content
        assert event["args"]["previousHash"] == (HASHES[number - 1] if number else b"\0" * 32)
        assert event["args"]["position"] == number + 1
    latest, total = functions.getLatestAnchor(AGENT).call()
    assert (total, latest[0], latest[1], latest[2], latest[4]) == (
        5, HASHES[4], HASHES[3], 0, deployed.node.rich,
    )  # fmt: skip
    assert latest[3] == deployed.node.w3.eth.get_block("latest")["timestamp"]
    assert [one[0] for one in functions.getAnchors(AGENT, 0, 100).call()] == HASHES
    assert [one[1] for one in functions.getAnchors(AGENT, 1, 2).call()] == HASHES[:2]
    assert functions.positionOf(AGENT, HASHES[2]).call() == [3, 2]
    assert functions.anchorCount(AGENT + 1).call() == 0


def test_pages_are_bounded(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    send(deployed, functions.anchor(AGENT, HASHES[0], 0))
    most = 2**256 - 1
    assert len(functions.getAnchors(AGENT, 0, most).call()) == 1
    assert functions.getAnchors(AGENT, 1, most).call() == []
    assert functions.getAnchors(AGENT, most, most).call() == []
    assert functions.getAnchors(AGENT, 0, 0).call() == []
    anchor_many(deployed, 101)
    assert functions.anchorCount(AGENT).call() == 102
    assert len(functions.getAnchors(AGENT, 0, most).call()) == functions.MAX_PAGE().call() == 100
    assert len(functions.getAnchors(AGENT, 100, most).call()) == 2


def test_the_same_again_changes_nothing(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    send(deployed, functions.anchor(AGENT, HASHES[0], 1))
    send(deployed, functions.anchor(AGENT, HASHES[1], 1))
    receipt = send(deployed, functions.anchor(AGENT, HASHES[0], 1))
    assert receipt["status"] == 1
    assert receipt["logs"] == []
    assert functions.anchorCount(AGENT).call() == 2
    assert functions.positionOf(AGENT, HASHES[0]).call() == [1, 1]


def test_the_same_hash_of_another_agent_is_another_anchor(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    send(deployed, functions.anchor(1, HASHES[0], 1))
    send(deployed, functions.anchor(2, HASHES[0], 2))
    assert functions.positionOf(1, HASHES[0]).call() == [1, 1]
    assert functions.positionOf(2, HASHES[0]).call() == [1, 2]


def test_what_makes_no_sense_is_refused(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    send(deployed, functions.anchor(AGENT, HASHES[0], 1))
    refused(deployed, functions.anchor(AGENT, HASHES[0], 2), "CategoryDiffers")
    refused(deployed, functions.anchor(AGENT, HASHES[1], 4), "UnknownCategory")
    refused(deployed, functions.anchor(AGENT, b"\0" * 32, 0), "EmptyHash")


def test_nobody_else_writes(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    stranger, writer = deployed.node.w3.eth.accounts[1:3]
    refused(deployed, functions.anchor(AGENT, HASHES[0], 0), "NotWriter", sender=stranger)
    refused(deployed, functions.setWriter(stranger, True), "NotOwner", sender=stranger)
    refused(deployed, functions.offerOwnership(stranger), "NotOwner", sender=stranger)
    refused(deployed, functions.takeOwnership(), "NotOwner", sender=stranger)
    send(deployed, functions.setWriter(writer, True))
    send(deployed, functions.anchor(AGENT, HASHES[0], 0), sender=writer)
    refused(deployed, functions.setWriter(stranger, True), "NotOwner", sender=writer)
    send(deployed, functions.setWriter(writer, False))
    refused(deployed, functions.anchor(AGENT, HASHES[1], 0), "NotWriter", sender=writer)


def test_ownership_moves_in_two_steps(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    heir, stranger = deployed.node.w3.eth.accounts[1:3]
    send(deployed, functions.offerOwnership(heir))
    assert functions.owner().call() == deployed.node.rich
    refused(deployed, functions.takeOwnership(), "NotOwner", sender=stranger)
    send(deployed, functions.takeOwnership(), sender=heir)
    assert functions.owner().call() == heir
    refused(deployed, functions.anchor(AGENT, HASHES[0], 0), "NotWriter")
    refused(deployed, functions.takeOwnership(), "NotOwner", sender=heir)


def test_the_contract_takes_no_coins(deployed: Deployed) -> None:
    with pytest.raises(TransactionFailed):
        deployed.node.w3.eth.send_transaction(
            {"from": deployed.node.rich, "to": deployed.contract.address, "value": 1}
        )


def test_what_an_anchor_costs(deployed: Deployed) -> None:
    functions = deployed.contract.functions
    first = send(deployed, functions.anchor(AGENT, HASHES[0], 0))["gasUsed"]
    next_one = send(deployed, functions.anchor(AGENT, HASHES[1], 3))["gasUsed"]
    again = send(deployed, functions.anchor(AGENT, HASHES[0], 0))["gasUsed"]
    # docs/ledgers.md has these figures.
    assert (first, next_one, again) == (95_517, 80_899, 27_013)
    assert again < next_one < first < MAX_GAS / 2


def test_the_libraries_of_the_chain_leave_the_limit_of_recursion_as_it_was() -> None:
    # With a limit of 100,000 deeply nested JSON ends the process.
    assert sys.getrecursionlimit() < 10_000
