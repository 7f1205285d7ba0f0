"""HTTP with a ledger: one attempt a call, a limit for time and one for size, and each failure one of our two faults.

Promise: a call ends within its time, whatever the server does. No redirect is followed, since it would send a secret elsewhere.
No message contains an address (it may have a key in it), a secret, or what was sent or answered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from providers.circuit import retry_after
from providers.ports import RejectionError, UnavailableError

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import AsyncClient

MAX_ANSWER_BYTES = 1_000_000
PASSING = frozenset({408, 425, 429})
KEY_REFUSED = frozenset({401, 402, 403, 407})
WRONG_ADDRESS = frozenset({404, 405, 410})


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@cache
def _trusted() -> SSLContext:
    """The authorities that sign servers' certificates. Reading them takes longer than most calls, so it is done once."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


class Http:
    """Posts to one ledger. Use it on one event loop."""

    def __init__(
        self, provider: str, *, settings: str, timeout_seconds: float, token: str | None = None
    ) -> None:
        """`settings`: which of them to check when the ledger cannot be used. `token`: sent as a bearer token."""
        self._provider = provider
        self._settings = settings
        self._timeout = timeout_seconds
        self._token = token
        self._client: AsyncClient | None = None

    async def post(
        self, url: str, content: bytes, *, content_type: str, also: frozenset[int] = frozenset()
    ) -> Answer:
        """Post. `also`: statuses that are answers too, beside 200 to 299.

        Raises UnavailableError or RejectionError.
        """
        return await self._send("POST", url, content, {"Content-Type": content_type}, also)

    async def get(self, url: str) -> Answer:
        """Get. Raises UnavailableError or RejectionError."""
        return await self._send("GET", url, b"", {}, frozenset())

    async def _send(
        self, method: str, url: str, content: bytes, headers: dict[str, str], also: frozenset[int]
    ) -> Answer:
        # Here and not above: without ledgers nothing of HTTP is loaded.
        from httpx2 import AsyncClient, DecodingError, HTTPError, InvalidURL, RemoteProtocolError

        headers["Accept-Encoding"] = "identity"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._client is None:
            self._client = AsyncClient(timeout=self._timeout, follow_redirects=False, verify=_trusted())
        body = bytearray()
        try:
            # The client's own time limit starts again with every byte that arrives.
            async with (
                asyncio.timeout(self._timeout),
                self._client.stream(method, url, content=content, headers=headers) as response,
            ):
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > MAX_ANSWER_BYTES:
                        raise self.unavailable(
                            f"the answer is larger than {MAX_ANSWER_BYTES} bytes: check {self._settings}"
                        )
        except TimeoutError:
            raise self.unavailable(f"no answer within {self._timeout:g} s") from None
        except (DecodingError, RemoteProtocolError):
            raise self.misunderstood() from None
        except (HTTPError, InvalidURL, OSError, ValueError):
            raise self.unavailable(f"no connection; if this lasts, check {self._settings}") from None
        answer = Answer(response.status_code, dict(response.headers), bytes(body))
        if not (200 <= answer.status < 300 or answer.status in also):
            raise self._of_status(answer)
        return answer

    def _of_status(self, answer: Answer) -> UnavailableError | RejectionError:
        status = answer.status
        if 300 <= status < 400:
            return self.unavailable(
                f"HTTP {status}, a redirect, which is not followed: check {self._settings}"
            )
        retry_in = retry_after(answer.headers, now=time.time())
        if status in KEY_REFUSED:
            return self.unavailable(f"HTTP {status}: refused; check {self._settings}", retry_in=retry_in)
        if status in WRONG_ADDRESS:
            return self.unavailable(f"HTTP {status}: no such address; check {self._settings}")
        if status in PASSING or not 400 <= status < 500:
            return self.unavailable(f"HTTP {status}", retry_in=retry_in)
        return self.rejected(f"HTTP {status}: it refuses this content")

    def unavailable(self, message: str, *, retry_in: float = 0.0) -> UnavailableError:
        """The ledger cannot be used now."""
        return UnavailableError(f"{self._provider}: {message}", provider=self._provider, retry_in=retry_in)

    def misunderstood(self) -> UnavailableError:
        """The server answered with something else than its protocol."""
        return self.unavailable(f"the answer is not of its protocol; check {self._settings}")

    def rejected(self, message: str) -> RejectionError:
        """The ledger will never take this."""
        return RejectionError(f"{self._provider}: {message}", provider=self._provider)

    def json(self, answer: Answer) -> dict[str, Any]:
        """The body as an object. Raises UnavailableError."""
        try:
            # Not json: however deep the answer is, this one raises, also where a library has raised Python's limit.
            said = from_json(answer.body)
        except ValueError:
            raise self.misunderstood() from None
        if not isinstance(said, dict):
            raise self.misunderstood()
        return said

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
