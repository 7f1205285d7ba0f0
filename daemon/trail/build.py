"""From the settings to the ledgers: the one place that imports `providers.ledgers`, which need packages of the extra `ledgers`.

Promise: a ledger that comes from here is complete. One that lacks a setting or a package is left out, with a
sentence that says which. A setting that is there and wrong fails at start, with a sentence that names it. Nothing of a ledger
that is not named is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.settings import Settings, split_list
from daemon.settings.secret_files import read_secret
from daemon.settings.values import GONE_LEDGERS
from providers.extras import missing
from providers.ports import Ledger

if TYPE_CHECKING:
    from providers.ledgers.evm.account import Account
    from providers.ledgers.evm.deployment import Deployer

PINATA_URL = "https://api.pinata.cloud"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A ledger that is named and not used."""

    name: str
    reason: str
    """What to set or install, in a sentence."""
    gone: bool = False
    """True of one that earlier versions of memoryd had."""


class _Missing(Exception):
    """Settings that are not there."""


def build_ledgers(settings: Settings) -> tuple[tuple[Ledger, ...], tuple[LeftOut, ...]]:
    """The ledgers that MEMORYD_LEDGERS names, in its order, and those of them that are left out.

    Raises ValueError that names the setting to change.
    """
    makers: dict[str, Callable[[], Ledger]] = {
        "rfc3161": lambda: _timestamps(settings),
        "ipfs": lambda: _ipfs(settings),
        "evm": lambda: _evm(settings),
    }
    built: list[Ledger] = []
    left_out: list[LeftOut] = []
    for name in split_list(settings.ledgers):
        if name in GONE_LEDGERS:
            left_out.append(LeftOut(name, GONE_LEDGERS[name], gone=True))
            continue
        try:
            built.append(makers[name]())
        except _Missing as lacking:
            left_out.append(LeftOut(name, str(lacking)))
        except ImportError:
            left_out.append(LeftOut(name, missing("it", "ledgers")))
    return tuple(built), tuple(left_out)


def _require(settings: Settings, names: Sequence[str]) -> None:
    unset = [f"MEMORYD_{name.upper()}" for name in names if getattr(settings, name) is None]
    if unset:
        raise _Missing(f"{' and '.join(unset)} {'is' if len(unset) == 1 else 'are'} not set")


def _timestamps(settings: Settings) -> Ledger:
    _require(settings, ("tsa_url", "tsa_certificate"))
    from providers.ledgers.timestamps import TimestampAuthority, read_certificates

    certificates = read_certificates(settings.tsa_certificate or Path())
    url = _address("MEMORYD_TSA_URL", settings.tsa_url)
    return TimestampAuthority(url, certificates, timeout_seconds=settings.provider_timeout_seconds)


def _ipfs(settings: Settings) -> Ledger:
    jwt = read_secret(settings.pinata_jwt, setting="MEMORYD_PINATA_JWT")
    if settings.ipfs_url is None and jwt is None:
        raise _Missing("neither MEMORYD_IPFS_URL nor MEMORYD_PINATA_JWT is set")
    if settings.ipfs_url is not None and jwt is not None:
        raise ValueError("both MEMORYD_IPFS_URL and MEMORYD_PINATA_JWT are set: unset one of them")
    from providers.ledgers.ipfs import Ipfs, Kubo, Pinata, Pinner

    seconds = settings.provider_timeout_seconds
    pinner: Pinner
    if jwt is not None:
        pinner = Pinata(PINATA_URL, jwt=jwt, timeout_seconds=seconds)
    else:
        token = read_secret(settings.ipfs_token, setting="MEMORYD_IPFS_TOKEN")
        url = _address("MEMORYD_IPFS_URL", settings.ipfs_url)
        pinner = Kubo(url, timeout_seconds=seconds, token=token)
    return Ipfs(pinner, payloads=settings.trail_payloads)


def _evm(settings: Settings) -> Ledger:
    _require(settings, ("evm_contract", "evm_agent_id"))
    account = _evm_account(settings)
    from providers.ledgers.evm.chain import Chain
    from providers.ledgers.evm.ledger import EvmLedger

    chain = Chain(account, contract=settings.evm_contract or "")
    return EvmLedger(chain, agent_id=settings.evm_agent_id or 0)


def build_deployer(settings: Settings, *, tell: Callable[[str], None]) -> Deployer:
    """What puts the contract of the ledger evm on the chain of the settings. `tell`: called with a sentence for each step.

    Raises ValueError with the setting to change, ImportError with the extra to install.
    """
    try:
        account = _evm_account(settings)
        from providers.ledgers.evm.deployment import Deployer
    except _Missing as lacking:
        raise ValueError(str(lacking)) from None
    except ImportError:
        raise ImportError(missing("The contract", "ledgers")) from None
    return Deployer(account, tell=tell)


def _evm_account(settings: Settings) -> Account:
    """The key of the settings on their chain."""
    _require(settings, ("evm_rpc_url", "evm_chain_id"))
    _require(settings, ("evm_key",))
    key = read_secret(settings.evm_key, setting="MEMORYD_EVM_KEY")
    if key is None:
        raise ValueError("MEMORYD_EVM_KEY is empty")
    from providers.ledgers.evm.account import Account

    assert settings.evm_rpc_url is not None
    return Account(
        key,
        url=_address("MEMORYD_EVM_RPC_URL", settings.evm_rpc_url.get_secret_value()),
        chain_id=settings.evm_chain_id or 0,
        max_fee_gwei=settings.evm_max_fee_gwei,
        timeout_seconds=settings.provider_timeout_seconds,
    )


def _address(setting: str, value: str | None) -> str:
    """The address. Raises ValueError that does not quote it."""
    text = (value or "").strip()
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"{setting} is no address: it must begin with http:// or https://")
    return text
