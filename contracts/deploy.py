"""Puts AgentMemoryAnchor on a chain, and allows keys to write there: see docs/ledgers.md.

    python -m contracts.deploy                                        the key of the settings becomes the owner, and may write
    python -m contracts.deploy --writer 0x...                         and this address may write too
    python -m contracts.deploy --contract 0x... --writer 0x...        a contract that is there: this address may write

It reads MEMORYD_EVM_RPC_URL, MEMORYD_EVM_CHAIN_ID, MEMORYD_EVM_KEY or MEMORYD_EVM_KEY_FILE, and the limits for fees.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from daemon.settings import Settings, SettingsError, load_settings
from providers.ledgers.secret_files import read_secret
from providers.ports import Rejected, Unavailable

WAIT_SECONDS = 300.0


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m contracts.deploy", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--contract", help="address of a contract that is there already")
    parser.add_argument(
        "--writer", action="append", default=[], help="address that may write; can be repeated"
    )
    parser.add_argument(
        "--wait", type=float, default=WAIT_SECONDS, help="seconds to wait for a block (default: 300)"
    )
    given = parser.parse_args(arguments)
    if given.contract and not given.writer:
        parser.error("--contract needs --writer: there is nothing else to do with a contract that is there")
    try:
        address = asyncio.run(_run(load_settings(), given.contract, given.writer, wait_seconds=given.wait))
    except ImportError:
        return _failed("the packages of chains are missing: install the extra memoryd[evm] (docs/ledgers.md)")
    except (SettingsError, ValueError, Unavailable, Rejected) as error:
        return _failed(str(error))
    print(f"MEMORYD_EVM_CONTRACT={address}")  # noqa: T201 - what the user copies
    return 0


async def _run(settings: Settings, contract: str | None, writers: list[str], *, wait_seconds: float) -> str:
    from providers.ledgers.evm.chain import Limits
    from providers.ledgers.evm.deployment import Deployer

    key = read_secret(settings.evm_key, settings.evm_key_file, setting="MEMORYD_EVM_KEY")
    if settings.evm_rpc_url is None or settings.evm_chain_id is None or key is None:
        raise ValueError(
            "set MEMORYD_EVM_RPC_URL, MEMORYD_EVM_CHAIN_ID, and MEMORYD_EVM_KEY or MEMORYD_EVM_KEY_FILE"
        )
    deployer = Deployer(
        url=settings.evm_rpc_url.get_secret_value(),
        chain_id=settings.evm_chain_id,
        key=key,
        limits=Limits(settings.evm_max_fee_gwei, settings.evm_max_tip_gwei),
        timeout_seconds=settings.provider_timeout_seconds,
        tell=_tell,
    )
    try:
        address = contract or await deployer.deploy(wait_seconds=wait_seconds)
        if not contract:
            _tell(f"The contract is at {address}, and {deployer.address} owns it.")
        for writer in writers:
            await deployer.allow(address, writer, wait_seconds=wait_seconds)
            _tell(f"{writer} may write.")
    finally:
        await deployer.close()
    return address


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)  # noqa: T201 - a program's own output


def _failed(message: str) -> int:
    _tell(message)
    return 1


if __name__ == "__main__":
    sys.exit(main())
