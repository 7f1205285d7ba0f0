"""A server that speaks Drive v3 on a local port, with the sign-in of service accounts, and faults on demand.

Promise: everything a client sees is real HTTP, and a fault happens because a test asked for it.

    with DriveServer() as server:
        server.write_key(folder / "key.json")
        server.drive.add("notes/one.md", "Text.")                 # a person's hands
        server.script("GET changes", Fault.status(410))           # the next such request gets it
        server.always = ("POST upload", Fault.status(500))        # all such requests get it, until server.heal()
        server.stop()                                             # connections are refused, until server.start()
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.drive.calls import EMAIL, Handler, Upload
from tests.support.drive.faults import Fault
from tests.support.drive.files import Drive


@cache
def _private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # quick, and for no one else
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


class DriveServer:
    """The server, in threads of its own. Use it as a context manager."""

    def __init__(self, *, page_size: int = 1000) -> None:
        self.drive = Drive()
        self.page_size = page_size
        self.always: tuple[str, Fault] | None = None
        self.is_bad: Callable[[], Fault | None] = lambda: None
        """What goes wrong with each request, by chance."""
        self.refuses_key = False
        self.requests: list[str] = []
        """Method and what was asked, as in 'GET changes', 'GET content/file-00001', 'POST upload'."""
        self.hanging = threading.Event()
        self.tokens: set[str] = set()
        self.uploads: dict[str, Upload] = {}
        self.closers: list[Callable[[], None]] = []
        """End the clients that a test made."""
        self._lock = threading.Lock()
        self._script: list[tuple[str, Fault]] = []
        self._released = threading.Event()
        self._port = 0
        self._http: PlayedServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where the server listens; the same after a stop and a start."""
        return f"http://127.0.0.1:{self._port}"

    def write_key(self, path: Path) -> Path:
        """The key file of the account."""
        said = {
            "type": "service_account",
            "client_email": EMAIL,
            "private_key": _private_key(),
            "token_uri": f"{self.url}/token",
        }
        path.write_text(json.dumps(said))
        return path

    def script(self, request: str, *faults: Fault) -> None:
        """Lets the next requests that begin so fail, one fault each, in this order."""
        with self._lock:
            self._script += [(request, fault) for fault in faults]

    def heal(self) -> None:
        """Forgets all faults, and lets go of the requests that hang."""
        with self._lock:
            self.always = None
            self._script.clear()
        self.hanging.clear()
        self._released.set()
        self._released = threading.Event()

    def asked(self, request: str) -> int:
        """How many requests began so."""
        with self._lock:
            return sum(one.startswith(request) for one in self.requests)

    def forget_requests(self) -> None:
        """Counts from now on."""
        with self._lock:
            self.requests.clear()

    def expire_sign_ins(self) -> None:
        """The account has to sign in again."""
        self.tokens.clear()

    def start(self) -> None:
        """Listens: on a free port at first, on the same one later."""
        self._http = PlayedServer(self, self._port)
        self._port = self._http.server_address[1]
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Refuses connections, and breaks those that are open."""
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
        for close in self.closers:
            close()
        self.stop()

    def note(self, request: str) -> tuple[Fault | None, threading.Event]:
        """Counts a request; what shall go wrong with it, and what ends its hanging."""
        with self._lock:
            self.requests.append(request)
            for number, (pattern, fault) in enumerate(self._script):
                if request.startswith(pattern):
                    del self._script[number]
                    return fault, self._released
            if self.always is not None and request.startswith(self.always[0]):
                return self.always[1], self._released
            return self.is_bad(), self._released


class PlayedServer(ThreadingHTTPServer):
    """Knows its connections, so that they can be ended."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, owner: DriveServer, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.owner = owner
        self._connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stays quiet: a client that timed out has closed its end, and that is no news."""

    def break_connections(self) -> None:
        for connection in tuple(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
