"""Several memoryd mcp on one database: one agent twice (stdio and HTTP), another agent, and two end users, all at once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from mcp import Client

from tests.support.database.schemas import connected
from tests.support.processes.commands import Commands
from tests.support.services.mcp_clients import done, http_server, over_http, over_stdio

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKEN = "t" * 43
ANN, BEN = str(uuid.uuid4()), str(uuid.uuid4())
SERVERS = {
    "alice": ("--agent", "alice"),
    "bob": ("--agent", "bob"),
    "ann": ("--agent", "alice", "--user", ANN),
    "ben": ("--agent", "alice", "--user", BEN),
}
EACH = 6
SAID = "{who} keeps note number {n} of the harbour"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Client]]:
    """A client of each server; alice's second one is on stdio."""
    folder: Path = tmp_path_factory.mktemp("mcp")
    commands = Commands(url, folder)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        made = {"alice on stdio": await enter(over_stdio(url, folder, "--agent", "alice"))}
        for name, arguments in SERVERS.items():
            _, address = await enter(http_server(commands, *arguments, token=TOKEN))
            made[name] = await enter(over_http(address, TOKEN))
        yield made


async def test_what_one_remembers_the_other_of_the_same_agent_finds_and_forgets(
    clients: dict[str, Client],
) -> None:
    here, there = clients["alice on stdio"], clients["alice"]
    made = await done(here, "remember", text="The quay opens at six")
    [found] = (await done(there, "recall", query="quay"))["results"]
    assert found["id"] == made["id"]
    for other in ("bob", "ann", "ben"):
        assert (await done(clients[other], "recall", query="quay"))["results"] == []
        assert (await done(clients[other], "forget", ids=[made["id"]]))["forgotten"] == 0
    assert (await done(there, "forget", ids=[made["id"]]))["forgotten"] == 1
    assert (await done(here, "recall", query="quay"))["results"] == []


async def test_under_load_no_row_is_lost_doubled_or_seen_by_another(
    clients: dict[str, Client], url: str
) -> None:
    async def work(who: str, client: Client) -> None:
        async def one(n: int) -> None:
            await done(client, "remember", text=SAID.format(who=who, n=n))
            found = await done(client, "recall", query=f"{who} harbour", count=50)
            said = {each["content"].partition(" keeps")[0] for each in found["results"]}
            assert said
            assert said <= ({"alice", "alice on stdio"} if who.startswith("alice") else {who}), (who, said)

        await asyncio.gather(*(one(n) for n in range(EACH)))

    await asyncio.gather(*(work(who, client) for who, client in clients.items()))
    async with connected(url) as db:
        rows = await db.fetch("select agent_id, user_id, content from agent_memory order by content")
    assert [row["content"] for row in rows] == sorted(
        SAID.format(who=who, n=n) for who in clients for n in range(EACH)
    )
    owners = {
        (r["content"].split()[0], r["agent_id"], None if r["user_id"] is None else str(r["user_id"]))
        for r in rows
    }
    assert owners == {
        ("alice", "alice", None), ("bob", "bob", None), ("ann", "alice", ANN), ("ben", "alice", BEN)
    }  # fmt: skip
