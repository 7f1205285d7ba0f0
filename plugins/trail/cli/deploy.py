"""memoryd anchors deploy: puts the contract of the ledger evm on a chain, and allows keys to write there."""

from __future__ import annotations

import asyncio

import typer

from daemon.cli.common import settings_or_exit
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import remark, say


def deploy(
    contract: str | None = typer.Option(None, help="The address of an existing contract: with --writer."),
    writer: list[str] = typer.Option([], help="An address that may write too; can be given several times."),
    wait: float = typer.Option(300.0, min=0.1, help="Seconds to wait for a block."),
) -> None:
    """Put the contract AgentMemoryAnchor on a chain. The key of the settings becomes its owner, and may write.

    It reads MEMORYD_EVM_RPC_URL, MEMORYD_EVM_CHAIN_ID, MEMORYD_EVM_KEY, and the limits for fees, and
    prints the line for MEMORYD_EVM_CONTRACT. Needs the extra ledgers: see docs/ledgers.md
    """
    with sentences():
        if contract and not writer:
            raise Misuse("--contract needs --writer: an existing contract can only get writers.")
    settings = settings_or_exit(quiet=True)
    with sentences():
        from plugins.trail.build import build_deployer

        try:
            deployer = build_deployer(settings, tell=remark)
        except ImportError as error:
            raise Failure(str(error)) from None
        except ValueError as error:
            raise Misuse(str(error)) from None
        say(f"MEMORYD_EVM_CONTRACT={asyncio.run(deployer.run(contract, writer, wait_seconds=wait))}")
