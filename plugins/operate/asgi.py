"""Serving an ASGI application on a socket, until SIGTERM or Ctrl-C.

Promise: a port that is announced takes connections, and the caller closes what is its own after the last answer. Who sends no
request, or does not read the answer, is let go after seconds; of too many clients the one that has waited longest goes.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CLIENTS = 128
REQUEST_SECONDS = 10.0
"""For a request to come; longer than clients keep idle connections (httpx: 5 s)."""
READING_SECONDS, LEAST_READ = 60.0, 10_000
"""This many bytes of an answer must be read in this time; what the system still has to send counts as read."""


class _TimedConnection(H11Protocol):
    """One connection, which ends where its client neither sends a request nor reads the answer."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.waits: asyncio.TimerHandle | None = None
        """Runs while it is the client's turn."""
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look()
        if len(self.connections) > MOST_CLIENTS:
            others = [c for c in self.connections if c is not self and isinstance(c, _TimedConnection)]
            waiting = [(c.waits.when(), id(c), c) for c in others if c.waits is not None]
            if waiting:
                min(waiting)[2].let_go()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def data_received(self, data: bytes) -> None:
        """The client has sent something: of a body, so it has its time again for the next part."""
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            self._stop()
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop()
        self._look()

    def pause_writing(self) -> None:
        """What was written is too much for the client, for now."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop()
        self._look()

    def _look(self) -> None:
        """Starts the time of the client where it is the client's turn, and stops it where it is ours."""
        cycle: RequestResponseCycle | None = self.cycle
        is_ours = cycle is not None and not cycle.response_complete and not cycle.more_body
        if is_ours and not self.flow.write_paused:
            self._stop()
        elif self.waits is None:
            self._unread = self.transport.get_write_buffer_size()
            seconds = READING_SECONDS if self._unread else REQUEST_SECONDS
            self.waits = self.loop.call_later(seconds, self._late)

    def _stop(self) -> None:
        if self.waits is not None:
            self.waits.cancel()
            self.waits = None

    def _late(self) -> None:
        self.waits = None
        if self._unread - self.transport.get_write_buffer_size() >= LEAST_READ:
            self._look()
        else:
            self.let_go()

    def let_go(self) -> None:
        """Ends the connection, also with unread data."""
        self._stop()
        self.connections.discard(self)
        self.transport.abort()


class _Server(uvicorn.Server):
    """Leaves the signals to us: uvicorn would end the process before the database is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: ASGIApp, listening: socket.socket, *, lifespan: Literal["on", "off"]) -> None:
    """Serves until SIGTERM or Ctrl-C; requests that are being answered then have two seconds."""
    running = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan=lifespan,
            ws="none",
            http=_TimedConnection,
            limit_concurrency=MOST_CLIENTS + 1,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=15,  # later than ours
            proxy_headers=False,
        )
    )

    def stop() -> None:
        running.should_exit = True

    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop)
    await running.serve(sockets=[listening])
