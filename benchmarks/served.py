"""HTTP servers on loopback, which stand for services that the benchmarks have no key for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers with what it is told, and writes no log."""

    protocol_version = "HTTP/1.1"  # connections stay open, as those to a real service do
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet

    def respond(self) -> None:
        """To any request."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """What the base class calls."""
        self.respond()

    do_POST = do_DELETE = do_GET  # noqa: N815

    def body(self) -> bytes:
        """Of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, content: bytes, *, status: int = 200, kind: str = "application/json") -> None:
        """The whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server in threads of its own: its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.block_on_close = False
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
