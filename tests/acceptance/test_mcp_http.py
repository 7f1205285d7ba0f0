"""memoryd mcp over real HTTP, for an end user: who gets in, and what a user can do."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx2
import pytest
import pytest_asyncio
from mcp import Client, MCPError

from tests.support.processes.commands import Commands
from tests.support.rows import remember
from tests.support.services.mcp_clients import done, failed, over_http, resource

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB = uuid.uuid4(), uuid.uuid4()
TOKEN = "t" * 43
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HOSTS_OF_OTHERS = (
    "evil.example", "evil@127.0.0.1", "127.0.0.1:1@evil.example", "127.0.0.1:evil.example", "localhost.evil.example",
    "127.0.0.1/", "127.0.0.1?x", "127.0.0.1, evil.example", "[::1", "127.0.0.1]",
)  # fmt: skip
ORIGINS_OF_OTHERS = (
    "http://evil.example", "null", "http://127.0.0.1:1@evil.example", "https://localhost.evil.example", "http://[", "127.0.0.1",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Where the server of user ann listens."""
    folder = tmp_path_factory.mktemp("mcp")
    token = folder / "token"
    token.touch(0o600)
    token.write_text(TOKEN + "\n")
    asked = ("mcp", "--agent", "helper", "--user", str(ANN), "--project", "the farm", "--http", "--port", "0")
    process = await Commands(url, folder).start(*asked, mcp_token_file=token)
    assert process.stderr is not None
    line: dict[str, str] = {}
    while line.get("event") != "mcp_listening":
        line = json.loads(await process.stderr.readline())
    yield line["url"]
    process.terminate()
    assert await process.wait() == 0
    rest = (await process.stderr.read()).decode()
    assert TOKEN not in rest
    assert "Traceback" not in rest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(address: str) -> AsyncIterator[Client]:
    """Her client."""
    async with over_http(address, TOKEN) as client:
        yield client


async def test_only_who_has_the_token_gets_in_and_only_from_this_machine(address: str) -> None:
    right = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    refused = [
        (401, {}), (401, {"Authorization": "Bearer " + "u" * 43}), (401, {"Authorization": TOKEN}),
        (401, {"Authorization": f"Basic {TOKEN}"}), *((421, right | {"Host": host}) for host in HOSTS_OF_OTHERS),
        *((403, right | {"Origin": origin}) for origin in ORIGINS_OF_OTHERS),
    ]  # fmt: skip
    async with httpx2.AsyncClient() as http:
        for code, headers in refused:
            answer = await http.post(address, json=PING, headers=headers)
            assert answer.status_code == code, (code, headers, answer.text)
        elsewhere = await http.get(address.replace("/mcp", "/"), headers=right)
        assert elsewhere.status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        '{"jsonrpc": "2.0", "id": NaN, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": -Infinity, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"x": [NaN]}}}',
        '{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": Infinity}}',
        '{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": true, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": null, "method": "ping"}',
        '[{"jsonrpc": "2.0", "id": NaN, "method": "ping"}]',
        '{"jsonrpc": "2.0", "id": 1, "method": "ping"',
        "[" * 100_000,
        "9" * 5000,
        "[" + "{}," * 100_000 + "1]",
        '{"jsonrpc": "2.0", "id": 1, "method": 5, "params": {"x": [' + "1," * 100_000 + "1]}}",
        '{"jsonrpc": "2.0", "id": 1}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_what_is_no_call_is_refused_and_not_accepted(address: str, body: str, encoding: str) -> None:
    headers = {
        "Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream", "Content-Type": "application/json",
    }  # fmt: skip
    for version in ({}, {"MCP-Protocol-Version": "2025-06-18"}, {"MCP-Protocol-Version": "2026-07-28"}):
        async with httpx2.AsyncClient() as http:
            answer = await http.post(address, content=body.encode(encoding), headers=headers | version)
        assert answer.status_code == 400, (version, answer.text)
        assert answer.json()["error"]["code"] < 0


async def test_whether_it_is_up_needs_no_token_but_this_machine(address: str) -> None:
    health = address.replace("/mcp", "/health")
    async with httpx2.AsyncClient() as http:
        up = await http.get(health)
        assert (up.status_code, up.json()) == (200, {"status": "ok"})
        for code, headers in ((421, {"Host": "evil.example"}), (403, {"Origin": "http://evil.example"})):
            assert (await http.get(health, headers=headers)).status_code == code
        for other in (http.post(health, json=PING), http.get(health + "/x"), http.get(address + "/../x")):
            assert (await other).status_code == 401


