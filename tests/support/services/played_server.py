"""A server on a local port that answers as a test says, with faults on demand. Those of the ledgers are made of it.

Promise: everything a client sees is real HTTP, and a fault happens because a test asked for it.

    server.script(Fault.status(429, retry_after="7"))   # the next request gets it, the one after is well
    server.always = Fault.status(500)                   # all get it, until server.heal()
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request."""

    kind: Literal["reply", "hang", "drop", "half", "lost"]
    reply: Reply = field(default_factory=lambda: Reply(b""))

    @classmethod
    def status(cls, code: int, /, *, retry_after: str | None = None, location: str | None = None) -> Self:
        """Answer this status, with a body that quotes what no message may quote."""
        headers = {"Retry-After": retry_after, "Location": location}
        return cls(
            "reply", Reply(b"SECRET body", code, headers={k: v for k, v in headers.items() if v is not None})
        )

    @classmethod
    def body(cls, body: bytes) -> Self:
        """Answer 200 with this."""
        return cls("reply", Reply(body))


HANG = Fault("hang")
DROP = Fault("drop")
HALF = Fault("half")
"""Half of the right answer, then the connection ends."""
LOST = Fault("lost")
"""What was asked is done, and the answer does not arrive."""
GARBAGE = Fault.body(b"<html>It works!</html>")
HUGE = Fault.body(b"[" * 3_000_000)


class PlayedServer:
    """The server, in threads of its own. Use it as a context manager; override `answer`."""

    def __init__(self) -> None:
        self.always: Fault | None = None
        self.requests: list[Asked] = []
        self._script: deque[Fault | None] = deque()
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._http = _Server(self)

    def answer(self, asked: Asked) -> Reply:
        """The right answer. Called by one thread at a time."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def script(self, *faults: Fault) -> None:
        """Let the next requests fail, one fault each, in this order."""
        self._script.extend(faults)

    def heal(self) -> None:
        """Forget all faults, and let go of the requests that hang."""
        self.always = None
        self._script.clear()
        self._released.set()
        self._released = threading.Event()

    def reply(self, asked: Asked) -> tuple[Fault | None, Reply, threading.Event]:
        """Count a request; what goes wrong with it, the answer, and what ends its hanging."""
        with self._lock:
            self.requests.append(asked)
            fault = self._script.popleft() if self._script else self.always
            if fault is not None and fault.kind in {"reply", "hang", "drop"}:
                return fault, fault.reply, self._released
            return fault, self.answer(asked), self._released

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._released.set()
        self._http.shutdown()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, owner: PlayedServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: a client that timed out has closed its end, and that is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault, reply, released = self.server.owner.reply(Asked(self.command, self.path, headers, body))
        kind = fault.kind if fault is not None else "reply"
        if kind == "hang":
            released.wait(30)
        if kind in {"hang", "drop", "lost"}:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        with suppress(OSError):
            if kind == "half":
                self.close_connection = True
                self.wfile.write(reply.body[: len(reply.body) // 2])
            else:
                self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gave it
        """Say nothing."""
