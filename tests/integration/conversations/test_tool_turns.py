"""Turns that call a tool have no text, but the call in their metadata; what the tool gave is of role tool."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from tests.integration.users.test_user_controls_export import export, put_back
from tests.support.access.acting import ANN, acting_as
from tests.support.access.refusals import refused
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import column
from tests.support.waiting import IDLE, until

CALL = {
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "tides", "arguments": "{}"}}]
}
# As chat completions, the Responses API and Anthropic's have a call, and as a tool answers.
TURNS: tuple[tuple[str, str | None, dict[str, Any]], ...] = (
    ("user", "When is high tide in Wexhaven?", {}),
    ("assistant", None, CALL),
    ("tool", "High tide in Wexhaven is at 14:20", {"tool_call_id": "call_1"}),
    ("assistant", "", {"type": "function_call", "call_id": "call_2", "name": "tides", "arguments": "{}"}),
    ("tool", "", {"tool_call_id": "call_2", "is_error": False}),
    (
        "user",
        " ",
        {"content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "my name is Zed"}]},
    ),
    ("assistant", "At twenty past two.", {}),
)
WRITE = """
insert into conversation_messages (session_id, user_id, agent_id, role, content, metadata)
values ($1, $2, 'alice', $3, $4, $5) returning id
"""
FIND = """select {0} from recall('tide Wexhaven', options => '{{"roles": ["tool"], "around": {1}}}')"""
LOAD = "select role, content, metadata::text from load_context($1)"
STATES = (
    "select state from index_state($1) s join conversation_messages m using (id) order by m.message_index"
)


async def test_a_conversation_with_tools_is_kept_shown_and_found(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    session = uuid4()
    async with acting_as(connection, None, role="memoryd_service"):
        ids: list[UUID] = [
            await connection.fetchval(WRITE, session, ANN, role, text, json.dumps(metadata))
            for role, text, metadata in TURNS
        ]
    await until(connection, IDLE)
    said = [(row[0], row[1], json.loads(row[2])) for row in await connection.fetch(LOAD, session)]
    assert said == [(role, text or "", metadata) for role, text, metadata in TURNS]
    states = ["indexed", "empty", "indexed", "empty", "empty", "empty", "indexed"]
    assert await column(connection, STATES, ids) == states
    [why] = await column(connection, "select reason from index_state(array[$1::uuid])", ids[1])
    assert why == "it has no text that it could be found by"
    async with acting_as(connection, ANN):
        found = await column(connection, FIND.format("id", 0))
        assert found == [ids[2]]
        # What stands beside it: the turns that say something.
        [around] = await column(connection, FIND.format("content", 3))
        assert "High tide" in str(around)
        assert "assistant: \n" not in str(around)
    # What a tool gave is nobody's word.
    assert await column(connection, "select content from agent_memory where kind = 'fact'") == []

    # A text that goes and comes again.
    await connection.execute(
        "update conversation_messages set content = '', metadata = $2 where id = $1", ids[6], json.dumps(CALL)
    )
    await connection.execute(
        "update conversation_messages set content = 'The tide calls' where id = $1", ids[1]
    )
    await until(connection, IDLE)
    states[6], states[1] = states[1], states[6]
    assert await column(connection, STATES, ids) == states
    assert await connection.fetchval("select count(*) from memoryd.entries where id = $1", ids[6]) == 0
    assert await connection.fetchval("select count(*) from memoryd.unindexed") == 0
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0

    tables = await export(connection, ANN)
    assert len(tables["conversation_messages"]) == 7
    await connection.execute("select erase_user_memory($1)", ANN)
    assert await connection.fetchval("select count(*) from conversation_messages") == 0
    await put_back(connection, tables)
    assert (await export(connection, ANN))["conversation_messages"] == tables["conversation_messages"]


async def test_a_user_writes_turns_of_tools_and_gets_those_of_a_service_in_their_conversation(
    scratch: asyncpg.Connection,
) -> None:
    async with acting_as(scratch, ANN):
        session = await scratch.fetchval("insert into conversation_sessions default values returning id")
        await scratch.execute(WRITE, session, ANN, "tool", "", json.dumps({"tool_call_id": "1"}))
        for text in ("", None):
            assert (await refused(scratch, WRITE, session, ANN, "assistant", text, "{}"))[0] in {
                "23514",
                "23502",
            }
    async with acting_as(scratch, None, role="memoryd_service"):
        await scratch.execute("insert into conversation_history (session_id, user_id, speaker, message_text) "
                              "values ($1, $2, 'Tool', 'done')", session, ANN)  # fmt: skip
    assert await column(scratch, "select role from load_context($1)", session) == ["tool", "tool"]
    # A tool is no person: it has no secret before the user whose conversation it is.
    await scratch.execute("alter table conversation_messages disable trigger put_in_session")
    await scratch.execute(
        "insert into conversation_messages (session_id, message_index, role, speaker, content) "
        "values ($1, 9, 'tool', 'tides', 'x')",
        session,
    )
    await scratch.execute("alter table conversation_messages enable trigger put_in_session")
    assert len(await column(scratch, "select memoryd.messages_of($1)", ANN)) == 3
