"""`python -m contracts.deploy` as a user runs it, on a chain whose node mines each transaction at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from eth_account import Account

from contracts.deploy import main
from providers.ledgers.evm.artifact import load
from tests.integration.ledgers.conftest import KEY, OTHER_KEY, Deployed
from tests.support.services.evm_node import CHAIN_ID


@pytest.fixture
def environment(deployed: Deployed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """The settings; the key is in a file."""
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    key.chmod(0o600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORYD_EVM_RPC_URL", deployed.node.url)
    monkeypatch.setenv("MEMORYD_EVM_CHAIN_ID", str(CHAIN_ID))
    monkeypatch.setenv("MEMORYD_EVM_KEY_FILE", str(key))
    deployed.node.before_each["eth_getTransactionReceipt"] = deployed.node.mine
    return monkeypatch


async def test_a_contract_with_a_writer(
    deployed: Deployed, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    owner, writer, third = (
        Account.from_key(KEY).address,
        Account.from_key(OTHER_KEY).address,
        "0x" + "Aa" * 20,
    )
    assert await asyncio.to_thread(main, ["--writer", writer]) == 0
    said = capsys.readouterr()
    name, _, address = said.out.strip().partition("=")
    assert name == "MEMORYD_EVM_CONTRACT"
    assert owner in said.err
    contract = deployed.node.w3.eth.contract(address=address, abi=load().abi)
    assert contract.functions.owner().call() == owner
    assert contract.functions.writers(writer).call()
    assert await asyncio.to_thread(main, ["--contract", address, "--writer", third.lower()]) == 0
    assert contract.functions.writers(deployed.node.w3.to_checksum_address(third)).call()


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("MEMORYD_EVM_CHAIN_ID", "8453", "nothing is sent"),
        ("MEMORYD_EVM_MAX_FEE_GWEI", "0.000000001", "MEMORYD_EVM_MAX_FEE_GWEI"),
        ("MEMORYD_EVM_RPC_URL", "", "MEMORYD_EVM_RPC_URL"),
        ("MEMORYD_EVM_KEY", "SECRET", "both MEMORYD_EVM_KEY and MEMORYD_EVM_KEY_FILE"),
    ],
)
async def test_what_is_wrong_is_said_in_a_sentence(
    deployed: Deployed,
    environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    told: str,
) -> None:
    environment.setenv(variable, value)
    assert await asyncio.to_thread(main, []) == 1
    said = capsys.readouterr().err
    assert told in said
    assert len(said.splitlines()) == 1
    assert "SECRET" not in said
    assert deployed.node.asked("eth_sendRawTransaction") == 0


async def test_only_the_owner_allows_writers(
    deployed: Deployed, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        await asyncio.to_thread(main, ["--contract", deployed.contract.address, "--writer", "0x" + "12" * 20])
        == 1
    )
    assert "NotOwner" in capsys.readouterr().err
    assert await asyncio.to_thread(main, ["--contract", deployed.contract.address, "--writer", "nobody"]) == 1
    assert "nobody is no address" in capsys.readouterr().err
