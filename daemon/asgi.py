"""Serving an ASGI application on a socket, until SIGTERM or Ctrl-C.

Promise: a port that is announced takes connections, and the caller closes what is its own after the last answer.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"


class _Quiet(uvicorn.Server):
    """Leaves the signals to us: uvicorn would end the process before the database is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """A socket that listens; port 0 is any free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, since asyncio turns Nagle's algorithm off only where the socket says TCP: else each answer waits 40 ms.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        # Now: what is only bound can be bound again by others, and the log would name an address that refuses.
        opened.listen()
    except OSError:
        opened.close()
        raise
    return opened


async def serve(app: ASGIApp, listening: socket.socket, *, lifespan: Literal["on", "off"]) -> None:
    """Serves until SIGTERM or Ctrl-C; requests that are being answered then have two seconds."""
    running = _Quiet(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan=lifespan,
            ws="none",
            timeout_graceful_shutdown=2,
            # Longer than clients keep idle connections (httpx: 5 s): else both may end one just as a request is sent.
            timeout_keep_alive=15,
            proxy_headers=False,
        )
    )

    def stop() -> None:
        running.should_exit = True

    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop)
    await running.serve(sockets=[listening])
