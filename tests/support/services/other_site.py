"""Another site, which shows browsers what an attacker wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class OtherSite(ThreadingHTTPServer):
    """`page` is what every address answers. `port`, and `asked`: the paths so far, with their queries."""

    daemon_threads = True

    def __init__(self) -> None:
        self.page = ""
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Answer)
        self.port = self.server_address[1]


class _Answer(BaseHTTPRequestHandler):
    server: OtherSite

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        body = self.server.page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nothing."""


@contextmanager
def other_site() -> Iterator[OtherSite]:
    """It runs until the end. To a server at 127.0.0.1 it is another origin there, and as localhost another site."""
    with OtherSite() as site:
        thread = Thread(target=site.serve_forever, daemon=True)
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()
