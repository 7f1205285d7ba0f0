"""memoryd mcp on stdio, with the SDK's own client: the tools of an agent, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio
from mcp import Client, MCPError
from mcp_types import Tool
from memoryd_client import id_of
from tokenizers import Tokenizer

from daemon.db.pool import Database
from daemon.logs import get_logger
from plugins.mcp.calls import CallFailedError, Calls
from plugins.mcp.identity import Identity, WrongLoginError, check_identity
from plugins.mcp.server import described
from plugins.mcp.tools import tools_of
from tests.support.database.schemas import connected
from tests.support.database.transaction_pooler import TransactionPooler, pump
from tests.support.processes.commands import Commands
from tests.support.repository import ROOT
from tests.support.rows import remember
from tests.support.services.mcp_clients import done, failed, over_stdio, resource, text_of
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = ["remember", "recall", "get", "supersede", "context", "know", "feedback", "forget", "explain"]
MOST_TOKENS, MOST_TOKENS_OF_BASIC = 1_700, 800
USER = uuid.UUID("00000000-0000-0000-0000-00000000a11c")
OF_SERVER = "from pg_stat_activity where datname = current_database() and application_name = 'memoryd mcp'"
WAITS = f"select exists (select {OF_SERVER} and wait_event_type = 'Lock')"
RUNS_NOTHING = f"select not exists (select {OF_SERVER} and state = 'active')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server runs and logs."""
    return tmp_path_factory.mktemp("mcp")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alice(url: str, folder: Path) -> AsyncIterator[Client]:
    """The client of agent alice."""
    async with over_stdio(url, folder, "--agent", "alice") as client:
        yield client


async def test_a_model_is_told_what_each_tool_does(alice: Client) -> None:
    tools = {tool.name: tool for tool in (await alice.list_tools()).tools}
    assert list(tools) == TOOLS
    for tool in tools.values():
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        assert all(each.get("description") for each in tool.input_schema["properties"].values())
    marks = {name: tool.annotations for name, tool in tools.items()}
    assert [n for n, m in marks.items() if m and m.read_only_hint] == ["recall", "get", "context", "explain"]
    assert [n for n, m in marks.items() if m and m.destructive_hint] == ["forget"]
    assert "context" in (alice.instructions or "")


def tokens_of(tools: Iterable[Tool]) -> int:
    """What a model reads of these tools, in tokens of Llama's tokenizer."""
    [file] = (Path(str(files("wordllama"))) / "tokenizers").glob("*.json")
    said = [[tool.name, tool.description, tool.input_schema] for tool in tools]
    return len(Tokenizer.from_file(str(file)).encode(json.dumps(said), add_special_tokens=False).ids)


async def test_tools_cost_a_model_few_tokens(alice: Client, db: asyncpg.Connection, url: str) -> None:
    assert tokens_of((await alice.list_tools()).tools) <= MOST_TOKENS
    basic = tools_of(Identity("alice"), basic=True)
    listed = [described(tool, among=basic) for tool in basic.values()]
    assert [tool.name for tool in listed] == ["remember", "recall", "supersede"]
    assert "short" not in listed[1].input_schema["properties"]
    assert tokens_of(listed) <= MOST_TOKENS_OF_BASIC


async def test_basic_tools_are_all_that_a_client_is_offered(url: str, tmp_path: Path) -> None:
    async with over_stdio(url, tmp_path, "--agent", "alice", "--tools", "basic") as client:
        assert [t.name for t in (await client.list_tools()).tools] == ["remember", "recall", "supersede"]
        assert "context" not in (client.instructions or "")
        with pytest.raises(MCPError, match="The tools are: remember, recall, supersede"):
            await client.call_tool("forget", {"ids": [str(USER)]})


async def test_the_registry_is_told_of_options_that_exist(memoryd: Commands) -> None:
    server = json.loads((ROOT / "clients/mcp/server.json").read_text(encoding="utf-8"))
    [package] = server["packages"]
    assert server["version"] == package["version"] == metadata.version("memoryd")
    said = (await memoryd("mcp", "--help")).out
    assert all(each["name"] in said for each in package["packageArguments"] if each["type"] == "named")