async def test_calls_that_name_no_project_are_made_in_that_of_the_server(
    ann: Client, db: asyncpg.Connection
) -> None:
    projects: dict[int, str | None] = {}
    others: list[dict[str, str]] = [{}, {"project": "the other project"}]
    for given in others:
        made = await done(ann, "remember", text=f"the barn owl {given}", **given)
        projects[len(given)] = await db.fetchval(
            "select metadata ->> 'project' from agent_memory where id = $1", uuid.UUID(made["id"])
        )
    assert projects == {0: "the farm", 1: "the other project"}
    found = await done(ann, "recall", query="barn owl")
    assert len(found["results"]) == 1
    await db.execute("delete from agent_memory")  # other tests count theirs


async def test_a_user_has_a_users_tools(ann: Client) -> None:
    names = [tool.name for tool in (await ann.list_tools()).tools]
    assert names == ["remember", "recall", "get", "supersede", "context", "feedback", "forget", "explain"]
    with pytest.raises(MCPError, match="no such tool"):
        await ann.call_tool("know", {"text": "x"})


async def test_a_user_reads_and_corrects_only_what_is_theirs(ann: Client, db: asyncpg.Connection) -> None:
    made = await done(ann, "remember", text="the heron nests in May")
    new = await done(ann, "supersede", id=made["id"], text="the heron nests in April")
    [short] = (await done(ann, "recall", query="heron", short=True))["results"]
    [whole] = (await done(ann, "get", ids=[short["id"]]))["results"]
    assert (whole["id"], whole["content"]) == (new["id"], "the heron nests in April")
    # Not even what was found before, once it is another's.
    await db.execute(
        "update agent_memory set user_id = gen_random_uuid() where id = $1", uuid.UUID(new["id"])
    )
    assert (await done(ann, "get", ids=[new["id"]]))["not_there"] == 1
    assert "no memory of yours" in await failed(ann, "supersede", id=new["id"], text="mine")
    await db.execute("delete from agent_memory")  # other tests count theirs


async def test_a_user_finds_and_changes_only_what_is_theirs(ann: Client, db: asyncpg.Connection) -> None:
    of_bob = await remember(db, "the zeppelin of Bob", agent_id="helper", user_id=BOB)
    of_agent = await remember(db, "the zeppelin of the agent", agent_id="helper")
    made = await done(ann, "remember", text="the zeppelin of Ann")
    row = await db.fetchrow("select agent_id, user_id from agent_memory where id = $1", uuid.UUID(made["id"]))
    assert row is not None
    assert (row["agent_id"], row["user_id"]) == ("helper", ANN)

    found = await done(ann, "recall", query="zeppelin")
    assert [each["content"] for each in found["results"]] == ["the zeppelin of Ann"]
    assert await done(ann, "feedback", recall_id=found["recall_id"], useful=True) == {"useful": True}
    judged = await db.fetchrow(
        "select user_id, useful from memory_queries where id = $1", uuid.UUID(found["recall_id"])
    )
    assert judged is not None
    assert (judged["user_id"], judged["useful"]) == (ANN, True)
    of_bobs = await db.fetchval(
        "insert into memory_queries (agent_id, user_id) values ('helper', $1) returning id", BOB
    )
    for other in (of_bobs, uuid.uuid4()):
        assert "no recall with this id" in await failed(ann, "feedback", recall_id=str(other), useful=True)
    assert "Bob" not in str(await done(ann, "explain", of="recall", text="zeppelin"))
    block = await done(ann, "context", message="paint the zeppelin")
    assert ("Ann" in block, "Bob" in block, "of the agent" in block) == (True, False, False)
    listed = await resource(ann, "memoryd://memories")
    assert ("Ann" in listed, "Bob" in listed, "of the agent" in listed) == (True, False, False)

    for other in (of_bob, of_agent):
        with pytest.raises(MCPError, match="no such resource"):
            await ann.read_resource(f"memoryd://memories/{other}")
    gone = await done(ann, "forget", ids=[str(of_bob), str(of_agent), made["id"]])
    assert gone == {"forgotten": 1, "not_there": 2}
    assert await db.fetchval("select count(*) from agent_memory") == 2


async def test_too_much_text_is_refused_in_words(ann: Client) -> None:
    assert "100000 characters" in await failed(ann, "remember", text="x" * 5_000_000)
    assert "not an argument" in await failed(ann, "recall", query="zeppelin", user_id=str(BOB))


@pytest.mark.parametrize(
    ("options", "settings", "says"),
    [
        (["--http"], {}, "needs a token"),
        (["--http"], {"mcp_token": "short"}, "32 or more"),
        (["--http"], {"mcp_token_file": "open"}, "chmod 600"),
        (["--http"], {"mcp_token_file": "nowhere"}, "cannot be read"),
    ],
)
async def test_without_a_good_token_it_does_not_start(
    options: list[str], settings: dict[str, object], says: str, tmp_path: Path
) -> None:
    (tmp_path / "open").write_text(TOKEN)
    (tmp_path / "open").chmod(0o644)
    ended = await Commands("postgresql://nobody@127.0.0.1:1/none", tmp_path)(
        "mcp", "--agent", "a", *options, stdin=b"", **settings
    )
    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err
    assert "'short'" not in ended.err
