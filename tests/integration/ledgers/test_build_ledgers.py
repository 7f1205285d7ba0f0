"""From settings to ledgers: what is complete is built, what lacks something is left out, what is wrong is refused."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from daemon.settings import Settings, SettingsError, load_settings
from daemon.trail.build import build_ledgers
from providers.ports import Unavailable
from tests.support.services.ipfs_server import IpfsServer
from tests.support.services.ledgers import KeptProgress, entrusted
from tests.support.services.played_server import Fault
from tests.support.services.tsa_server import TsaServer
from tests.support.services.witness_server import NAME, vkey

URL = "http://127.0.0.1:1"
KEY = "5" * 64


async def no_proof(old: int, new: int) -> list[bytes]:
    raise LookupError


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """All settings of all ledgers."""
    monkeypatch.chdir(tmp_path)
    with TsaServer() as tsa:
        (tmp_path / "tsa.pem").write_bytes(tsa.pem())
    return {
        "ledgers": "witness, rfc3161,ipfs,evm", "witness_url": URL,
        "witness_key": vkey(NAME, Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)),
        "tsa_url": URL, "tsa_certificate": tmp_path / "tsa.pem", "ipfs_url": URL, "evm_rpc_url": URL,
        "evm_chain_id": 8453, "evm_contract": "0x" + "12" * 20, "evm_agent_id": 16905, "evm_key": KEY,
    }  # fmt: skip


def settings(complete: dict[str, Any], **others: Any) -> Settings:
    return load_settings(**{**complete, **others})


async def test_all_are_built(complete: dict[str, Any]) -> None:
    ledgers, left_out = build_ledgers(settings(complete), consistency=no_proof)
    assert [one.name for one in ledgers] == ["witness", "rfc3161", "ipfs", "evm"]
    assert [one.keeps_memories for one in ledgers] == [False, False, False, True]
    assert left_out == ()
    ledgers, _ = build_ledgers(settings(complete, ledgers="ipfs", trail_payloads=True), consistency=no_proof)
    assert [one.keeps_memories for one in ledgers] == [True]
    for one in ledgers:
        await one.close()


def test_none_are_built_unless_named(complete: dict[str, Any]) -> None:
    assert build_ledgers(settings(complete, ledgers=""), consistency=no_proof) == ((), ())


@pytest.mark.parametrize(
    ("ledger", "missing"),
    [
        ("witness", "witness_url"), ("witness", "witness_key"), ("rfc3161", "tsa_url"), ("rfc3161", "tsa_certificate"),
        ("ipfs", "ipfs_url"), ("evm", "evm_rpc_url"), ("evm", "evm_chain_id"), ("evm", "evm_contract"),
        ("evm", "evm_agent_id"), ("evm", "evm_key"),
    ],
)  # fmt: skip
def test_what_lacks_a_setting_is_left_out(complete: dict[str, Any], ledger: str, missing: str) -> None:
    del complete[missing]
    ledgers, left_out = build_ledgers(settings(complete), consistency=no_proof)
    assert [one.name for one in left_out] == [ledger]
    assert f"MEMORYD_{missing.upper()}" in left_out[0].reason
    assert len(ledgers) == 3


def test_what_lacks_its_packages_is_left_out(
    complete: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("web3", "rfc3161_client"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [
        one
        for one in sys.modules
        if one.startswith(("providers.ledgers.evm.", "providers.ledgers.timestamps"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    ledgers, left_out = build_ledgers(settings(complete), consistency=no_proof)
    assert [one.name for one in ledgers] == ["witness", "ipfs"]
    assert ["'.[ledgers]'" in one.reason for one in left_out] == [True, True]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("witness_key", "SECRET"), ("witness_url", "SECRET"), ("tsa_url", "ftp://SECRET"), ("tsa_certificate", "/SECRET"),
        ("tsa_certificate", __file__), ("ipfs_url", "SECRET"), ("evm_rpc_url", "SECRET"), ("evm_contract", "SECRET"),
        ("evm_key", "SECRET"), ("pinata_jwt", "SECRET"), ("evm_key_file", "/SECRET"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_and_not_quoted(complete: dict[str, Any], setting: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"MEMORYD_{setting.upper()}") as failure:
        build_ledgers(settings(complete, **{setting: value}), consistency=no_proof)
    told = "".join(traceback.format_exception(failure.value))
    assert "SECRET" not in told.replace("wrong_setting", "")
    assert KEY not in told


@pytest.mark.parametrize(
    ("mode", "content", "told"),
    [
        (0o644, KEY, "chmod 600"),
        (0o660, KEY, "chmod 600"),
        (0o600, "", "holds no key"),
        (0o600, "\xff", "holds no key"),
    ],
)
def test_a_key_file_that_others_can_read_is_refused(
    complete: dict[str, Any], tmp_path: Path, mode: int, content: str, told: str
) -> None:
    path = tmp_path / "key"
    path.write_text(content)
    path.chmod(mode)
    del complete["evm_key"]
    with pytest.raises(ValueError, match=told):
        build_ledgers(settings(complete, evm_key_file=path), consistency=no_proof)
    path.write_text(KEY + "\n")
    path.chmod(0o400)
    ledgers, _ = build_ledgers(settings(complete, evm_key_file=path), consistency=no_proof)
    assert len(ledgers) == 4


def test_an_unknown_ledger_is_refused() -> None:
    with pytest.raises(SettingsError, match="witness, rfc3161, ipfs, evm"):
        load_settings(ledgers="ipfs,gold")


async def test_an_outage_is_one_call_a_pause(complete: dict[str, Any]) -> None:
    changes: list[str] = []
    with IpfsServer() as server:
        server.always = Fault.status(500)
        (ipfs,), _ = build_ledgers(
            settings(complete, ledgers="ipfs", ipfs_url=server.url),
            consistency=no_proof,
            on_circuit_change=lambda state, name, _: changes.append(f"{name} {state}"),
        )
        for _ in range(5):
            with pytest.raises(Unavailable) as failure:
                await ipfs.entrust(entrusted(b"one"), KeptProgress())
            assert failure.value.retry_in > 0
        assert len(server.requests) == 1
        assert changes == ["ipfs open"]
        await ipfs.close()
