"""A server that speaks the OpenAI protocol on a local port: embeddings, chat completions, faults on demand.

Promise: everything a client sees is real HTTP, and every answer is the same on every run: a vector depends on
only its text and its dimensions, and a fault happens because a test asked for it.

    with OpenAIServer(dimensions=8) as server:
        server.script(Fault.status(429, retry_after="7"))  # the next request gets it, the one after is well
        server.always = Fault.status(500)                  # all get it, until server.heal()
        server.stop()                                      # connections are refused, until server.start()
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

POISON = "POISON"
"""A text with this word is refused with 400, and its whole request with it."""

Kind = Literal["status", "hang", "drop", "truncated", "garbage", "dimensions", "count", "indexes", "nan"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request."""

    kind: Kind
    code: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, str] = field(default_factory=dict)

    @classmethod
    def status(cls, code: int, /, *, retry_after: str | None = None, **error: str) -> Self:
        """Answer this HTTP status; `error` fills the protocol's error object (code, param, message)."""
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return cls("status", code=code, headers=headers, error=error)


HANG = Fault("hang")
DROP = Fault("drop")
TRUNCATED = Fault("truncated")
"""Half of the reply, then the connection ends."""
GARBAGE = Fault("garbage")
WRONG_DIMENSIONS = Fault("dimensions")
WRONG_COUNT = Fault("count")
WRONG_INDEXES = Fault("indexes")
NOT_A_NUMBER = Fault("nan")


def vector_of(text: str, dimensions: int) -> npt.NDArray[np.float32]:
    """Answer the unit vector that a text has, shape (dimensions,)."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    row = np.random.default_rng(seed).standard_normal(dimensions)
    return (row / np.linalg.norm(row)).astype(np.float32)


class OpenAIServer:
    """The server, in threads of its own. Use it as a context manager."""

    def __init__(
        self, *, dimensions: int = 8, base64_known: bool = True, max_bytes: int | None = None
    ) -> None:
        self.dimensions = dimensions
        self.base64_known = base64_known
        self.max_bytes = max_bytes
        self.always: Fault | None = None
        self.chat: Callable[[dict[str, Any]], str] = lambda _: "{}"
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.idempotency_keys: list[str | None] = []
        self.hanging = threading.Event()
        self._lock = threading.Lock()
        self._script: deque[Fault] = deque()
        self._released = threading.Event()
        self._port = 0
        self._http: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """Where the server listens; the same after a stop and a start."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def texts(self) -> list[str]:
        """All texts that were sent to be embedded, in order, those of refused requests too."""
        with self._lock:
            return [text for request in self.requests for text in request.get("input", ())]

    def script(self, *faults: Fault) -> None:
        """Let the next requests fail, one fault each, in this order."""
        with self._lock:
            self._script.extend(faults)

    def heal(self) -> None:
        """Forget all faults, and let go of the requests that hang."""
        with self._lock:
            self.always = None
            self._script.clear()
        self.hanging.clear()
        self._released.set()
        self._released = threading.Event()

    def start(self) -> None:
        """Listen: on a free port at first, on the same one later."""
        self._http = _Server(self, self._port)
        self._port = self._http.server_address[1]
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections, and break those that are open."""
        if self._http is None or self._thread is None:
            return
        self._released.set()
        self._released = threading.Event()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http.break_connections()
        self._http = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def note(self, request: dict[str, Any], key: str) -> tuple[Fault | None, threading.Event]:
        """Count a request; answer what shall go wrong with it, and what ends its hanging."""
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            fault = self._script.popleft() if self._script else self.always
            return fault, self._released

    def embeddings(self, request: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """Answer the reply to a request for embeddings: last text first, vectors of length 3."""
        dimensions = request.get("dimensions", self.dimensions) + (fault == WRONG_DIMENSIONS)
        data = []
        for index, text in enumerate(request["input"]):
            row = vector_of(text, dimensions) * np.float32(3)
            if fault == NOT_A_NUMBER:
                row[0] = np.nan
            known = self.base64_known and request.get("encoding_format") == "base64"
            numbers = base64.b64encode(row.astype("<f4").tobytes()).decode() if known else row.tolist()
            place = 0 if fault == WRONG_INDEXES else index
            data.append({"object": "embedding", "index": place, "embedding": numbers})
        if fault == WRONG_COUNT:
            data.pop()
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "model": request["model"], "data": data[::-1], "usage": usage}

    def completion(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer the reply to a request for a chat completion: whatever `chat` makes of it."""
        message = {"role": "assistant", "content": self.chat(request)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [choice],
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, owner: OpenAIServer, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.owner = owner
        self._connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: a client that timed out has closed its end, and that is no news."""

    def break_connections(self) -> None:
        for connection in tuple(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        owner = self.server.owner
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        owner.idempotency_keys.append(self.headers.get("Idempotency-Key"))
        fault, released = owner.note(request, self.headers.get("Authorization", "").removeprefix("Bearer "))
        if fault is not None and fault.kind == "hang":
            owner.hanging.set()
            released.wait()
            fault = DROP
        if fault == DROP:
            self.close_connection = True
            return
        if fault == TRUNCATED:
            self.close_connection = True
            self._send(200, b'{"choices": [{"message": ', {"Content-Type": "application/json"}, length=4096)
        elif fault == GARBAGE:
            self._send(200, b"<html>It works!</html>", {"Content-Type": "text/html"})
        elif fault is not None and fault.kind == "status":
            self._reply(
                fault.code, {"error": {"message": f"you sent {request}", **fault.error}}, fault.headers
            )
        elif any(self._refuses(text) for text in request.get("input", ())):
            self._reply(400, {"error": {"message": f"you sent {request}", "type": "invalid_request_error"}})
        elif self.path == "/v1/embeddings":
            self._reply(200, owner.embeddings(request, fault))
        elif self.path == "/v1/chat/completions":
            self._reply(200, owner.completion(request))
        else:
            self._reply(404, {"error": {"message": "no such path"}})

    def _refuses(self, text: str) -> bool:
        most = self.server.owner.max_bytes
        return not text or POISON in text or (most is not None and len(text.encode()) > most)

    def _reply(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gave it
        """Say nothing."""
