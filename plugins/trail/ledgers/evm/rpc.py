"""JSON-RPC with a node of an EVM chain, as a provider of web3.py.

Promise: each request has the limits of `Http`: for time, for size, and no redirect. web3.py fetches nothing else by itself.
"""

from __future__ import annotations

from typing import Any

from web3 import AsyncWeb3
from web3.middleware import ExtraDataToPOAMiddleware
from web3.providers.async_base import AsyncJSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from plugins.trail.ledgers.http import Http
from providers.ports import Rejected, Unavailable

PROVIDER = "evm"
SETTINGS = "MEMORYD_EVM_RPC_URL"
ERRORS_OVER_HTTP = frozenset({400, 500})
"""Some nodes answer an error of JSON-RPC with one of these."""


class LimitedProvider(AsyncJSONBaseProvider):
    """Asks one node."""

    global_ccip_read_enabled = False
    """Else a node could name any address for web3.py to ask."""

    def __init__(self, url: str, *, timeout_seconds: float) -> None:
        super().__init__()
        self.http = Http(PROVIDER, settings=SETTINGS, timeout_seconds=timeout_seconds)
        self._url = url

    async def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Ask once. Raises Unavailable: what HTTP refuses is never about the content here."""
        request = self.encode_rpc_request(method, params)
        try:
            answer = await self.http.post(
                self._url, request, content_type="application/json", also=ERRORS_OVER_HTTP
            )
        except Rejected as fault:
            raise Unavailable(str(fault), provider=PROVIDER) from None
        try:
            said = self.http.json(answer)
        except Unavailable:
            if answer.status in ERRORS_OVER_HTTP:
                raise self.http.unavailable(f"HTTP {answer.status}") from None
            raise
        if not isinstance(said.get("error"), dict) and (
            "result" not in said or said.get("error") is not None
        ):
            raise self.http.misunderstood()
        return said  # type: ignore[return-value]

    async def disconnect(self) -> None:
        """Close connections."""
        await self.http.close()


def connect(url: str, *, timeout_seconds: float) -> tuple[AsyncWeb3[Any], LimitedProvider]:
    """web3.py over a limited provider. Chains of few signers, whose blocks have longer extra data, are understood."""
    provider = LimitedProvider(url, timeout_seconds=timeout_seconds)
    return AsyncWeb3(provider, middleware=[ExtraDataToPOAMiddleware]), provider
