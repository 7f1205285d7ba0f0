"""Clients of `memoryd mcp`, made of the SDK's own, that a whole module of tests can share."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from tests.support.processes.commands import Commands
from tests.support.processes.daemons import environment
from tests.support.processes.forks import Process


@asynccontextmanager
async def held(client: Client) -> AsyncIterator[Client]:
    """A client that one task opens and closes, as the SDK demands, while others use it."""
    opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    enough = asyncio.Event()

    async def hold() -> None:
        async with client as inside:
            opened.set_result(inside)
            await enough.wait()

    holding = asyncio.create_task(hold())
    both: set[asyncio.Future[Any]] = {holding, opened}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if holding.done():
        await holding
    try:
        yield opened.result()
    finally:
        enough.set()
        await holding


@asynccontextmanager
async def over_stdio(url: str, folder: Path, *arguments: str) -> AsyncIterator[Client]:
    """A client of a child process."""
    child = StdioServerParameters(
        command=sys.executable,
        args=["-m", "daemon", "mcp", *arguments],
        env=environment(url, {"data_dir": folder / "data"}),
        cwd=folder,
    )
    with (folder / "log").open("w") as log:
        async with held(Client(stdio_client(child, errlog=log))) as client:
            yield client


@asynccontextmanager
async def over_http(url: str, token: str | None) -> AsyncIterator[Client]:
    """A client with this token."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        held(Client(streamable_http_client(url, http_client=http))) as client,
    ):
        yield client


@asynccontextmanager
async def http_server(
    commands: Commands, *arguments: str, token: str, port: int = 0
) -> AsyncIterator[tuple[Process, str]]:
    """A server that listens, and its address; one that runs to the end of the block must end well."""
    process = await commands.start("mcp", *arguments, "--http", "--port", str(port), mcp_token=token)
    assert process.stderr is not None
    line: dict[str, str] = {}
    while line.get("event") != "mcp_listening":
        line = json.loads(await process.stderr.readline())
    try:
        yield process, line["url"]
    finally:
        ended_before = process.returncode is not None
        process.terminate()
        assert ended_before or await process.wait() == 0


def text_of(result: CallToolResult) -> str:
    """What a call answered."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def done(client: Client, tool: str, **arguments: object) -> Any:
    """The answer of a call that succeeds: its JSON, or its text."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return text_of(result) if tool == "context" else json.loads(text_of(result))


async def failed(client: Client, tool: str, **arguments: object) -> str:
    """What a call says that fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    assert "Traceback" not in text_of(result)
    return text_of(result)


async def resource(client: Client, uri: str) -> str:
    """What a resource contains."""
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text
