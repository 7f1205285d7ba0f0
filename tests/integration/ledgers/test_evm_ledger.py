"""The ledger `evm` over JSON-RPC: confirmations, forks, crashes, several senders with one key, and nodes that fail."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from typing import Any

import pytest
from eth_abi.abi import encode
from web3 import Web3

from plugins.trail.ledgers.evm.account import Account
from plugins.trail.ledgers.evm.chain import Chain
from plugins.trail.ledgers.evm.ledger import MAX_REVERTED, EvmLedger, content_of
from plugins.trail.ports import LedgerItem
from providers.ports import RejectionError, UnavailableError
from tests.integration.ledgers.conftest import KEY, OTHER_KEY, Deployed
from tests.support.services.evm_node import CHAIN_ID, EvmNode, RpcError
from tests.support.services.ledgers import KeptProgress, Killed, entrusted
from tests.support.services.played_server import DROP, LOST, Fault

AGENT = 16905
ITEM = entrusted(b"one", payload=False)


def make(deployed: Deployed, *, key: str = KEY, max_fee: float = 100.0, **others: Any) -> EvmLedger:
    given = {"url": deployed.node.url, "chain_id": CHAIN_ID, "contract": deployed.contract.address, **others}
    contract = given.pop("contract")
    chain = Chain(Account(key, max_fee_gwei=max_fee, timeout_seconds=10.0, **given), contract=contract)
    return EvmLedger(chain, agent_id=AGENT, confirmations=3)


@pytest.fixture
async def ledger(deployed: Deployed) -> AsyncIterator[EvmLedger]:
    made = make(deployed)
    yield made
    await made.close()


@pytest.fixture
def node(deployed: Deployed) -> EvmNode:
    return deployed.node


@pytest.fixture
def progress() -> KeptProgress:
    return KeptProgress()


def anchored(deployed: Deployed) -> list[bytes]:
    return [one[0] for one in deployed.contract.functions.getAnchors(AGENT, 0, 100).call()]


async def test_it_is_final_after_the_confirmations(
    deployed: Deployed, node: EvmNode, ledger: EvmLedger, progress: KeptProgress
) -> None:
    first = receipt = await ledger.entrust(ITEM, progress)
    finals = [first.final]
    for _ in range(4):
        node.mine()
        receipt = await ledger.entrust(ITEM, progress)
        assert receipt.reference == first.reference
        finals.append(receipt.final)
    assert finals == [False, False, False, True, True]
    assert node.sent == [first.reference]
    assert anchored(deployed) == [Web3.keccak(text=ITEM.cid)]
    assert await ledger.dispute(ITEM, receipt) is None


async def test_only_the_hash_travels(node: EvmNode, ledger: EvmLedger, progress: KeptProgress) -> None:
    item = entrusted(b"What alice decided.")
    await ledger.entrust(item, progress)
    for secret in (
        b"What alice decided.",
        b"What alice decided.".hex().encode(),
        item.cid.encode(),
        b"alice",
    ):
        assert not any(secret in asked.body for asked in node.requests)


async def test_what_differs_is_said(node: EvmNode, ledger: EvmLedger, progress: KeptProgress) -> None:
    receipt = await ledger.entrust(ITEM, progress)
    assert "no anchor with this hash" in str(await ledger.dispute(ITEM, receipt))
    node.mine()
    assert "another category" in str(await ledger.dispute(entrusted(b"one", category="incident"), receipt))


async def test_a_transaction_of_a_chain_that_was_given_up_is_sent_again(
    deployed: Deployed, node: EvmNode, ledger: EvmLedger, progress: KeptProgress
) -> None:
    before = node.snapshot()
    first = await ledger.entrust(ITEM, progress)
    node.mine(2)
    assert await ledger.entrust(ITEM, progress) == first
    node.fork(before)
    assert await ledger.entrust(ITEM, progress) == first, "the same one, so that it is never there twice"
    node.mine(3)
    assert (await ledger.entrust(ITEM, progress)).final
    assert anchored(deployed) == [content_of(ITEM)]


async def test_a_new_transaction_is_sent_where_another_has_the_nonce(
    deployed: Deployed, node: EvmNode, ledger: EvmLedger, progress: KeptProgress
) -> None:
    before = node.snapshot()
    first = await ledger.entrust(ITEM, progress)
    node.mine()
    node.fork(before)
    await ledger.entrust(entrusted(b"another", key="2"), KeptProgress())
    node.mine()
    second = await ledger.entrust(ITEM, progress)
    assert second.reference != first.reference
    node.mine(3)
    assert await ledger.entrust(ITEM, progress) == second.__class__(second.reference, None, True)


@pytest.mark.parametrize("lost", [False, True])
async def test_killed_between_keeping_and_sending(
    deployed: Deployed, node: EvmNode, progress: KeptProgress, lost: bool
) -> None:
    dying = make(deployed)
    if lost:
        progress.on_keep = lambda: node.script(LOST)
        with pytest.raises(UnavailableError):
            await dying.entrust(ITEM, progress)
        progress.on_keep = lambda: None
    else:
        progress.kill_when_kept()
        with pytest.raises(Killed):
            await dying.entrust(ITEM, progress)
    await dying.close()
    resumed = make(deployed)
    receipt = await resumed.entrust(ITEM, progress)
    await resumed.close()
    assert node.sent == [receipt.reference]
    assert len(progress.kept) == 1
    node.mine()
    assert anchored(deployed) == [content_of(ITEM)]


async def test_an_anchor_without_progress_is_found(
    node: EvmNode, ledger: EvmLedger, progress: KeptProgress, deployed: Deployed
) -> None:
    await ledger.entrust(ITEM, progress)
    node.mine(3)
    receipt = await ledger.entrust(ITEM, KeptProgress())
    assert (receipt.reference, receipt.final) == (f"{deployed.contract.address}#1", True)
    assert len(node.sent) == 1


async def test_daemons_with_one_key_send_at_once(deployed: Deployed, node: EvmNode) -> None:
    daemons = [make(deployed) for _ in range(2)]
    items = [entrusted(f"item {number}".encode(), key=str(number)) for number in range(3)]
    kept = [KeptProgress() for _ in items]

    async def bring(daemon: EvmLedger, item: LedgerItem, progress: KeptProgress) -> bool:
        try:
            return (await daemon.entrust(item, progress)).final
        except UnavailableError:
            return False

    finals = [False]
    for _ in range(8):
        finals = await asyncio.gather(
            *(bring(daemons[number % 2], item, kept[number]) for number, item in enumerate(items))
        )
        node.mine()
        if all(finals):
            break
    assert all(finals)
    assert sorted(anchored(deployed)) == sorted(content_of(item) for item in items)
    for daemon in daemons:
        await daemon.close()


async def test_two_daemons_send_the_same_item_at_once(deployed: Deployed, node: EvmNode) -> None:
    daemons = [make(deployed), make(deployed)]
    await asyncio.gather(*(daemon.entrust(ITEM, KeptProgress()) for daemon in daemons))
    node.mine(4)
    assert anchored(deployed) == [content_of(ITEM)]
    for daemon in daemons:
        assert (await daemon.entrust(ITEM, KeptProgress())).final
        await daemon.close()


async def test_a_nonce_that_is_taken_meanwhile_is_stepped_over(
    deployed: Deployed, node: EvmNode, ledger: EvmLedger, progress: KeptProgress
) -> None:
    other = make(deployed)
    await other.entrust(entrusted(b"another", key="2"), KeptProgress())
    await other.close()
    stale = hex(node.w3.eth.get_transaction_count(Web3.to_checksum_address(ledger._account.address)))
    node.answers["eth_getTransactionCount"] = stale
    receipt = await ledger.entrust(ITEM, progress)
    assert len(node.sent) == 2
    assert node.sent[-1] == receipt.reference
    node.mine()
    assert len(anchored(deployed)) == 2


async def test_what_waits_with_too_low_a_fee_is_replaced(
    deployed: Deployed, node: EvmNode, ledger: EvmLedger, progress: KeptProgress
) -> None:
    first = await ledger.entrust(ITEM, progress)
    real = dict(node.w3.eth.get_block("latest"))
    node.answers["eth_getBlockByNumber"] = {
        "number": hex(real["number"]), "extraData": "0x" + "00" * 97, "baseFeePerGas": hex(20 * 10**9),
    }  # fmt: skip
    second = await ledger.entrust(ITEM, progress)
    assert second.reference != first.reference
    assert len(node.pool) == 1, "the nonce is the same"
    assert await ledger.entrust(ITEM, progress) == second
    node.answers.clear()
    node.mine(3)
    assert (await ledger.entrust(ITEM, progress)).reference == second.reference
    assert anchored(deployed) == [content_of(ITEM)]


async def test_nothing_is_sent_above_the_maximum_fee(
    deployed: Deployed, node: EvmNode, progress: KeptProgress
) -> None:
    ledger = make(deployed, max_fee=0.000_000_001)
    with pytest.raises(UnavailableError, match="MEMORYD_EVM_MAX_FEE_GWEI") as failure:
        await ledger.entrust(ITEM, progress)
    assert failure.value.retry_in > 0
    assert node.asked("eth_sendRawTransaction") == 0
    await ledger.close()


async def test_nothing_is_sent_to_another_chain(
    deployed: Deployed, node: EvmNode, progress: KeptProgress
) -> None:
    ledger = make(deployed, chain_id=8453)
    with pytest.raises(UnavailableError, match="MEMORYD_EVM_CHAIN_ID is 8453"):
        await ledger.entrust(ITEM, progress)
    assert node.asked("eth_sendRawTransaction") == 0
    await ledger.close()


async def test_an_address_without_the_contract(
    deployed: Deployed, node: EvmNode, progress: KeptProgress
) -> None:
    for address in ("0x" + "12" * 20, node.rich):
        ledger = make(deployed, contract=address)
        with pytest.raises(UnavailableError, match="MEMORYD_EVM_CONTRACT"):
            await ledger.entrust(ITEM, progress)
        await ledger.close()
    assert node.asked("eth_sendRawTransaction") == 0


async def test_a_key_that_may_not_write_is_a_matter_of_settings(
    deployed: Deployed, node: EvmNode, progress: KeptProgress
) -> None:
    ledger = make(deployed, key=OTHER_KEY)
    with pytest.raises(UnavailableError, match="setWriter"):
        await ledger.entrust(ITEM, progress)
    await ledger.close()


async def test_what_the_contract_refuses_is_rejected(
    node: EvmNode, ledger: EvmLedger, progress: KeptProgress, deployed: Deployed
) -> None:
    with pytest.raises(RejectionError, match="category"):
        await ledger.entrust(entrusted(b"one", category="gossip"), progress)
    call = deployed.contract.functions.anchor(AGENT, content_of(ITEM), 2)
    call.transact({"from": node.rich})
    with pytest.raises(RejectionError, match="another category"):
        await ledger.entrust(ITEM, progress)
    node.answers["eth_call"] = "0x" + "00" * 64
    with pytest.raises(RejectionError, match="CategoryDiffers"):
        await ledger.entrust(ITEM, progress)


async def test_a_transaction_that_was_reverted_in_its_block_is_not_sent_for_ever(
    node: EvmNode, ledger: EvmLedger, progress: KeptProgress, deployed: Deployed
) -> None:
    functions, address = deployed.contract.functions, ledger._account.address
    for _ in range(2):
        await ledger.entrust(ITEM, progress)
        functions.setWriter(address, False).transact({"from": node.rich})
        node.mine()
        functions.setWriter(address, True).transact({"from": node.rich})
    with pytest.raises(RejectionError, match="2 transactions were reverted"):
        await ledger.entrust(ITEM, progress)
    assert len(node.sent) == 2


async def test_an_empty_account_is_said(deployed: Deployed, node: EvmNode, progress: KeptProgress) -> None:
    poor = "0x" + "33" * 32
    ledger = make(deployed, key=poor)
    deployed.contract.functions.setWriter(ledger._account.address, True).transact({"from": node.rich})
    node.answers["eth_estimateGas"] = hex(90_000)
    with pytest.raises(UnavailableError, match="cannot pay"):
        await ledger.entrust(ITEM, progress)
    await ledger.close()


async def test_a_fee_that_the_node_finds_too_low_counts_for_nothing(
    node: EvmNode, ledger: EvmLedger, progress: KeptProgress
) -> None:
    node.answers["eth_sendRawTransaction"] = RpcError("transaction underpriced: SECRET")
    for _ in range(MAX_REVERTED + 1):
        with pytest.raises(UnavailableError, match="MEMORYD_EVM_MAX_FEE_GWEI"):
            await ledger.entrust(ITEM, progress)
    node.answers.clear()
    assert not (await ledger.entrust(ITEM, progress)).final


OWN_FAULTS = {
    "drop": DROP, "no object": Fault.body(b"[1]"), "no result": Fault.body(b"{}"),
    "bad number": Fault.body(b'{"jsonrpc": "2.0", "id": 1, "result": "many"}'),
    "other error": Fault.body(b'{"error": "SECRET"}'),
    "500": Fault.status(500), "400": Fault.status(400), "413": Fault.status(413), "429": Fault.status(429, retry_after="7"),
}  # fmt: skip
"""What web3.py makes of them. tests/integration/ledgers/test_http.py has those of HTTP."""


async def test_a_node_that_fails_is_asked_again_later(
    deployed: Deployed, node: EvmNode, progress: KeptProgress
) -> None:
    ledger = make(deployed, url=node.url + "/SECRET")
    for name, fault in OWN_FAULTS.items():
        node.always = fault
        with pytest.raises(UnavailableError) as failure:
            await ledger.entrust(ITEM, progress)
        told = "".join(traceback.format_exception(failure.value))
        assert "SECRET" not in told, name
        assert KEY[2:] not in told, name
        assert failure.value.retry_in == (7.0 if name == "429" else 0.0), name
    node.heal()
    await ledger.entrust(ITEM, progress)
    await ledger.close()
    assert len(node.sent) == 1


async def test_a_failure_in_the_middle_repeats_nothing(
    deployed: Deployed, node: EvmNode, progress: KeptProgress
) -> None:
    """Each request of the first attempt fails once, one after the other."""
    ledger = make(deployed)
    before = 0
    for good in range(20):
        begun = len(node.requests)
        node._script.extend([None] * good + [Fault.status(500)])
        try:
            await ledger.entrust(ITEM, progress)
        except UnavailableError:
            before += 1
        node.heal()
        if len(node.requests) - begun <= good:
            break
    assert before > 5
    await ledger.entrust(ITEM, progress)
    assert len(node.sent) == 1
    await ledger.close()


async def test_a_redirect_is_not_followed(deployed: Deployed, node: EvmNode, progress: KeptProgress) -> None:
    node.always = Fault.status(307, location=node.url + "/elsewhere")
    ledger = make(deployed)
    with pytest.raises(UnavailableError, match="redirect"):
        await ledger.entrust(ITEM, progress)
    assert [asked.path for asked in node.requests] == ["/"]
    await ledger.close()


async def test_a_contract_that_names_other_addresses_is_not_followed(
    node: EvmNode, ledger: EvmLedger, progress: KeptProgress
) -> None:
    looked_up = encode(
        ["address", "string[]", "bytes", "bytes4", "bytes"],
        [ledger._chain.contract, [f"{node.url}/elsewhere"], b"", b"1234", b""],
    )
    node.answers["eth_call"] = RpcError("execution reverted", code=3, data=f"0x556f1830{looked_up.hex()}")
    with pytest.raises((UnavailableError, RejectionError)):
        await ledger.entrust(ITEM, progress)
    assert {asked.path for asked in node.requests} == {"/"}


@pytest.mark.parametrize("key", ["", "0x", "11" * 31, "SECRET" * 11, "0x" + "00" * 32, "ff" * 32])
def test_a_wrong_key_is_not_quoted(deployed: Deployed, key: str) -> None:
    with pytest.raises(ValueError, match="MEMORYD_EVM_KEY") as failure:
        make(deployed, key=key)
    assert not key or key not in "".join(traceback.format_exception(failure.value)).replace("0x and", "")
