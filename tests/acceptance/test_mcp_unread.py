"""memoryd mcp on stdio, and lines that no client of the SDK would send: each is answered, and the next call works."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
import pytest_asyncio

from tests.support.processes.commands import Commands
from tests.support.processes.forks import Process

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECONDS = 60.0
ODD_IDS: list[object] = [math.nan, -math.inf, 1.5, True, None, [1], {}]
"""A limit for an answer that never comes."""


class Spoken:
    """A server to which lines are written."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.logged: asyncio.Task[bytes] | None = None

    async def told(self, line: bytes | object) -> Any:
        """What it answers to a line."""
        assert self._process.stdin is not None
        self._process.stdin.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        await self._process.stdin.drain()
        return await self.heard()

    async def heard(self) -> Any:
        """What it answers next."""
        assert self._process.stdout is not None
        return json.loads(await asyncio.wait_for(self._process.stdout.readline(), SECONDS))

    async def ended(self) -> list[dict[str, Any]]:
        """Its log, when it has ended well."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        assert await self._process.wait() == 0
        return [json.loads(line) for line in (await self._process.stderr.read()).splitlines()]


def call(number: object, text: str = "zeppelin") -> dict[str, Any]:
    """A recall."""
    return asked("tools/call", number, {"name": "recall", "arguments": {"query": text}})


def asked(method: str, number: object, params: object) -> dict[str, Any]:
    """A request, its id at the end as the SDK for JavaScript writes it."""
    return {"method": method, "params": params, "jsonrpc": "2.0", "id": number}


def hello(version: str = "2025-06-18") -> dict[str, Any]:
    """The first request."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return asked("initialize", "hello", params)


def nested(depth: int) -> bytes:
    """A call with so many brackets in its query."""
    return json.dumps(call(7, "HERE")).encode().replace(b'"HERE"', b"[" * depth + b"]" * depth)


@pytest_asyncio.fixture(loop_scope="module")
async def spoken(url: str, tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    """A server that nobody has spoken to."""
    return Spoken(await Commands(url, tmp_path_factory.mktemp("mcp")).start("mcp", "--agent", "alice"))


async def test_a_line_that_cannot_be_read_is_answered_and_the_next_call_works(spoken: Spoken) -> None:
    await spoken.told(hello())
    half = "a cut emoji \ud83d"
    cases: list[tuple[bytes | object, object, int, str]] = [
        (call(4, half), 4, -32700, "half of an emoji"),
        (call("four", half + " more"), "four", -32700, "half of an emoji"),
        # Neither an id within the arguments nor one that could not be written is repeated.
        (call(half, half), None, -32700, "half of an emoji"),
        (b'{"params": {"id": 5}, "method": "\\ud83d', None, -32700, "hex escape"),
        (b"hello", None, -32700, "not a message of JSON-RPC"),
        (b"\0\xff\xfe", None, -32700, "not a message of JSON-RPC"),
        (nested(100_000), 7, -32700, "recursion"),
        (b'{"id": 8, "x": ' + b"[" * 100_000, 8, -32700, "recursion"),
        ([call(5), call(6)], None, -32600, "no batches"),
        (asked("tools/call", 9, [1]), 9, -32600, "not a message of JSON-RPC"),
        (call(10) | {"jsonrpc": "1.0"}, 10, -32600, "not a message of JSON-RPC"),
        ({"id": 4, "result": 1}, None, -32600, "not a message of JSON-RPC"),
        (b'{"id": ' + b"9" * 10_000 + b', "method": "\\ud83d"}', None, -32700, "out of range"),
        # The SDK takes what has no usable id for a notification, and would answer nothing.
        *((call(odd), None, -32600, "needs an id") for odd in ODD_IDS),
        (b'{"jsonrpc": "2.0", "id": 1, "id": NaN, "method": "ping"}', None, -32600, "needs an id"),
    ]
    for line, number, code, says in cases:
        told = await spoken.told(line)
        assert (told["id"], told["error"]["code"]) == (number, code), told
        assert says in told["error"]["message"]
        assert len(json.dumps(told)) < 1_000
        assert "result" in await spoken.told(call("next")), line
    log = await spoken.ended()
    refused = [line for line in log if line["event"] == "mcp_refused"]
    assert [line["code"] for line in refused] == [code for _, _, code, _ in cases]
    assert "cut emoji" not in str(log)


async def test_fifty_megabytes_are_refused_in_words(spoken: Spoken) -> None:
    await spoken.told(hello())
    told = await spoken.told(call(1, "x" * 50_000_000))
    assert "100000 characters" in told["result"]["content"][0]["text"]
    # An empty line is no message.
    assert "result" in await spoken.told(b"\n\n" + json.dumps(call(2)).encode())
    await spoken.ended()


async def test_a_client_of_an_unknown_version_is_told_one_that_is_known(spoken: Spoken) -> None:
    early = await spoken.told(call(1))
    assert early["error"]["code"] == -32602
    told = await spoken.told(hello("1999-01-01"))
    assert told["result"]["protocolVersion"].startswith("202")
    assert "result" in await spoken.told(call(2))
    assert (await spoken.told(asked("no/such", 3, {})))["error"]["code"] == -32601
    await spoken.ended()


def enveloped(method: str, number: object, version: str = "2026-07-28") -> dict[str, Any]:
    """A request of the protocol that has no first request."""
    of = {"protocolVersion": version, "clientCapabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return asked(
        method, number, {"_meta": {f"io.modelcontextprotocol/{name}": value for name, value in of.items()}}
    )


GIVEN_UP = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}


async def test_a_client_that_gave_up_its_probes_may_begin_anew(spoken: Spoken) -> None:
    """The AI SDK waits a second for the answer to its probe, and a slow machine starts us later."""
    for n, probe in enumerate(
        (
            enveloped("server/discover", 0),
            enveloped("server/discover", 0),
            asked("server/discover", "again", {}),
        )
    ):
        told = await spoken.told(probe)
        assert told["id"] == probe["id"]
        assert ("2026-07-28" in told.get("result", {}).get("supportedVersions", ())) == (n < 2), told
        told = await spoken.told(
            json.dumps(GIVEN_UP).encode() + b"\n" + json.dumps(enveloped("ping", n)).encode()
        )
        assert told["id"] == n
        assert "result" in await spoken.told(asked("ping", "early", {}))
    both = (enveloped("server/discover", 5), hello("2025-11-25"))
    first = await spoken.told(b"\n".join(json.dumps(each).encode() for each in both))
    assert first["id"] == 5
    assert (await spoken.heard())["result"]["protocolVersion"] == "2025-11-25"
    assert "result" in await spoken.told(call(1))
    assert "result" in await spoken.told(asked("ping", 2, {}))
    # From now on the protocol is settled.
    assert (await spoken.told(enveloped("server/discover", 3)))["error"]["code"] == -32600
    assert "result" in await spoken.told(call(4))
    await spoken.ended()


async def test_pings_and_probes_keep_nobody_from_the_newest_protocol(spoken: Spoken) -> None:
    for n, method in enumerate(("ping", "server/discover", "ping")):
        assert "result" in await spoken.told(asked("ping", n, {}))
        assert (await spoken.told(enveloped(method, "probe")))["id"] == "probe"
    assert "tools" in (await spoken.told(enveloped("tools/list", 1)))["result"]
    assert "result" in await spoken.told(enveloped("server/discover", 2))
    await spoken.ended()