async def test_short_results_are_read_whole_by_their_ids(alice: Client, db: asyncpg.Connection) -> None:
    text = "The quagga paddock\n" + "is north of the river. " * 200
    made = await done(alice, "remember", text=text)
    note = await done(alice, "know", text="Quagga keepers " + "walk slowly " * 50, category="principle")
    unseen = await remember(db, "nobody recalled this", agent_id="alice")
    short = (await done(alice, "recall", query="quagga", short=True))["results"]
    assert {each["id"] for each in short} == {made["id"], note["id"]}
    assert max(len(each["content"]) for each in short) <= 100
    assert "The quagga paddock" in {each["content"] for each in short}
    whole = await done(alice, "get", ids=[note["id"], made["id"], str(unseen), made["id"]])
    assert [each["id"] for each in whole["results"]] == [note["id"], made["id"]]
    assert whole["results"][1]["content"] == text
    assert whole["not_there"] == 1
    # What has become another's since is not read.
    await db.execute("update agent_memory set agent_id = 'bob' where id = $1", uuid.UUID(made["id"]))
    assert (await done(alice, "get", ids=[made["id"]]))["not_there"] == 1


async def test_what_is_wrong_is_corrected_and_stays_as_history(alice: Client, db: asyncpg.Connection) -> None:
    old = await done(alice, "remember", text="The okapi house opens at nine")
    new = await done(alice, "supersede", id=old["id"], text="The okapi house opens at ten")
    assert new["supersedes"] == old["id"]
    # Who was given these ids reads them, and is told which is no longer true.
    [was, now] = (await done(alice, "get", ids=[old["id"], new["id"]]))["results"]
    assert (was["outdated"], "outdated" in now) == (True, False)
    found = (await done(alice, "recall", query="okapi house"))["results"]
    assert [each["content"] for each in found] == ["The okapi house opens at ten"]
    assert (
        await db.fetchval("select superseded_by::text from agent_memory where id = $1::uuid", old["id"])
        == new["id"]
    )
    refused = await failed(alice, "supersede", id=old["id"], text="at eleven")
    assert "superseded already" in refused
    assert new["id"] in refused
    for other in (
        await remember(db, "the users own", user_id=USER),
        await remember(db, "what bob noted too", agent_id="bob"),
        uuid.uuid4(),
    ):
        assert "no memory of yours" in await failed(alice, "supersede", id=str(other), text="mine now")
    assert not await db.fetchval("select exists (select from agent_memory where content = 'mine now')")


async def test_what_is_remembered_is_found_judged_and_forgotten(
    alice: Client, db: asyncpg.Connection
) -> None:
    made = await done(alice, "remember", text="Bertha is the espresso machine", ttl_hours=5)
    assert (
        await db.fetchval("select agent_id from agent_memory where id = $1", uuid.UUID(made["id"])) == "alice"
    )
    assert made["expires_at"] is not None
    found = await done(alice, "recall", query="espresso machine")
    [best] = found["results"]
    assert (best["id"], best["content"], best["source"]) == (
        made["id"],
        "Bertha is the espresso machine",
        "memory",
    )
    await done(alice, "feedback", recall_id=found["recall_id"], useful=True)
    assert await db.fetchval("select useful from memory_queries where id = $1", uuid.UUID(found["recall_id"]))
    assert "Bertha" in await done(alice, "context", message="clean the espresso machine")
    [why] = (await done(alice, "explain", of="recall", text="espresso machine"))["results"]
    assert why["lexical"] > 0
    steps = (await done(alice, "explain", of="context", text="clean the espresso machine"))["steps"]
    assert "found" in {step["step"] for step in steps}
    assert "Bertha" in await resource(alice, "memoryd://memories")
    assert await resource(alice, "memoryd://insights") == "[]"
    gone = await done(alice, "forget", ids=[made["id"], str(uuid.uuid4())])
    assert gone == {"forgotten": 1, "not_there": 1}
    assert (await done(alice, "recall", query="espresso machine"))["results"] == []


