"""A transaction pooler as the managed services put one before their Postgres, in one small file.

Promise: what breaks behind the real ones breaks here. A client keeps a server connection from its first message until the
server is idle again (ReadyForQuery `I`), and then the other server connection is next; a notification that arrives at a
server connection which no client has is lost; a startup parameter that PgBouncer does not know is refused.

    async with TransactionPooler(url) as pooler:
        await asyncpg.connect(pooler.url)
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import asyncpg

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
KNOWN_PARAMETERS = frozenset(
    {
        "user",
        "database",
        "client_encoding",
        "application_name",
        "datestyle",
        "timezone",
        "standard_conforming_strings",
    }
)


class _Server(asyncio.Protocol):
    """One connection to Postgres, logged in by asyncpg and then taken over."""

    def __init__(self, login: asyncpg.Connection, free: asyncio.Queue[_Server], *, session: bool) -> None:
        self.login = login
        self.transport: asyncio.Transport = login._transport  # type: ignore[attr-defined]
        self.transport.set_protocol(self)
        self.client: asyncio.StreamWriter | None = None
        self._free = free
        self._session = session
        self._awaited = 0
        self._buffer = bytearray()

    def send(self, kind: int, message: bytes) -> None:
        """Passes a client's message on."""
        # Only these are answered by a ReadyForQuery.
        if kind in b"QSF":
            self._awaited += 1
        self.transport.write(message)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 5:
            length = 1 + int.from_bytes(self._buffer[1:5], "big")
            if len(self._buffer) < length:
                return
            message = bytes(self._buffer[:length])
            del self._buffer[:length]
            if self.client is not None:
                self.client.write(message)
            if message[:1] == b"Z" and not self._session:
                self._awaited -= 1
                if self._awaited == 0 and message[5:] == b"I":
                    self.client = None
                    self._free.put_nowait(self)

    def connection_lost(self, _error: Exception | None) -> None:
        if self.client is not None:
            self.client.close()


class TransactionPooler:
    """Listens on a local port; hands `connections` server connections round. Use it as a context manager."""

    def __init__(
        self, server_url: str, *, connections: int = 2, strict: bool = True, session: bool = False
    ) -> None:
        """`strict`: whether it refuses startup parameters that it does not know, or ignores all of them but `options`.
        `session`: whether a client keeps its server connection to its end, as in PgBouncer's session mode.
        """
        self._strict = strict
        self._session = session
        self.clients = 0
        self.transactions = 0
        self._server_url = server_url
        self._connections = connections
        self._free: asyncio.Queue[_Server] = asyncio.Queue()
        self._all: list[_Server] = []
        self._sessions: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        assert self._listener is not None
        port = self._listener.sockets[0].getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}{urlsplit(self._server_url).path}"

    async def __aenter__(self) -> Self:
        for _ in range(self._connections):
            await self._open()
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        for server in self._all:
            server.login.terminate()

    async def _open(self) -> None:
        login = await asyncpg.connect(self._server_url, server_settings={"application_name": "pooler"})
        server = _Server(login, self._free, session=self._session)
        self._all.append(server)
        self._free.put_nowait(server)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sessions.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                if await self._greet(reader, writer):
                    self.clients += 1
                    await self._serve(reader, writer)
        finally:
            self._sessions.discard(task)
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        while True:
            length, code = struct.unpack("!II", await reader.readexactly(8))
            rest = await reader.readexactly(length - 8)
            if code == CANCEL_REQUEST:
                return False
            if code not in (SSL_REQUEST, GSS_REQUEST):
                break
            writer.write(b"N")
        names = rest.split(b"\0")[:-2:2]
        for name in (n.decode() for n in names):
            if (self._strict or name == "options") and name.lower() not in KNOWN_PARAMETERS:
                fields = f"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: {name}\0\0".encode()
                writer.write(b"E" + struct.pack("!I", 4 + len(fields)) + fields)
                await writer.drain()
                return False
        writer.write(b"R" + struct.pack("!II", 8, 0))
        settings = self._all[0].login.get_settings()
        for name in ("server_version", "client_encoding", "standard_conforming_strings", "integer_datetimes"):
            pair = f"{name}\0{getattr(settings, name)}\0".encode()
            writer.write(b"S" + struct.pack("!I", 4 + len(pair)) + pair)
        writer.write(b"K" + struct.pack("!III", 12, 0, 0) + b"Z" + struct.pack("!I", 5) + b"I")
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server: _Server | None = None
        try:
            while True:
                head = await reader.readexactly(5)
                message = head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
                if head[:1] == b"X":
                    return
                if server is None or server.client is not writer:
                    server = await self._free.get()
                    server.client = writer
                    self.transactions += 1
                server.send(head[0], message)
        finally:
            if server is not None and server.client is writer:
                # Who leaves in the middle of a transaction costs the pooler its server connection, as with PgBouncer.
                server.client = None
                server.login.terminate()
                self._all.remove(server)
                await self._open()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes on what comes from one to the other until the end."""
    with contextlib.closing(writer), contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
