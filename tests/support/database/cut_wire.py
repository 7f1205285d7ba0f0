"""A wire to Postgres that a test cuts, at a statement of the client's: before the server gets it, or after.

async with CutWire(url) as wire:
    wire.cut(b"commit", after=True)   # the server commits, and the client never hears of it
    await asyncpg.connect(wire.url)
"""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlsplit


class CutWire:
    """Passes on what clients and the server say. `url` leads through it; `cuts` counts the connections that were cut."""

    def __init__(self, url: str, folder: str) -> None:
        parts = urlsplit(url)
        self._host = unquote(parse_qs(parts.query).get("host", [parts.hostname or ""])[0])
        self._port = parts.port or int(parse_qs(parts.query).get("port", ["5432"])[0])
        self.url = f"postgresql://{parts.netloc.rpartition('@')[0]}@{parts.path}?host={quote(folder)}&port={self._port}"
        self._socket = f"{folder}/.s.PGSQL.{self._port}"
        self.cuts = 0
        self.closed = False
        """While it is closed every connection is refused."""
        self._at: bytes | None = None
        self._after = self._close = False
        self._mute_at: bytes | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()

    def cut(self, at: bytes, *, after: bool, close: bool = False) -> None:
        """Cuts the next connection on which this is said, once; with `close` none is let through from then on."""
        self._at, self._after, self._close = at, after, close

    def mute(self, at: bytes) -> None:
        """Lets nothing more come back from the server, once it has answered the next one who says this."""
        self._mute_at = at

    def silence(self) -> None:
        """Passes nothing on over the connections that are open, and closes none, as a router that forgot them."""
        self._silent |= self._open

    def end_all(self, *, close: bool) -> None:
        """Cuts every connection; with `close` none is let through from then on."""
        self.closed = close
        for writer in self._open:
            writer.close()
        self._open.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._pass, self._socket)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.close()
        self.end_all(close=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            if self.closed:
                return
            server_reader, server = await self._connected()
            with closing(server):
                await self._copy_both(reader, writer, server_reader, server)

    async def _copy_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
    ) -> None:
        self._open |= {writer, server}
        muted = asyncio.Event()
        back = asyncio.create_task(self._copy(server_reader, writer, muted))
        with suppress(OSError):
            while said := await reader.read(1 << 16):
                if server in self._silent:
                    continue
                if self._mute_at is not None and self._mute_at in said:
                    self._mute_at = None
                    self.cuts += 1
                    muted.set()
                cut = self._at is not None and self._at in said
                if cut:
                    back.cancel()
                    await asyncio.wait([back])
                    self._at, self.closed = None, self._close
                if not cut or self._after:
                    server.write(said)
                    await server.drain()
                if cut:
                    self.cuts += 1
                    if self._after:
                        await server_reader.read(1)  # the server has answered, so it has done it
                    break
        back.cancel()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, muted: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while said := await reader.read(1 << 16):
                if writer in self._silent:
                    continue
                last = muted.is_set()
                writer.write(said)
                await writer.drain()
                if last:
                    return
            writer.close()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)
