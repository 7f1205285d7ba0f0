"""From the settings to the ledgers: the one place that knows which there are.

Promise: a ledger that comes from here is complete (circuit and all). One that lacks a setting or a package is left out, with a
sentence that says which. A setting that is there and wrong fails at start, with a sentence that names it. Nothing of a ledger
that is not named is imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol

from providers.circuit import OnChange, log_change
from providers.ledgers.circuit import CircuitLedger
from providers.ledgers.secret_files import Secret, read_secret
from providers.ports import Ledger

if TYPE_CHECKING:
    from providers.ledgers.witness import ConsistencyProof

PINATA_URL = "https://api.pinata.cloud"
PACKAGES = {"evm": "memoryd[evm]", "rfc3161": "memoryd[timestamps]", "witness": "memoryd[timestamps]"}


class LedgerSettings(Protocol):
    """The settings that ledgers have; daemon/settings says what each means."""

    @property
    def ledgers(self) -> str: ...
    @property
    def trail_payloads(self) -> bool: ...
    @property
    def provider_timeout_seconds(self) -> float: ...
    @property
    def witness_url(self) -> str | None: ...
    @property
    def witness_key(self) -> str | None: ...
    @property
    def tsa_url(self) -> str | None: ...
    @property
    def tsa_certificate(self) -> Path | None: ...
    @property
    def ipfs_url(self) -> str | None: ...
    @property
    def ipfs_token(self) -> Secret | None: ...
    @property
    def ipfs_token_file(self) -> Path | None: ...
    @property
    def pinata_jwt(self) -> Secret | None: ...
    @property
    def pinata_jwt_file(self) -> Path | None: ...
    @property
    def pinata_url(self) -> str | None: ...
    @property
    def evm_rpc_url(self) -> Secret | None: ...
    @property
    def evm_chain_id(self) -> int | None: ...
    @property
    def evm_contract(self) -> str | None: ...
    @property
    def evm_agent_id(self) -> int | None: ...
    @property
    def evm_key(self) -> Secret | None: ...
    @property
    def evm_key_file(self) -> Path | None: ...
    @property
    def evm_confirmations(self) -> int: ...
    @property
    def evm_max_fee_gwei(self) -> float: ...
    @property
    def evm_max_tip_gwei(self) -> float: ...


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A ledger that is named and not used."""

    name: str
    reason: str
    """What to set or install, in a sentence."""


class _Missing(Exception):
    """Settings that are not there."""


def build_ledgers(
    settings: LedgerSettings, *, consistency: ConsistencyProof, on_circuit_change: OnChange = log_change
) -> tuple[tuple[Ledger, ...], tuple[LeftOut, ...]]:
    """The ledgers that MEMORYD_LEDGERS names, in its order, and those of them that are left out.

    `consistency` gives a witness the proofs that the trail has grown. Raises ValueError that names the setting to change.
    """
    makers: dict[str, Callable[[], Ledger]] = {
        "witness": lambda: _witness(settings, consistency),
        "rfc3161": lambda: _timestamps(settings),
        "ipfs": lambda: _ipfs(settings),
        "evm": lambda: _evm(settings),
    }
    built: list[Ledger] = []
    left_out: list[LeftOut] = []
    for name in dict.fromkeys(part.strip().lower() for part in settings.ledgers.split(",") if part.strip()):
        if name not in makers:
            raise ValueError(f"MEMORYD_LEDGERS names {name!r}: it can name {', '.join(makers)}")
        try:
            ledger = makers[name]()
        except _Missing as missing:
            left_out.append(LeftOut(name, str(missing)))
        except ImportError:
            left_out.append(
                LeftOut(
                    name, f"its packages are missing: install the extra {PACKAGES[name]} (docs/ledgers.md)"
                )
            )
        else:
            built.append(
                CircuitLedger(ledger, clock=time.monotonic, rng=Random(), on_change=on_circuit_change)
            )
    return tuple(built), tuple(left_out)


