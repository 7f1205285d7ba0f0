"""The server over streamable HTTP, on loopback only, for clients that have the token.

Promise: a request without the token reaches neither the SDK nor the database. Only /health needs no token; it queries the
database at most once a second. Hosts and origins other than this machine are refused, so no page in a browser gets in by
another name. A call without a valid id is refused. A call ends when its client is gone, and when the server stops.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import Server
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from plugins.mcp.hanging_up import EndsWithItsClient, error_answer
from plugins.mcp.unread import BATCH, NAMELESS, OTHER
from plugins.operate.asgi import serve
from plugins.operate.callers import LOCAL, LOOPBACK, name_in
from plugins.operate.metrics.cached import Cache

PATH = "/mcp"
HEALTH = "/health"
HEALTH_SECONDS = 1.0
LARGEST_BODY = 16 * 1024 * 1024
"""Bytes. More than the longest text of a tool, so that a longer text gets an error in words for the model."""


class Door:
    """What stands before the calls: the first of its checks that fails answers.

    Requests are for this machine's own names, and come from no web page, or from one of this machine. GET /health needs no
    token: 200, or 503 while the database does not answer. All else has the token (Authorization: Bearer), which is compared in
    constant time.
    """

    def __init__(
        self,
        calls: ASGIApp,
        token: str,
        answers: Callable[[], Awaitable[bool]],
        *,
        logger: FilteringBoundLogger,
    ) -> None:
        self._calls = calls
        self._hash = _hash(token)
        self._up = Cache(answers, seconds=HEALTH_SECONDS, patience=math.inf)
        self._log = logger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # What is no request is the start and the end of the server.
        answer = await self._answer(scope) if scope["type"] == "http" else None
        await (answer or self._calls)(scope, receive, send)

    async def _answer(self, scope: Scope) -> JSONResponse | None:
        """The answer to a request that is not a call with the token."""
        headers = Headers(scope=scope)
        scheme, _, origin = headers.get("origin", f"http://{LOOPBACK}").partition("://")
        if name_in(headers.get("host", "")) not in LOCAL:
            return error_answer(421, "This server does not have that host name.")
        if scheme != "http" or name_in(origin) not in LOCAL:
            return error_answer(403, "Pages of other sites may not send requests here.")
        if scope["path"] == HEALTH and scope["method"] in ("GET", "HEAD"):
            up = await self._up.get()
            return JSONResponse({"status": "ok" if up else "no database"}, status_code=200 if up else 503)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(_hash(token.strip()), self._hash):
            return None
        self._log.warning("mcp_refused", reason="token")
        refused = error_answer(401, "The token is missing or wrong. Send: Authorization: Bearer TOKEN")
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused


class CallValidator:
    """Refuses a call without a valid id: the SDK would take it for a notification, and not answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        whole = [await receive()]  # RequestBodyLimitMiddleware has read the whole body

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        trouble = _trouble(whole[0].get("body", b""))
        answer = self._app if trouble is None else error_answer(400, trouble)
        await answer(scope, again, send)


def _trouble(body: bytes) -> str | None:
    """The fault of a call that Python reads as JSON."""
    try:
        call = json.loads(body, parse_constant=_refuse, parse_float=_finite)
    except OverflowError:
        return "A number of this call is not a number of JSON."
    except (ValueError, RecursionError):
        return None  # the SDK reports it
    # The SDK needs seconds to describe such faults in a call of many parts.
    if isinstance(call, list):
        return BATCH
    if not isinstance(call, dict) or not (
        isinstance(call.get("method"), str) or {"result", "error"} & call.keys()
    ):
        return OTHER
    return NAMELESS if "id" in call and type(call["id"]) not in (str, int) else None


def _refuse(constant: str) -> float:
    raise OverflowError(constant)


def _finite(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _refuse(text)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


async def serve_http(
    server: Server[Any],
    *,
    token: str,
    listening: socket.socket,
    answers: Callable[[], Awaitable[bool]],
    logger: FilteringBoundLogger,
) -> None:
    """Serves until SIGTERM or Ctrl-C. `answers`: whether the database answers."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=LOOPBACK,
        stateless_http=True,
        json_response=True,
        max_request_body_size=LARGEST_BODY,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    calls = RequestBodyLimitMiddleware(CallValidator(app), LARGEST_BODY)
    host, port = listening.getsockname()[:2]
    logger.info("mcp_listening", url=f"http://{host}:{port}{PATH}")
    door = Door(EndsWithItsClient(calls), token, answers, logger=logger)
    await serve(door, listening, lifespan="on")
