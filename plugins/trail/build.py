"""From the settings to the ledgers: the one place that imports their modules, which need the extra `ledgers`.

Promise: each ledger from here is complete. A ledger that lacks a setting or a package is skipped, with a sentence that says
which. A wrong setting fails at start, with a sentence that names it. Modules of ledgers that are not named are not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.settings import Settings, split_list
from daemon.settings.values import read_secret
from plugins.trail.ports import Ledger
from plugins.trail.settings import GONE_LEDGERS, Ledgers, Trail
from providers.ports import missing

if TYPE_CHECKING:
    from plugins.trail.ledgers.evm.account import Account
    from plugins.trail.ledgers.evm.deployment import Deployer

PINATA_URL = "https://api.pinata.cloud"


@dataclass(frozen=True, slots=True)
class SkippedLedger:
    name: str
    reason: str
    """What to set or install, in a sentence."""
    gone: bool = False
    """Whether only earlier versions of memoryd had it."""


class _MissingSettingError(Exception):
    """A setting or a package is missing."""


def build_ledgers(settings: Settings) -> tuple[tuple[Ledger, ...], tuple[SkippedLedger, ...]]:
    """The ledgers that MEMORYD_LEDGERS names, in its order, and the skipped ones.

    Raises ValueError that names the setting to change.
    """
    makers: dict[str, Callable[[], Ledger]] = {
        "rfc3161": lambda: _timestamps(settings),
        "ipfs": lambda: _ipfs(settings),
        "evm": lambda: _evm(settings),
    }
    built: list[Ledger] = []
    left_out: list[SkippedLedger] = []
    for name in split_list(settings.section(Ledgers).ledgers):
        if name in GONE_LEDGERS:
            left_out.append(SkippedLedger(name, GONE_LEDGERS[name], gone=True))
            continue
        try:
            built.append(makers[name]())
        except _MissingSettingError as lacking:
            left_out.append(SkippedLedger(name, str(lacking)))
        except ImportError:
            left_out.append(SkippedLedger(name, missing("it", "ledgers")))
    return tuple(built), tuple(left_out)


def _require(settings: Ledgers, names: Sequence[str]) -> None:
    unset = [f"MEMORYD_{name.upper()}" for name in names if getattr(settings, name) is None]
    if unset:
        raise _MissingSettingError(f"{' and '.join(unset)} {'is' if len(unset) == 1 else 'are'} not set")


def _timestamps(settings: Settings) -> Ledger:
    own = settings.section(Ledgers)
    _require(own, ("tsa_url", "tsa_certificate"))
    from plugins.trail.ledgers.timestamps import TimestampAuthority, read_certificates

    certificates = read_certificates(own.tsa_certificate or Path())
    url = _address("MEMORYD_TSA_URL", own.tsa_url)
    return TimestampAuthority(url, certificates, timeout_seconds=settings.provider_timeout_seconds)


def _ipfs(settings: Settings) -> Ledger:
    own = settings.section(Ledgers)
    jwt = read_secret(own.pinata_jwt, setting="MEMORYD_PINATA_JWT")
    if own.ipfs_url is None and jwt is None:
        raise _MissingSettingError("neither MEMORYD_IPFS_URL nor MEMORYD_PINATA_JWT is set")
    if own.ipfs_url is not None and jwt is not None:
        raise ValueError("both MEMORYD_IPFS_URL and MEMORYD_PINATA_JWT are set: unset one of them")
    from plugins.trail.ledgers.ipfs import Ipfs, Kubo, Pinata

    seconds = settings.provider_timeout_seconds
    pinner: Kubo | Pinata
    if jwt is not None:
        pinner = Pinata(PINATA_URL, jwt=jwt, timeout_seconds=seconds)
    else:
        token = read_secret(own.ipfs_token, setting="MEMORYD_IPFS_TOKEN")
        url = _address("MEMORYD_IPFS_URL", own.ipfs_url)
        pinner = Kubo(url, timeout_seconds=seconds, token=token)
    return Ipfs(pinner, payloads=settings.section(Trail).trail_payloads)


def _evm(settings: Settings) -> Ledger:
    own = settings.section(Ledgers)
    _require(own, ("evm_contract", "evm_agent_id"))
    account = _evm_account(settings)
    from plugins.trail.ledgers.evm.chain import Chain
    from plugins.trail.ledgers.evm.ledger import EvmLedger

    chain = Chain(account, contract=own.evm_contract or "")
    return EvmLedger(chain, agent_id=own.evm_agent_id or 0)


def build_deployer(settings: Settings, *, tell: Callable[[str], None]) -> Deployer:
    """The deployer of the contract of the ledger evm. `tell`: called with a sentence for each step.

    Raises ValueError with the setting to change, ImportError with the extra to install.
    """
    try:
        account = _evm_account(settings)
        from plugins.trail.ledgers.evm.deployment import Deployer
    except _MissingSettingError as lacking:
        raise ValueError(str(lacking)) from None
    except ImportError:
        raise ImportError(missing("The contract", "ledgers")) from None
    return Deployer(account, tell=tell)


def _evm_account(settings: Settings) -> Account:
    own = settings.section(Ledgers)
    _require(own, ("evm_rpc_url", "evm_chain_id"))
    _require(own, ("evm_key",))
    key = read_secret(own.evm_key, setting="MEMORYD_EVM_KEY")
    if key is None:
        raise ValueError("MEMORYD_EVM_KEY is empty")
    from plugins.trail.ledgers.evm.account import Account

    assert own.evm_rpc_url is not None
    return Account(
        key,
        url=_address("MEMORYD_EVM_RPC_URL", own.evm_rpc_url.get_secret_value()),
        chain_id=own.evm_chain_id or 0,
        max_fee_gwei=own.evm_max_fee_gwei,
        timeout_seconds=settings.provider_timeout_seconds,
    )


def _address(setting: str, value: str | None) -> str:
    """The address. Raises ValueError that does not quote it."""
    text = (value or "").strip()
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"{setting} is not an address: it must begin with http:// or https://")
    return text