async def test_the_same_note_said_twice_at_once_is_stored_once(alice: Client, db: asyncpg.Connection) -> None:
    note = {"text": "We deploy on Tuesdays only", "category": "principle"}
    told = await asyncio.gather(*(done(alice, "know", **note) for _ in range(2)))
    assert sorted(each["what"] for each in told) == ["stored", "strengthened"]
    by = await db.fetch("select created_by from shared_knowledge where content like 'We deploy%'")
    assert [row["created_by"] for row in by] == ["alice"]


async def test_what_is_remembered_again_is_stored_once(alice: Client, db: asyncpg.Connection) -> None:
    told = await asyncio.gather(*(done(alice, "remember", text="Bertha needs descaling") for _ in range(3)))
    assert sorted(each["what"] for each in told) == ["stored", "strengthened", "strengthened"]
    assert len({each["id"] for each in told}) == 1
    assert await db.fetchval("select count(*) from agent_memory where content ~ 'descaling'") == 1


async def test_prompts_are_a_persons_first_words(alice: Client) -> None:
    listed = {
        p.name: [(a.name, a.required) for a in p.arguments or ()]
        for p in (await alice.list_prompts()).prompts
    }
    assert listed == {"remembered": [("about", True)], "hand_over": []}
    [message] = (await alice.get_prompt("remembered", {"about": "the {about} of Bertha"})).messages
    assert message.role == "user"
    assert "remember about the {about} of Bertha?" in str(message.content)
    [message] = (await alice.get_prompt("hand_over")).messages
    assert "remember" in str(message.content)
    for name, given, why in (
        ("remembered", None, "Give the argument about"),
        ("remembered", {"about": " "}, "Give the argument about"),
        ("forgotten", None, "no such prompt. The prompts are: remembered, hand_over"),
    ):
        with pytest.raises(MCPError, match=why):
            await alice.get_prompt(name, given)


async def test_a_long_memory_is_cut_in_recall_and_whole_as_a_resource(alice: Client) -> None:
    text = "zeppelin " * 1_000
    made = await done(alice, "remember", text=text)
    [best] = (await done(alice, "recall", query="zeppelin"))["results"]
    assert len(best["content"]) == 2_000
    assert best["cut_from_characters"] == len(text)
    assert json.loads(await resource(alice, f"memoryd://memories/{made['id']}"))["content"] == text


async def test_what_belongs_to_another_project_is_not_found(alice: Client) -> None:
    await done(alice, "remember", text="The gate code is 77", project="family")
    assert (await done(alice, "recall", query="gate code", project="family"))["results"]
    assert not (await done(alice, "recall", query="gate code", project="office"))["results"]


async def test_a_conversation_is_left_out_by_its_name(alice: Client, db: asyncpg.Connection) -> None:
    await db.execute(
        "insert into conversation_messages (session_id, agent_id, role, content) "
        "values ($1, 'alice', 'assistant', 'The dugong is in pool 3')",
        id_of("telegram:42"),
    )
    ask = {"query": "dugong", "sources": ["conversation"]}
    assert (await done(alice, "recall", **ask, exclude_session="telegram:43"))["results"]
    assert not (await done(alice, "recall", **ask, exclude_session="telegram:42"))["results"]


