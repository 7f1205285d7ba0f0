"""`memoryd anchors deploy` as a user runs it, on a chain whose node mines each transaction at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from plugins.trail.ledgers.evm.rpc import load
from tests.integration.ledgers.conftest import KEY, OTHER_KEY, Deployed
from tests.support.processes.commands import Commands, Finished
from tests.support.services.evm_node import CHAIN_ID


class Deploy:
    """Runs the command. The key is in a file."""

    def __init__(self, deployed: Deployed, folder: Path) -> None:
        key = folder / "key"
        key.write_text(f"{KEY}\n")
        key.chmod(0o600)
        deployed.node.before_each["eth_getTransactionReceipt"] = deployed.node.mine
        self._memoryd = Commands(None, folder)
        self._settings = {"evm_rpc_url": deployed.node.url, "evm_chain_id": CHAIN_ID, "evm_key_file": key}

    async def __call__(self, *arguments: str, **settings: Any) -> Finished:
        return await self._memoryd("anchors", "deploy", *arguments, **{**self._settings, **settings})


@pytest.fixture
def deploy(deployed: Deployed, tmp_path: Path) -> Deploy:
    return Deploy(deployed, tmp_path)


async def test_a_contract_with_a_writer(deployed: Deployed, deploy: Deploy) -> None:
    owner, writer = Account.from_key(KEY).address, Account.from_key(OTHER_KEY).address
    third = "0x" + "Aa" * 20
    said = await deploy("--writer", writer)
    assert said.code == 0, said.err
    name, _, address = said.out.strip().partition("=")
    assert name == "MEMORYD_EVM_CONTRACT"
    assert owner in said.err
    contract = deployed.node.w3.eth.contract(address=address, abi=load().abi)
    assert contract.functions.owner().call() == owner
    assert contract.functions.writers(writer).call()
    assert (await deploy("--contract", address, "--writer", third.lower())).code == 0
    assert contract.functions.writers(deployed.node.w3.to_checksum_address(third)).call()


@pytest.mark.parametrize(
    ("setting", "value", "told", "code"),
    [
        ("evm_chain_id", 8453, "nothing is sent", 1),
        ("evm_max_fee_gwei", 0.000000001, "MEMORYD_EVM_MAX_FEE_GWEI", 1),
        ("evm_rpc_url", "", "MEMORYD_EVM_RPC_URL is not set", 2),
        ("evm_key", "SECRET", "both MEMORYD_EVM_KEY and MEMORYD_EVM_KEY_FILE", 2),
    ],
)
async def test_what_is_wrong_is_said_in_a_sentence(
    deployed: Deployed, deploy: Deploy, setting: str, value: Any, told: str, code: int
) -> None:
    said = await deploy(**{setting: value})
    assert said.code == code
    assert told in said.err
    assert len(said.err.splitlines()) == 1
    assert "SECRET" not in said.err
    assert deployed.node.asked("eth_sendRawTransaction") == 0


async def test_only_the_owner_allows_writers(deployed: Deployed, deploy: Deploy) -> None:
    there = ("--contract", deployed.contract.address)
    stranger = await deploy(*there, "--writer", "0x" + "12" * 20)
    assert (stranger.code, "NotOwner" in stranger.err) == (1, True)
    nobody = await deploy(*there, "--writer", "nobody")
    assert (nobody.code, "nobody is no address" in nobody.err) == (1, True)
    assert (await deploy(*there)).code == 2
