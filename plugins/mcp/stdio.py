"""The server on standard input and output, as a child of its client.

Promise: only the protocol is written to standard output. Each call gets an answer, also a call that cannot be read, but not a
probe that its client has given up. When the client goes, its waiting calls are ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import ObjectSendStream
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from structlog.typing import FilteringBoundLogger

from plugins.mcp.unread import answer_nameless, answer_unread

Item = SessionMessage | Exception
TOGETHER = 0.05
"""Seconds in which a message that was sent before we read comes after the first."""


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
            async for item in _begun_once(incoming):
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


async def _begun_once(incoming: AsyncIterator[Item]) -> AsyncIterator[Item]:
    """The messages, without a probe that its client has given up.

    The AI SDK waits a second for the answer to its first message, server/discover. If we were not there in time it begins anew
    by initialize, which the SDK of MCP refuses after a probe.
    """
    first = await anext(incoming, None)
    second = None
    if _method(first) == "server/discover":
        with anyio.move_on_after(TOGETHER):
            second = await anext(incoming, None)
    if first is not None and _method(second) != "initialize":
        yield first
    if second is not None:
        yield second
    async for item in incoming:
        yield item


def _method(item: Item | None) -> str | None:
    return getattr(item.message, "method", None) if isinstance(item, SessionMessage) else None
