"""memoryd mcp over HTTP when one side goes away: a client that hangs up or is killed, a server that is stopped or killed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio
from mcp import Client, MCPError

from tests.support.database.schemas import connected
from tests.support.processes.commands import Commands
from tests.support.processes.forks import Process
from tests.support.repository import ROOT
from tests.support.services.mcp_clients import done, http_server, over_http
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKEN = "t" * 43
SERVED = ("--agent", "carol", "--time-limit", "120")
OF_SERVER = "from pg_stat_activity where datname = current_database() and application_name = 'memoryd mcp'"
WAITS = f"select exists (select {OF_SERVER} and wait_event_type = 'Lock')"
RUNS_NOTHING = f"select not exists (select {OF_SERVER} and state <> 'idle')"
STORED = "select count(*) from agent_memory where content = 'never stored'"
TEXT = {"text": "never stored"}
CALL = {"name": "remember", "arguments": TEXT}
CLIENT = """
import asyncio, sys
from tests.support.services.mcp_clients import over_http

async def main():
    async with over_http(sys.argv[1], sys.argv[2]) as client:
        await client.call_tool("remember", {"text": "never stored"})

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def commands(url: str, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """Of this database."""
    return Commands(url, tmp_path_factory.mktemp("mcp"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(commands: Commands) -> AsyncIterator[str]:
    """Of a server that runs through the module."""
    async with http_server(commands, *SERVED, token=TOKEN) as (_, made):
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def locked(url: str) -> AsyncIterator[None]:
    """A table that nobody can write to."""
    async with connected(url) as other, other.transaction():
        await other.execute("lock table agent_memory in access exclusive mode")
        yield


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
@pytest.mark.usefixtures("locked")
async def test_a_client_that_hangs_up_leaves_no_statement_running(
    version: str, address: str, db: asyncpg.Connection
) -> None:
    at = urlsplit(address)
    asked: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
    if version == "2026-07-28":
        named = {
            "protocolVersion": version,
            "clientCapabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        asked["params"] = CALL | {"_meta": {f"io.modelcontextprotocol/{k}": v for k, v in named.items()}}
    body = json.dumps(asked).encode()
    head = [
        f"POST {at.path} HTTP/1.1", f"Host: {at.netloc}", f"Authorization: Bearer {TOKEN}",
        "Accept: application/json, text/event-stream", "Content-Type: application/json",
        f"MCP-Protocol-Version: {version}", "Mcp-Method: tools/call", "Mcp-Name: remember",
        f"Content-Length: {len(body)}",
    ]  # fmt: skip
    _, writer = await asyncio.open_connection(at.hostname, at.port)
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    await until(db, WAITS)
    writer.transport.abort()
    await until(db, RUNS_NOTHING)


async def test_a_client_that_is_killed_leaves_no_statement_running(
    address: str, url: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    async with connected(url) as other, other.transaction():
        await other.execute("lock table agent_memory in access exclusive mode")
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, address, TOKEN, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}
        )
        await until(db, WAITS)
        client.kill()
        await client.wait()
        await until(db, RUNS_NOTHING)
    assert await db.fetchval(STORED) == 0
    async with over_http(address, TOKEN) as next_client:
        await done(next_client, "remember", text="the server is there for others")


async def test_a_port_that_is_taken_is_named(address: str, commands: Commands) -> None:
    port = str(urlsplit(address).port)
    ended = await commands("mcp", "--agent", "dave", "--http", "--port", port, mcp_token=TOKEN)
    assert ended.code == 1
    assert f"Port {port} cannot be used" in ended.err


async def test_a_server_that_is_stopped_answers_what_it_cuts_short(
    commands: Commands, url: str, db: asyncpg.Connection
) -> None:
    async with http_server(commands, *SERVED, token=TOKEN) as (process, at), over_http(at, TOKEN) as client:
        async with connected(url) as other, other.transaction():
            await other.execute("lock table agent_memory in access exclusive mode")
            waiting = asyncio.create_task(client.call_tool("remember", TEXT))
            await until(db, WAITS)
            process.terminate()
            with pytest.raises(MCPError, match="stopped before this call was done"):
                await waiting
            assert await process.wait() == 0
            await until(db, RUNS_NOTHING)
        assert await db.fetchval(STORED) == 0
        assert process.stderr is not None
        log = [json.loads(line) for line in (await process.stderr.read()).splitlines()]
        assert "cancelled" in {line.get("outcome") for line in log}


async def calls_after_a_kill(at: str, server: Process) -> None:
    async with over_http(at, TOKEN) as client:
        await done(client, "remember", text="before it was killed")
        server.kill()
        await server.wait()
        with pytest.raises(MCPError, match="Connection closed"):
            await client.call_tool("recall", {"query": "killed"})


async def test_a_server_that_is_killed_and_started_again_is_found_by_the_next_client(
    commands: Commands,
) -> None:
    async with http_server(commands, *SERVED, token=TOKEN) as (killed, at):
        # The transport of the SDK ends with its connection.
        with pytest.raises(ExceptionGroup):
            await calls_after_a_kill(at, killed)
        async with (
            http_server(commands, *SERVED, token=TOKEN, port=urlsplit(at).port or 0),
            over_http(at, TOKEN) as client,
        ):
            [found] = (await done(client, "recall", query="killed"))["results"]
            assert found["content"] == "before it was killed"


async def test_a_client_that_knew_the_server_before_a_restart_need_not_begin_again(
    commands: Commands,
) -> None:
    """Each request says all that it needs, so no session is lost."""
    async with http_server(commands, *SERVED, token=TOKEN) as (first, at), over_http(at, TOKEN) as client:
        await done(client, "remember", text="before it was stopped")
        first.terminate()
        assert await first.wait() == 0
        async with http_server(commands, *SERVED, token=TOKEN, port=urlsplit(at).port or 0):
            [found] = (await done(client, "recall", query="stopped"))["results"]
            assert found["content"] == "before it was stopped"


@pytest.mark.parametrize("token", [None, "u" * 43])
async def test_a_client_without_the_token_is_told_so(token: str | None, address: str) -> None:
    with pytest.raises(ExceptionGroup) as told:
        async with over_http(address, token):
            pass
    assert told.group_contains(MCPError, match="token is missing or wrong")


async def test_two_clients_at_once_get_each_their_own_answers(address: str) -> None:
    async with over_http(address, TOKEN) as one, over_http(address, TOKEN) as two:

        async def ask(client: Client, word: str) -> set[str]:
            made = [await done(client, "remember", text=f"{word} {n}", project=word) for n in range(5)]
            found = await done(client, "recall", query=word, project=word)
            assert {each["id"] for each in found["results"]} == {each["id"] for each in made}
            return {each["id"] for each in made}

        ones, twos = await asyncio.gather(ask(one, "apricot"), ask(two, "walnut"))
        assert not ones & twos
