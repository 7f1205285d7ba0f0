"""JSON-RPC with a node of an EVM chain, as a provider of web3.py; its failures as our two faults; the compiled contract.

Promise: each request has the limits of `Http`: for time, for size, and no redirect. web3.py fetches nothing else by itself. No
message quotes a node, since it could quote a key in an address. Nothing is compiled at run time: contract/compile.cjs did it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from web3 import AsyncWeb3, Web3
from web3.exceptions import ContractLogicError, Web3RPCError
from web3.middleware import ExtraDataToPOAMiddleware
from web3.providers.async_base import AsyncJSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from plugins.trail.ledgers.http import Http
from providers.ports import RejectionError, UnavailableError

PATH = Path(__file__).parent / "contract" / "AgentMemoryAnchor.json"

CATEGORIES: Mapping[str, int] = MappingProxyType(
    {"milestone": 0, "decision": 1, "incident": 2, "checkpoint": 3}
)
"""The numbers that the contract has for them."""


@dataclass(frozen=True, slots=True)
class Artifact:
    abi: list[dict[str, Any]]
    bytecode: str
    """Hex, with 0x: what creates the contract."""


@cache
def load() -> Artifact:
    said = json.loads(PATH.read_text("utf-8"))
    return Artifact(said["abi"], said["bytecode"])


SETTINGS = "MEMORYD_EVM_RPC_URL"
ERRORS_OVER_HTTP = frozenset({400, 500})
"""Some nodes answer an error of JSON-RPC with one of these."""


class LimitedProvider(AsyncJSONBaseProvider):
    global_ccip_read_enabled = False
    """Else a node could name any address for web3.py to ask."""

    def __init__(self, url: str, *, timeout_seconds: float) -> None:
        super().__init__()
        self.http = Http(PROVIDER, settings=SETTINGS, timeout_seconds=timeout_seconds)
        self._url = url

    async def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Ask once. Raises UnavailableError: what HTTP refuses is never about the content here."""
        request = self.encode_rpc_request(method, params)
        try:
            answer = await self.http.post(
                self._url, request, content_type="application/json", also=ERRORS_OVER_HTTP
            )
        except RejectionError as fault:
            raise UnavailableError(str(fault), provider=PROVIDER) from None
        try:
            said = self.http.json(answer)
        except UnavailableError:
            if answer.status in ERRORS_OVER_HTTP:
                raise self.http.unavailable(f"HTTP {answer.status}") from None
            raise
        if not isinstance(said.get("error"), dict) and (
            "result" not in said or said.get("error") is not None
        ):
            raise self.http.misunderstood()
        return said  # type: ignore[return-value]

    async def disconnect(self) -> None:
        await self.http.close()


def connect(url: str, *, timeout_seconds: float) -> tuple[AsyncWeb3[Any], LimitedProvider]:
    """web3.py over a limited provider. Chains of few signers, whose blocks have longer extra data, are understood."""
    provider = LimitedProvider(url, timeout_seconds=timeout_seconds)
    return AsyncWeb3(provider, middleware=[ExtraDataToPOAMiddleware]), provider


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
    said = error.rpc_response or {}
    details = said.get("error")
    message = str(details.get("message", "")).lower() if isinstance(details, dict) else ""
    return next((why for words, why in REFUSALS if words in message), "other")


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn the failures of web3.py into UnavailableError and RejectionError. The originals are not chained."""
    fault: UnavailableError | RejectionError
    try:
        yield
    except ContractLogicError as error:
        fault = of_revert(error)
    except Web3RPCError as error:
        fault = _of_error(error)
    except (UnavailableError, RejectionError):
        raise
    except Exception:  # noqa: BLE001 - an answer that makes no sense fails in many libraries, each with errors of its own
        fault = unavailable("the answer is not of JSON-RPC for Ethereum; check MEMORYD_EVM_RPC_URL")
    else:
        return
    raise fault from None


def of_revert(error: ContractLogicError) -> UnavailableError | RejectionError:
    """What the contract says: who may not write is a setting, everything else is about this content."""
    data = error.data if isinstance(error.data, str) else ""
    name = _errors().get(data[:10].lower())
    if name == "NotWriter":
        return unavailable(
            "the contract does not allow this key to anchor: its owner has to call setWriter with the key's address"
        )
    return RejectionError(f"{PROVIDER}: the contract refuses it: {name or 'reverted'}", provider=PROVIDER)


def unavailable(message: str, *, retry_in: float = 0.0) -> UnavailableError:
    return UnavailableError(f"{PROVIDER}: {message}", provider=PROVIDER, retry_in=retry_in)


def _of_error(error: Web3RPCError) -> UnavailableError:
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
