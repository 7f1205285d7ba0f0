"""The server on standard input and output, as a child of its client.

Promise: nothing but the protocol is written to standard output. When the client goes, calls that wait are ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from mcp.server import Server
from mcp.server.stdio import stdio_server

from daemon.db.pool import Database


async def serve_stdio(server: Server[Any], database: Database) -> None:
    """Serves until the client closes our input, or we are told to end."""
    loop = asyncio.get_running_loop()
    ending: set[asyncio.Task[None]] = set()

    async def end() -> None:
        # The thread that reads our input cannot be stopped, so the process is not ended in the usual way.
        await database.close()
        os._exit(0)

    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, lambda: ending.add(loop.create_task(end())))
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
