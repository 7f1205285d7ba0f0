"""The HTTP port: a few GET paths, for probes and for Prometheus.

Promise: whatever its clients do, the daemon goes on. One that is slow, sends nothing or does not read its answer is let go
after seconds; no more than `MOST_CLIENTS` have a connection at once, and the others wait in the system's queue, not here. A
port that is taken is told once, and tried again. Each connection has one request.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from daemon.logs import describe, frames
from plugins.operate.callers import listen, name_in

if TYPE_CHECKING:
    from plugins.operate.metrics.pages import Pages

MOST_CLIENTS = 128
REQUEST_SECONDS, CLIENT_SECONDS = 2.0, 10.0
"""For a request to come, and for a client to go; for the whole exchange."""
LONGEST_HEAD = 8192
"""Bytes of a request before its body."""
AGAIN_SECONDS = 2.0
"""Between two tries to get the port."""
QUEUE = 1024


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpPort:
    """Answers until it is cancelled."""

    def __init__(self, address: str, site: Pages, *, logger: FilteringBoundLogger) -> None:
        """`address`: as `http_address` passes it."""
        host, _, port = address.rpartition(":")
        self._host, self._port = ip_address(host.strip("[]")), int(port)
        self._site = site
        self._log = logger
        self._clients: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Listens as soon as the port is free."""
        with await self._listen() as listening:
            host, port = listening.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            self._log.info("http_listening", url=f"http://{shown}:{port}")
            try:
                await self._accept(listening)
            finally:
                for client in self._clients:
                    client.cancel()
                await self._site.close()

    async def _listen(self) -> socket.socket:
        told = False
        while True:
            try:
                opened = listen(self._port, str(self._host), queue=QUEUE)
                opened.setblocking(False)
                return opened
            except OSError as error:
                if not told:
                    self._log.warning(
                        "http_not_listening", reason=self._reason(error), again_seconds=AGAIN_SECONDS
                    )
                    told = True
            await asyncio.sleep(AGAIN_SECONDS)

    def _reason(self, error: OSError) -> str:
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        where = f"MEMORYD_HTTP names port {self._port} of {self._host}"
        match error.errno:
            case errno.EADDRINUSE:
                return f"{where}, which another program listens at ({name}). Name another one, or end that program."
            case errno.EADDRNOTAVAIL:
                return f"{where}, which is no address of this machine ({name}). Name one of its own, or 127.0.0.1."
            case errno.EACCES:
                return f"{where}, which this user may not use ({name}). Name one above 1023."
        return f"{where}, which cannot be used ({name}: {os.strerror(error.errno or 0)})."

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(MOST_CLIENTS)

        def leave(task: asyncio.Task[None]) -> None:
            self._clients.discard(task)
            room.release()

        while True:
            await room.acquire()
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                # A client that is gone already, or no file descriptors are left.
                room.release()
                if error.errno != errno.ECONNABORTED:
                    await asyncio.sleep(1.0)
                continue
            task = asyncio.create_task(self._serve(client))
            self._clients.add(task)
            task.add_done_callback(leave)

    async def _serve(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            with client:
                client.setblocking(False)
                async with asyncio.timeout(CLIENT_SECONDS):
                    async with asyncio.timeout(REQUEST_SECONDS):
                        head = await _read_head(client)
                    if head is None:
                        return
                    await loop.sock_sendall(client, await self._respond(head))
                    client.shutdown(socket.SHUT_WR)
                    # Closed with something unread, a connection is reset, and the client may lose the answer.
                    async with asyncio.timeout(REQUEST_SECONDS):
                        for _ in range(16):
                            if not await loop.sock_recv(client, 65_536):
                                return
        except (OSError, TimeoutError):
            return  # the client went away, or is too slow

    async def _respond(self, head: bytes) -> bytes:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (s.partition(":") for s in lines[1:])
        }
        if len(head) >= LONGEST_HEAD:
            answer = _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
            answer = _plain(HTTPStatus.BAD_REQUEST)
        elif not self._is_for_us(headers.get("host")):
            answer = _plain(HTTPStatus.MISDIRECTED_REQUEST)
        elif words[0] not in ("GET", "HEAD"):
            answer = _plain(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
        else:
            answer = await self._answer(words[1].partition("?")[0], headers.get("accept", ""))
        return _written(answer, body=words[0] != "HEAD")

    async def _answer(self, path: str, accept: str) -> Answer:
        try:
            return await self._site.answer(path, accept)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other pages are answered
            self._log.error("http_failed", error=describe(error), at=frames(error))
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _is_for_us(self, host: str | None) -> bool:
        """On loopback only by names of this machine: a page of a browser here gets in by a name of its own (DNS rebinding)."""
        if host is None or not self._host.is_loopback:
            return True
        name = name_in(host)
        try:
            return name == "localhost" or ip_address(name).is_loopback
        except ValueError:
            return False


def _plain(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, f"{status.phrase}\n".encode(), headers=headers or {})


async def _read_head(client: socket.socket) -> bytes | None:
    """A request up to its body, or its first `LONGEST_HEAD` bytes; None where the client ended before."""
    loop = asyncio.get_running_loop()
    head = b""
    while b"\r\n\r\n" not in head and len(head) < LONGEST_HEAD:
        more = await loop.sock_recv(client, LONGEST_HEAD - len(head))
        if not more:
            return None
        head += more
    return head.partition(b"\r\n\r\n")[0] if b"\r\n\r\n" in head else head


def _written(answer: Answer, *, body: bool) -> bytes:
    headers = {
        "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)),
        "Cache-Control": "no-store",
        "Connection": "close",
        **answer.headers,
    }
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        *(f"{k}: {v}" for k, v in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (answer.body if body else b"")