async def test_a_wrong_call_is_refused_with_what_to_do(alice: Client) -> None:
    assert "user_id is not an argument of this tool" in await failed(
        alice, "remember", text="x", user_id=str(USER)
    )
    assert "query is missing" in await failed(alice, "recall")
    assert "NUL" in await failed(alice, "remember", text="a\0b")
    assert "blank" in await failed(alice, "recall", query="  ")
    assert "100000 characters" in await failed(alice, "remember", text="x" * 5_000_000)
    assert "ids.0" in await failed(alice, "forget", ids=["not-an-id"])
    almost = {"query": "x", "exclude_session": str(USER)[:-1]}
    assert "exclude_session: An id is almost a UUID" in await failed(alice, "recall", **almost)
    assert "is not an argument" in await failed(alice, "recall", query="x", **{"y" * 100_000: 1})
    assert "success is missing" in await failed(alice, "know", text="It went well", category="outcome")
    # What only the database knows comes with its hint.
    assert "leave it out" in await failed(alice, "know", text="It rains", related_ids=[str(uuid.uuid4())])
    assert "no recall with this id" in await failed(
        alice, "feedback", recall_id=str(uuid.uuid4()), useful=True
    )
    with pytest.raises(MCPError, match="no such tool"):
        await alice.call_tool("drop_table", {})
    for uri in ("memoryd://memories/x", f"memoryd://memories/{uuid.uuid4()}", "file:///etc/passwd"):
        with pytest.raises(MCPError, match="no such resource"):
            await alice.read_resource(uri)


async def test_an_agent_touches_no_users_and_no_other_agents_rows(
    alice: Client, db: asyncpg.Connection
) -> None:
    of_user = await remember(db, "the users own secret", user_id=USER)
    of_bob = await remember(db, "what bob noted", agent_id="bob")
    judged = await db.fetchval("insert into memory_queries (agent_id) values ('bob') returning id")
    ids = [str(of_user), str(of_bob)]
    assert await done(alice, "forget", ids=ids) == {"forgotten": 0, "not_there": 2}
    assert await db.fetchval("select count(*) from agent_memory where id = any($1)", [of_user, of_bob]) == 2
    await failed(alice, "feedback", recall_id=str(judged), useful=False)
    for each in ids:
        with pytest.raises(MCPError, match="no such resource"):
            await alice.read_resource(f"memoryd://memories/{each}")
    assert "secret" not in await resource(alice, "memoryd://memories")


async def test_a_database_that_goes_away_fails_one_call(
    alice: Client, db: asyncpg.Connection, url: str, folder: Path
) -> None:
    async with connected(url) as other, other.transaction():
        await other.execute("lock table agent_memory in access exclusive mode")
        waiting = asyncio.create_task(failed(alice, "remember", text="a word nobody logs: xylophone"))
        await until(db, WAITS)
        await db.fetch(f"select pg_terminate_backend(pid) {OF_SERVER}")
        assert "cannot be reached" in await waiting
    await done(alice, "remember", text="it is back")
    await failed(alice, "remember", text="")
    log = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    assert {"mcp_started", "mcp_call"} == {line["event"] for line in log}
    assert {"failed", "refused", "done"} == {line["outcome"] for line in log if "outcome" in line}
    assert "xylophone" not in str(log)
    assert "Bertha" not in str(log)


