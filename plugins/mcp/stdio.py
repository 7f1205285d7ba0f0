"""The server on standard input and output, as a child of its client.

Promise: only the protocol is written to standard output. Each call gets an answer, also a call that cannot be read. A client
may begin as it likes after its probes. When the client goes, its waiting calls are ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import ObjectSendStream
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from structlog.typing import FilteringBoundLogger

from plugins.mcp.unread import answer_nameless, answer_unread

Item = SessionMessage | Exception
PROBES = ("server/discover", "ping")
"""Requests that settle no protocol while they come before all others."""


async def serve_stdio(
    server: Server[Any], close: Callable[[], Awaitable[None]], *, logger: FilteringBoundLogger
) -> None:
    """Serves until the client closes our input, or a signal ends the process."""
    loop = asyncio.get_running_loop()
    ending: set[asyncio.Task[None]] = set()

    async def end() -> None:
        # The thread that reads our input cannot be stopped, so the process ends at once (os._exit).
        await close()
        os._exit(0)

    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, lambda: ending.add(loop.create_task(end())))

    async def read(
        incoming: AsyncIterator[Item],
        readable: ObjectSendStream[Item],
        refused: ObjectSendStream[SessionMessage],
    ) -> None:
        """Passes on messages that can be read, and answers the others, which the SDK would drop."""
        async with readable:
            async for item in _after_probes(server, incoming, refused):
                answer = answer_unread(item) if isinstance(item, Exception) else answer_nameless(item.message)
                if answer is not None:
                    logger.warning("mcp_refused", reason="unreadable", code=answer.error.code)
                    # At the end nobody reads the answer.
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        await refused.send(SessionMessage(answer))
                elif not isinstance(item, Exception):
                    await readable.send(item)

    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        sent, received = anyio.create_memory_object_stream[Item](0)
        tasks.start_soon(read, incoming, sent, outgoing)
        await server.run(received, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _after_probes(
    server: Server[Any], incoming: AsyncIterator[Item], outgoing: ObjectSendStream[SessionMessage]
) -> AsyncIterator[Item]:
    """The messages, without the probes that come first.

    Each of those is answered in a run of its own, since the SDK settles the protocol of a run at its first request. So a client
    that learns from the answer, or no longer waits for it, may begin as it likes.
    """
    async for item in incoming:
        request = item.message if isinstance(item, SessionMessage) else None
        if isinstance(request, types.JSONRPCRequest) and request.method in PROBES:
            await _answer_alone(server, item, outgoing)
            continue
        yield item
        if isinstance(request, types.JSONRPCRequest):
            break
    async for item in incoming:
        yield item


async def _answer_alone(
    server: Server[Any], request: Item, outgoing: ObjectSendStream[SessionMessage]
) -> None:
    ask, asked = anyio.create_memory_object_stream[Item](1)
    answer, answers = anyio.create_memory_object_stream[SessionMessage](1)
    async with ask, asked, answer, answers, anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, asked, answer, server.create_initialization_options())
        await ask.send(request)
        await outgoing.send(await answers.receive())
        tasks.cancel_scope.cancel()
