"""clients/openclaw: turns are stored once, OpenClaw never fails, and nobody is told of another user.

The plugin runs on Node with a double of OpenClaw and of its driver (host.mjs), whose SQL is done here, on a real database.
try_openclaw.py has the real ones.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio
from memoryd_client import id_of

from tests.support.repository import ROOT

QUESTION = "Which instrument does my sister Dora play?"
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "A fine instrument."}]}
GONE: dict[str, Any] = {"error": {"code": "ECONNREFUSED"}}
SAID = """
select array(select m.content from conversation_messages m where m.session_id = $1 order by m.message_index)
"""


class Host:
    """OpenClaw. `away`: statements are not answered; `lost`: the next commit is done and not answered."""

    def __init__(self, process: asyncio.subprocess.Process, connection: asyncpg.Connection) -> None:
        self._process = process
        self._connection = connection
        self.away = self.lost = False

    async def call(self, **call: Any) -> Any:
        """What the plugin returns."""
        self.say(call)
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "result" in said:
                return said["result"]
            if "query" in said:
                self.say(await self._done(**said))
            elif self._connection.is_in_transaction():
                await self._connection.execute("rollback")
        raise AssertionError("the plugin has ended the host")

    def say(self, said: object) -> None:
        """One line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(said).encode() + b"\n")

    async def turn(self, text: str, session: str, person: str | None, **context: Any) -> str:
        """A whole turn; returns what came with the message."""
        given = {
            "runId": uuid4().hex,
            "sessionId": session,
            "channel": "telegram",
            "senderId": person,
            **context,
        }
        before = context.pop("before", [])
        event = {"prompt": text, "currentUserMessage": text, "messages": before}
        found = await self.call(hook="before_prompt_build", event=event, context=given)
        assert "memoryd_recall" in found["prependSystemContext"]
        asked = {"role": "user", "content": found.get("prependContext", "") + text}
        ended = {"success": context.get("success", True), "messages": [*before, asked, ANSWER]}
        await self.call(hook="agent_end", event=ended, context=given)
        return str(found.get("prependContext", ""))

    async def tool(self, name: str, person: str, **given: Any) -> Any:
        """A tool's answer."""
        context = {"agentId": "main", "messageChannel": "telegram", "requesterSenderId": person}
        return await self.call(tool=f"memoryd_{name}", given=given, context=context)

    async def _done(self, query: str, values: list[Any] | None = None) -> dict[str, Any]:
        if self.away:
            return GONE
        try:
            if values is None:
                await self._connection.execute(query)
                rows = []
            else:
                rows = await self._connection.fetch(query, *values)
        except asyncpg.PostgresError as error:
            return {"error": {"code": error.sqlstate}}
        if query == "commit" and self.lost:
            self.lost = False
            return GONE
        return {
            "rows": [
                {k: str(v) if isinstance(v, UUID) else v for k, v in row.items() if k != "created_at"}
                for row in rows
            ]
        }


@pytest_asyncio.fixture
async def host(connection: asyncpg.Connection) -> AsyncIterator[Host]:
    """The plugin in its host."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the plugin for OpenClaw is not tested")
    process = await asyncio.create_subprocess_exec(
        node,
        str(Path(__file__).with_name("host.mjs")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    opened = Host(process, connection)
    opened.say({"config": {"url": "postgresql://localhost/app", "user": "mia"}})
    yield opened
    assert process.stdin is not None
    process.stdin.close()
    assert await process.wait() == 0


async def said(connection: asyncpg.Connection, session: str) -> list[str]:
    """What is stored of a session."""
    await connection.execute("reset role")
    found: list[str] = await connection.fetchval(SAID, id_of(f"openclaw:{session}"))
    return found


async def test_what_is_said_comes_back_in_other_conversations_of_the_same_user(host: Host) -> None:
    one = [{"role": "user", "content": "My sister Dora plays the tuba"}, ANSWER]
    assert await host.turn("My sister Dora plays the tuba", "one", "42") == ""
    assert "tuba" not in await host.turn(QUESTION, "one", "42", before=one)
    assert "tuba" in await host.turn(
        QUESTION, "one", "42", before=one
    )  # compacted: two of its four messages are there
    assert "tuba" in await host.turn(QUESTION, "two", "42")
    assert await host.turn(QUESTION, "three", "43") == ""
    assert await host.turn(QUESTION, "four", None) == ""


async def test_the_tools(host: Host) -> None:
    stored = await host.tool("remember", "42", text="The dentist is Dr. Okafor")
    again = await host.tool("remember", "42", text="The dentist is Dr. Okafor")
    assert (stored["id"], again["what"]) == (again["id"], "strengthened")
    assert (await host.tool("recall", "43", query="Who is the dentist?"))["results"] == []
    assert (await host.tool("forget", "43", ids=[stored["id"]])) == {"deleted": 0}
    [found] = (await host.tool("recall", "42", query="Who is the dentist?"))["results"]
    assert found["id"] == stored["id"]
    assert (await host.tool("forget", "42", ids=[stored["id"]])) == {"deleted": 1}
    for name, given in (
        ("recall", {}),
        ("recall", {"query": 7}),
        ("forget", {"ids": "all"}),
        ("forget", {"ids": ["7"]}),
    ):
        assert "give" in (await host.tool(name, "42", **given))["error"]
    host.away = True
    assert (await host.tool("recall", "42", query="dentist")) == {"error": "The database cannot be reached."}


async def test_turns_wait_in_order_and_are_stored_once(host: Host, connection: asyncpg.Connection) -> None:
    host.lost = True
    # The commit of its context is the first one: nothing came, and its turn waits.
    await host.turn("first\0 \ud800", "one", "42")
    host.away = True
    await host.turn("second", "one", "42")
    await host.call(hook="gateway_stop", event={}, context={})
    assert await said(connection, "telegram:42:one") == []
    host.away, host.lost = False, True
    await host.call(
        hook="gateway_stop", event={}, context={}
    )  # the first turn is stored, and the plugin does not know
    await host.call(hook="gateway_stop", event={}, context={})
    answer = "A fine instrument."
    assert await said(connection, "telegram:42:one") == ["first\ufffd \ufffd", answer, "second", answer]
    warnings = str((await host.call())["warnings"])
    assert "cannot be reached" in warnings
    assert "refused" not in warnings
    assert "quotes a row" not in warnings


async def test_jobs_and_failures_are_no_conversations(host: Host, connection: asyncpg.Connection) -> None:
    await host.turn("Check the mail", "one", None, trigger="cron")
    await host.turn("From another agent", "one", None, inputProvenance={"kind": "inter_session"})
    await host.turn("It broke off", "one", None, success=False)
    await host.turn("I am Mia", "one", None, agentId="coder")
    assert await said(connection, "mia:one") == ["I am Mia", "A fine instrument."]
    rows = await connection.fetch("select distinct agent_id, user_id from conversation_messages")
    assert [tuple(row) for row in rows] == [("openclaw-coder", id_of("mia"))]


async def test_what_it_declares_is_what_it_registers(host: Host) -> None:
    declared = json.loads((ROOT / "clients/openclaw/openclaw.plugin.json").read_text("utf-8"))
    registered = await host.call()
    assert registered["tools"] == declared["contracts"]["tools"]
    assert registered["hooks"] == ["before_prompt_build", "agent_end", "gateway_stop"]
