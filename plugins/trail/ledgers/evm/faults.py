"""What goes wrong on a chain, as one of our two faults.

Promise: no message quotes a node, since it could quote a key that stands in an address.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

from web3 import Web3
from web3.exceptions import ContractLogicError, Web3RPCError

from plugins.trail.ledgers.evm.artifact import load
from providers.ports import Rejected, Unavailable

PROVIDER = "evm"

Refusal: TypeAlias = Literal["known", "nonce", "taken", "fee", "funds", "other"]
"""Why a node does not take a transaction: it has it; the nonce was used; another transaction with this nonce waits; the fee
is too low; the sender cannot pay."""

REFUSALS: tuple[tuple[str, Refusal], ...] = (
    ("already known", "known"),
    ("known transaction", "known"),
    ("already imported", "known"),
    ("alreadyknown", "known"),
    ("nonce too low", "nonce"),
    ("nonce is too low", "nonce"),
    ("oldnonce", "nonce"),
    ("invalid nonce", "nonce"),
    ("replacement", "taken"),
    ("underpriced", "fee"),
    ("less than block base fee", "fee"),
    ("fee too low", "fee"),
    ("feetoolow", "fee"),
    ("insufficient", "funds"),
)
"""Words in the messages of geth, reth, erigon, nethermind and besu; the first that is found counts."""


def refusal(error: Web3RPCError) -> Refusal:
    """Why a transaction was not taken."""
    said = error.rpc_response or {}
    details = said.get("error")
    message = str(details.get("message", "")).lower() if isinstance(details, dict) else ""
    return next((why for words, why in REFUSALS if words in message), "other")


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn the failures of web3.py into Unavailable and Rejected. The originals are not chained."""
    fault: Unavailable | Rejected
    try:
        yield
    except ContractLogicError as error:
        fault = of_revert(error)
    except Web3RPCError as error:
        fault = _of_error(error)
    except (Unavailable, Rejected):
        raise
    except Exception:  # noqa: BLE001 - an answer that makes no sense fails in many libraries, each with errors of its own
        fault = unavailable("the answer is not of JSON-RPC for Ethereum; check MEMORYD_EVM_RPC_URL")
    else:
        return
    raise fault from None


def of_revert(error: ContractLogicError) -> Unavailable | Rejected:
    """What the contract says: who may not write is a setting, everything else is about this content."""
    data = error.data if isinstance(error.data, str) else ""
    name = _errors().get(data[:10].lower())
    if name == "NotWriter":
        return unavailable(
            "the contract does not allow this key to anchor: its owner has to call setWriter with the key's address"
        )
    return Rejected(f"{PROVIDER}: the contract refuses it: {name or 'reverted'}", provider=PROVIDER)


def unavailable(message: str, *, retry_in: float = 0.0) -> Unavailable:
    """The chain cannot be used now."""
    return Unavailable(f"{PROVIDER}: {message}", provider=PROVIDER, retry_in=retry_in)


def _of_error(error: Web3RPCError) -> Unavailable:
    if refusal(error) == "funds":
        return unavailable("the key's address cannot pay for a transaction: send it some of the chain's coin")
    details = (error.rpc_response or {}).get("error")
    code: Any = details.get("code") if isinstance(details, dict) else None
    number = f" {code}" if isinstance(code, int) else ""
    return unavailable(f"the node answers with error{number}; if this lasts, check MEMORYD_EVM_RPC_URL")


def _errors() -> dict[str, str]:
    entries = (entry for entry in load().abi if entry["type"] == "error")
    signatures = (
        (one["name"], f"{one['name']}({','.join(part['type'] for part in one['inputs'])})") for one in entries
    )
    return {Web3.to_hex(Web3.keccak(text=text))[:10]: name for name, text in signatures}
