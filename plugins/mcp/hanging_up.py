"""HTTP requests whose client is gone, and requests that the stop of the server ends.

Promise: a call ends with its client (the SDK would finish it), and a waiting client gets an answer when the server stops.
"""

from __future__ import annotations

import asyncio

import anyio
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SERVER_ERROR = -32000


def error_answer(status: int, message: str) -> JSONResponse:
    """An error as JSON-RPC, whose message clients show to a person or a model."""
    error = {"code": SERVER_ERROR, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=status)


class EndsWithItsClient:
    """Cancels each request whose client is gone before the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(receive, send)
        with anyio.CancelScope() as call:
            watching = asyncio.create_task(request.watch(call))
            try:
                await self._app(scope, request.receive, request.send)
            except asyncio.CancelledError:
                if request.begun or request.gone.is_set():
                    raise
                await error_answer(503, "The server was stopped before this call was done.")(
                    scope, receive, send
                )
            finally:
                watching.cancel()


class _Request:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._read = asyncio.Event()
        self._ended = False
        self.begun = False
        """Whether a part of the answer was sent."""
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        if self._read.is_set():  # Only the end of the connection can follow; `watch` waits for it.
            await self.gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone.set()
        if not message.get("more_body", False):
            self._read.set()
        return message

    async def send(self, message: Message) -> None:
        self.begun = True
        self._ended = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    async def watch(self, call: anyio.CancelScope) -> None:
        """Cancels the call if the client goes before the answer."""
        await self._read.wait()
        while not self.gone.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                self.gone.set()
        if not self._ended:
            call.cancel()
