"""How long a client may keep a connection, over real sockets; the seconds are those of the test."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from plugins.operate import asgi
from plugins.operate.callers import listen
from plugins.web import forms
from tests.support.services import http

HEAD = b"%s HTTP/1.1\r\nHost: localhost\r\n"
BIG = 20_000_000


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a form with its fields, /big with more than a system keeps for a client."""
    answer: Response = PlainTextResponse("x" * BIG if scope["path"] == "/big" else "well")
    if scope["method"] == "POST":
        try:
            fields = await forms.read_form(Request(scope, receive), largest=forms.LARGEST_SIGN_IN)
            answer = PlainTextResponse(str(dict(fields)))
        except TimeoutError:
            answer = PlainTextResponse("late", 408)
    await answer(scope, receive, send)


@pytest_asyncio.fixture
async def address(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Where it is served, to clients that have a fifth of a second for a request and a whole one to read."""
    monkeypatch.setattr(asgi, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(asgi, "READING_SECONDS", 1.0)
    monkeypatch.setattr(forms, "SECONDS", 0.1)
    with listen(0) as opened:
        serving = asyncio.create_task(asgi.serve(app, opened, lifespan="off"))
        yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


@pytest.mark.parametrize(
    ("sent", "gets"),
    [
        ([b""], b""),
        ([b"GET"], b""),
        ([HEAD % b"GET /"], b""),
        ([HEAD % b"GET /" + b"\r\n"], b"well"),
        ([HEAD % b"GET /" + b"\r\n" + HEAD % b"GET /"], b"well"),
        ([HEAD % b"POST /" + b"Content-Length: 99\r\n\r\n"], b"late"),
        ([HEAD % b"POST /" + b"Content-Length: 99\r\n\r\n" + b"a=1"], b"late"),
        ([HEAD % b"POST /" + b"Content-Length: 3\r\n\r\n", b"a", b"=", b"1"], b"{'a': '1'}"),
    ],
)
async def test_who_waits_is_answered_and_let_go(address: str, sent: Sequence[bytes], gets: bytes) -> None:
    reader, writer = await http.connected(address)
    for part in sent:
        writer.write(part)
        await writer.drain()
    async with asyncio.timeout(30):
        said = await reader.read()
    assert said.rpartition(b"\r\n\r\n")[2] == gets
    writer.close()


async def test_who_reads_no_answer_is_let_go_and_who_reads_slowly_is_not(address: str) -> None:
    (slow, reads), (silent, never) = [await http.connected(address) for _ in range(2)]
    for writer in (reads, never):
        writer.write(HEAD % b"GET /big" + b"Connection: close\r\n\r\n")
    got = 0
    async with asyncio.timeout(60):
        # It takes two seconds at least: by then the other one has had more than its time.
        while part := await slow.read(100_000):
            got += len(part)
            await asyncio.sleep(0.01)
        assert got > BIG
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await silent.readexactly(BIG)
    reads.close()
    never.close()