def _require(settings: LedgerSettings, names: Sequence[str]) -> None:
    missing = [f"MEMORYD_{name.upper()}" for name in names if getattr(settings, name) is None]
    if missing:
        raise _Missing(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set")


def _witness(settings: LedgerSettings, consistency: ConsistencyProof) -> Ledger:
    _require(settings, ("witness_url", "witness_key"))
    from providers.ledgers.cosignatures import WitnessKey
    from providers.ledgers.witness import Witness

    try:
        key = WitnessKey.read(settings.witness_key or "")
    except ValueError as error:
        raise ValueError(f"MEMORYD_WITNESS_KEY: {error}") from None
    url = _address("MEMORYD_WITNESS_URL", settings.witness_url)
    return Witness(url, key, consistency=consistency, timeout_seconds=settings.provider_timeout_seconds)


def _timestamps(settings: LedgerSettings) -> Ledger:
    _require(settings, ("tsa_url", "tsa_certificate"))
    from providers.ledgers.timestamps import TimestampAuthority, read_certificates

    certificates = read_certificates(settings.tsa_certificate or Path())
    url = _address("MEMORYD_TSA_URL", settings.tsa_url)
    return TimestampAuthority(url, certificates, timeout_seconds=settings.provider_timeout_seconds)


def _ipfs(settings: LedgerSettings) -> Ledger:
    jwt = read_secret(settings.pinata_jwt, settings.pinata_jwt_file, setting="MEMORYD_PINATA_JWT")
    if settings.ipfs_url is None and jwt is None:
        raise _Missing("neither MEMORYD_IPFS_URL nor MEMORYD_PINATA_JWT is set")
    if settings.ipfs_url is not None and jwt is not None:
        raise ValueError("both MEMORYD_IPFS_URL and MEMORYD_PINATA_JWT are set: unset one of them")
    from providers.ledgers.ipfs import Ipfs, Kubo, Pinata, Pinner

    seconds = settings.provider_timeout_seconds
    pinner: Pinner
    if jwt is not None:
        url = _address("MEMORYD_PINATA_URL", settings.pinata_url or PINATA_URL)
        pinner = Pinata(url, jwt=jwt, timeout_seconds=seconds)
    else:
        token = read_secret(settings.ipfs_token, settings.ipfs_token_file, setting="MEMORYD_IPFS_TOKEN")
        url = _address("MEMORYD_IPFS_URL", settings.ipfs_url)
        pinner = Kubo(url, timeout_seconds=seconds, token=token)
    return Ipfs(pinner, payloads=settings.trail_payloads)


def _evm(settings: LedgerSettings) -> Ledger:
    _require(settings, ("evm_rpc_url", "evm_chain_id", "evm_contract", "evm_agent_id"))
    key = read_secret(settings.evm_key, settings.evm_key_file, setting="MEMORYD_EVM_KEY")
    if key is None:
        raise _Missing("neither MEMORYD_EVM_KEY nor MEMORYD_EVM_KEY_FILE is set")
    from providers.ledgers.evm.chain import Chain, Limits
    from providers.ledgers.evm.ledger import EvmLedger

    assert settings.evm_rpc_url is not None
    chain = Chain(
        url=_address("MEMORYD_EVM_RPC_URL", settings.evm_rpc_url.get_secret_value()),
        chain_id=settings.evm_chain_id or 0,
        contract=settings.evm_contract or "",
        key=key,
        limits=Limits(max_fee_gwei=settings.evm_max_fee_gwei, max_tip_gwei=settings.evm_max_tip_gwei),
        timeout_seconds=settings.provider_timeout_seconds,
    )
    return EvmLedger(chain, agent_id=settings.evm_agent_id or 0, confirmations=settings.evm_confirmations)


def _address(setting: str, value: str | None) -> str:
    """The address. Raises ValueError that does not quote it."""
    text = (value or "").strip()
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"{setting} is no address: it must begin with http:// or https://")
    return text
