"""From settings to ledgers: what is complete is built, what lacks something is left out, what is wrong is refused."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from daemon.settings import Settings, SettingsError, load_settings
from plugins.trail.build import build_ledgers
from tests.support.services.tsa_server import TsaServer

URL = "http://127.0.0.1:1"
KEY = "5" * 64


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """All settings of all ledgers."""
    monkeypatch.chdir(tmp_path)
    with TsaServer() as tsa:
        (tmp_path / "tsa.pem").write_bytes(tsa.pem())
    return {
        "ledgers": "rfc3161, ipfs,evm", "tsa_url": URL, "tsa_certificate": tmp_path / "tsa.pem", "ipfs_url": URL,
        "evm_rpc_url": URL, "evm_chain_id": 8453, "evm_contract": "0x" + "12" * 20, "evm_agent_id": 16905, "evm_key": KEY,
    }  # fmt: skip


def settings(complete: dict[str, Any], **others: Any) -> Settings:
    return load_settings(**{**complete, **others})


async def test_all_are_built(complete: dict[str, Any]) -> None:
    ledgers, left_out = build_ledgers(settings(complete))
    assert [one.name for one in ledgers] == ["rfc3161", "ipfs", "evm"]
    assert [one.keeps_memories for one in ledgers] == [False, False, True]
    assert left_out == ()
    ledgers, _ = build_ledgers(settings(complete, ledgers="ipfs", trail_payloads=True))
    assert [one.keeps_memories for one in ledgers] == [True]
    for one in ledgers:
        await one.close()


def test_none_are_built_unless_named(complete: dict[str, Any]) -> None:
    assert build_ledgers(settings(complete, ledgers="")) == ((), ())


@pytest.mark.parametrize(
    ("ledger", "missing"),
    [
        ("rfc3161", "tsa_url"), ("rfc3161", "tsa_certificate"),
        ("ipfs", "ipfs_url"), ("evm", "evm_rpc_url"), ("evm", "evm_chain_id"), ("evm", "evm_contract"),
        ("evm", "evm_agent_id"), ("evm", "evm_key"),
    ],
)  # fmt: skip
def test_what_lacks_a_setting_is_left_out(complete: dict[str, Any], ledger: str, missing: str) -> None:
    del complete[missing]
    ledgers, left_out = build_ledgers(settings(complete))
    assert [one.name for one in left_out] == [ledger]
    assert f"MEMORYD_{missing.upper()}" in left_out[0].reason
    assert len(ledgers) == 2


def test_what_lacks_its_packages_is_left_out(
    complete: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("web3", "rfc3161_client"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [
        one
        for one in sys.modules
        if one.startswith(("plugins.trail.ledgers.evm.", "plugins.trail.ledgers.timestamps"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    ledgers, left_out = build_ledgers(settings(complete))
    assert [one.name for one in ledgers] == ["ipfs"]
    assert ["the extra ledgers of memoryd" in one.reason for one in left_out] == [True, True]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("tsa_url", "ftp://SECRET"), ("tsa_certificate", "/SECRET"),
        ("tsa_certificate", __file__), ("ipfs_url", "SECRET"), ("evm_rpc_url", "SECRET"), ("evm_contract", "SECRET"),
        ("evm_key", "SECRET"), ("pinata_jwt", "SECRET"), ("evm_key", "file:/SECRET"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_and_not_quoted(complete: dict[str, Any], setting: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"MEMORYD_{setting.upper()}") as failure:
        build_ledgers(settings(complete, **{setting: value}))
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
    named = settings(complete, evm_key=f"file:{path}")
    with pytest.raises(ValueError, match=told):
        build_ledgers(named)
    path.write_text(KEY + "\n")
    path.chmod(0o400)
    ledgers, _ = build_ledgers(named)
    assert len(ledgers) == 3


def test_an_unknown_ledger_is_refused() -> None:
    with pytest.raises(SettingsError, match="rfc3161, ipfs, evm"):
        load_settings(ledgers="ipfs,gold")


def test_a_ledger_of_earlier_versions_is_left_out(complete: dict[str, Any]) -> None:
    ledgers, left_out = build_ledgers(settings(complete, ledgers="witness,ipfs"))
    assert [one.name for one in ledgers] == ["ipfs"]
    assert [(one.name, "rfc3161" in one.reason) for one in left_out] == [("witness", True)]