@asynccontextmanager
async def away(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """An address at which the database does not answer until the event is set."""
    back = asyncio.Event()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await back.wait()
        there, forth = await asyncio.open_connection("127.0.0.1", urlsplit(pooler.url).port)
        await asyncio.gather(pump(reader, forth), pump(there, writer))

    async with (
        TransactionPooler(url, session=True, connections=5) as pooler,
        await asyncio.start_server(meet, "127.0.0.1", 0) as listening,
    ):
        port = listening.sockets[0].getsockname()[1]
        yield urlsplit(pooler.url)._replace(netloc=f"postgres@127.0.0.1:{port}").geturl(), back


async def test_a_database_that_is_away_at_the_start_is_there_for_the_calls_after(
    db: asyncpg.Connection, url: str, tmp_path: Path
) -> None:
    """A client starts its servers once, and asks its model without the tools of one that is late or has ended."""
    async with (
        away(url) as (at, back),
        over_stdio(at, tmp_path, "--agent", "frank", "--time-limit", "0.1") as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        assert "Try again" in await failed(client, "recall", query="away")
        back.set()
        while (await client.call_tool("remember", {"text": "it came back"})).is_error:
            pass
    assert await db.fetchval("select agent_id from agent_memory where content = 'it came back'") == "frank"
    log = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert "mcp_database_away" in log


async def test_a_model_reads_a_result_once(alice: Client) -> None:
    """Copilot CLI gives its model the structured content beside the text."""
    result = await alice.call_tool("recall", {"query": "anything"})
    assert result.structured_content is None
    assert text_of(result).startswith('{"recall_id":"')


async def test_a_call_ends_at_its_time_limit(db: asyncpg.Connection, url: str) -> None:
    async def opened() -> Database:
        return await Database.open(url, size=1, pooled=False, logger=get_logger(), application="limited")

    calls = Calls(opened, Identity("alice"), seconds=0.1, logger=get_logger())
    tool = tools_of(calls.identity)["remember"]
    async with db.transaction():
        await db.execute("lock table agent_memory in access exclusive mode")
        with pytest.raises(CallFailedError, match=r"did not answer within 0.1 seconds"):
            await calls.tool(tool, {"text": "too late"})


async def test_a_client_that_is_gone_leaves_no_statement_running(
    db: asyncpg.Connection, url: str, tmp_path: Path
) -> None:
    process = await Commands(url, tmp_path).start("mcp", "--agent", "carol", "--time-limit", "120")
    assert process.stdin is not None
    assert process.stdout is not None
    asked = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    call = {"name": "remember", "arguments": {"text": "never stored"}}
    async with connected(url) as other, other.transaction():
        await other.execute("lock table agent_memory in access exclusive mode")
        for message in (
            asked,
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
        ):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        await until(db, WAITS)
        process.stdin.close()
        assert await process.wait() == 0
        await until(db, RUNS_NOTHING)
    # Nothing but the protocol was said.
    said = (await process.stdout.read()).splitlines()
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in said)
    assert not await db.fetchval("select exists (select from agent_memory where agent_id = 'carol')")


def server_of(agent: str) -> int:
    """The process that serves this agent."""
    end = f"mcp\0--agent\0{agent}\0".encode()
    [found] = [each for each in Path("/proc").glob("[0-9]*/cmdline") if each.read_bytes().endswith(end)]
    return int(found.parent.name)


async def test_a_server_that_is_killed_fails_the_call_and_is_started_again(
    db: asyncpg.Connection, url: str, tmp_path: Path
) -> None:
    async with over_stdio(url, tmp_path, "--agent", "erin") as client:
        server = server_of("erin")
        async with connected(url) as other, other.transaction():
            await other.execute("lock table agent_memory in access exclusive mode")
            waiting = asyncio.create_task(client.call_tool("remember", {"text": "never stored"}))
            await until(db, WAITS)
            os.kill(server, signal.SIGKILL)
            with pytest.raises(MCPError, match="Connection closed"):
                await waiting
    assert not await db.fetchval("select exists (select from agent_memory where content = 'never stored')")
    async with over_stdio(url, tmp_path, "--agent", "erin") as client:
        assert (await done(client, "recall", query="stored"))["results"] == []


async def test_a_login_that_is_another_user_is_refused(db: asyncpg.Connection, url: str) -> None:
    database = await Database.open(url, size=1, pooled=False, logger=get_logger(), application="another")
    try:
        await check_identity(database, Identity("alice", USER), seconds=30)
        # Not even the owner: whom memoryd.logins names is no other.
        await db.execute("alter table memoryd.logins disable trigger user")
        await db.execute(
            "insert into memoryd.logins (login, user_id) values (session_user, $1)", uuid.uuid4()
        )
        with pytest.raises(WrongLoginError, match="another end user"):
            await check_identity(database, Identity("alice", USER), seconds=30)
    finally:
        await db.execute("delete from memoryd.logins")
        await db.execute("alter table memoryd.logins enable trigger user")
        await database.close()
