"""The HTTP that all ledgers share: whatever a server does, a call ends, as one of two faults, and tells no secret."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from plugins.trail.ledgers.http import Http
from providers.ports import RejectionError, UnavailableError
from tests.support.services.played_server import (
    DROP,
    GARBAGE,
    HALF,
    HANG,
    HUGE,
    Asked,
    Fault,
    PlayedServer,
    Reply,
)


class Answering(PlayedServer):
    """It answers an object of JSON."""

    def answer(self, asked: Asked) -> Reply:
        """The same to all."""
        return Reply(b'{"well": true}')


@pytest.fixture(scope="module")
def _server() -> Iterator[Answering]:
    with Answering() as served:
        yield served


@pytest.fixture
def server(_server: Answering) -> Answering:
    _server.heal()
    _server.requests.clear()
    return _server


TOKEN = "nobody-may-see-this"
STRANGE = "not of its protocol"
FAULTS = {
    "hang": (HANG, "no answer within 0.1 s"), "drop": (DROP, STRANGE), "half": (HALF, STRANGE),
    "huge": (HUGE, "larger than"), "garbage": (GARBAGE, STRANGE), "list": (Fault.body(b"[1]"), STRANGE),
    "deep": (Fault.body(b'{"result":' + b"[" * 200_000), STRANGE),
    "redirect": (Fault.status(307, location="/elsewhere"), "a redirect, which is not followed: check MEMORYD_X"),
    "401": (Fault.status(401), "refused; check MEMORYD_X"), "403": (Fault.status(403), "refused; check MEMORYD_X"),
    "404": (Fault.status(404), "no such address; check MEMORYD_X"), "408": (Fault.status(408), "HTTP 408"),
    "429": (Fault.status(429, retry_after="7"), "HTTP 429"), "500": (Fault.status(500), "HTTP 500"),
    "502": (Fault.status(502), "HTTP 502"),
}  # fmt: skip


async def test_each_fault_is_a_reason_to_ask_again_later(server: Answering) -> None:
    for name, (fault, says) in FAULTS.items():
        server.always = fault
        seconds = 0.1 if fault == HANG else 10.0
        http = Http("x", settings="MEMORYD_X", timeout_seconds=seconds, token=TOKEN)
        with pytest.raises(UnavailableError, match=says) as failure:
            http.json(await http.post(f"{server.url}/{TOKEN}", TOKEN.encode(), content_type="text/plain"))
        told = "".join(traceback.format_exception(failure.value))
        for hidden in (TOKEN, "SECRET body", "127.0.0.1"):
            assert hidden not in told, name
        assert failure.value.retry_in == (7.0 if name == "429" else 0.0), name
        server.heal()
        if fault == HANG:  # a busy machine may take longer than that to answer
            await http.close()
            http = Http("x", settings="MEMORYD_X", timeout_seconds=10.0, token=TOKEN)
        assert http.json(await http.get(server.url)) == {"well": True}, name
        await http.close()
    assert {asked.path for asked in server.requests} == {"/", f"/{TOKEN}"}


async def test_what_a_server_refuses_is_rejected_unless_it_is_an_answer(server: Answering) -> None:
    http = Http("x", settings="MEMORYD_X", timeout_seconds=10.0)
    for status in (400, 409, 413, 422):
        server.script(Fault.status(status), Fault.status(status))
        with pytest.raises(RejectionError, match=f"HTTP {status}: it refuses this content"):
            await http.post(server.url, b"", content_type="text/plain")
        answer = await http.post(server.url, b"", content_type="text/plain", also=frozenset({status}))
        assert answer.status == status
    await http.close()


async def test_nobody_there(server: Answering) -> None:
    http = Http("x", settings="MEMORYD_X", timeout_seconds=10.0)
    for url in ("http://127.0.0.1:1/SECRET", "http://[SECRET", "http://SECRET host/"):
        with pytest.raises(UnavailableError, match="check MEMORYD_X") as failure:
            await http.get(url)
        assert "SECRET" not in str(failure.value)
    await http.close()
