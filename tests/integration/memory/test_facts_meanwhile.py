"""What goes on while a language model reads: nothing is lost, and nothing of others is changed by mistake."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.support.content.fact_chat import WEDNESDAY, Chat, add, end, id_of, reply, shown, supersede
from tests.support.rows import remember
from tests.support.services.openai_server import OpenAIServer


async def test_a_message_that_changes_while_the_model_thinks_is_read_as_it_is_now(
    chat: Chat, connection: asyncpg.Connection
) -> None:
    [message] = await chat.write("I live in Cork")
    write = await chat.thinks(reply(add=[add("The user lives in Cork.", "m1")]))
    await connection.execute(
        "update conversation_messages set content = 'I live in Galway' where id = $1", message
    )
    await write()
    assert await chat.known() == []
    await chat.read(reply(add=[add("The user lives in Galway.", "m1")]))
    assert await chat.known() == ["The user lives in Galway."]


@pytest.mark.parametrize(
    "change", ["message_index = 500", "session_id = '11111111-1111-1111-1111-111111111111'"]
)
async def test_a_message_that_moves_is_read_where_it_is(
    chat: Chat, connection: asyncpg.Connection, change: str
) -> None:
    [message] = await chat.write("I live in Cork")
    await connection.execute(
        "insert into conversation_sessions (id, user_id, agent_id) "
        "values ('11111111-1111-1111-1111-111111111111', $1, 'alice')",
        chat.user,
    )
    await connection.execute(f"update conversation_messages set {change} where id = $1", message)
    await chat.read(reply(add=[add("The user lives in Cork.", "m1")]))
    assert await chat.known() == ["The user lives in Cork."]
    assert await connection.fetchval("select count(*) from memoryd.unread") == 0


async def test_where_memory_is_switched_off_while_the_model_thinks_nothing_changes(
    chat: Chat, connection: asyncpg.Connection
) -> None:
    before = WEDNESDAY - timedelta(1)
    await remember(connection, "The user is a nurse.", user_id=chat.user, kind="fact", created_at=before)
    await chat.write("I live in Cork, and am no nurse")
    write = await chat.thinks(
        reply(add=[add("The user lives in Cork.", "m1")], end=[end("k1", "m1")], names=[("Cork", "place")])
    )
    await connection.execute(
        "insert into memory_settings (user_id, memory_enabled) values ($1, false)", chat.user
    )
    await write()
    assert await chat.known() == ["The user is a nurse."]
    assert await connection.fetchval("select count(*) from memoryd.names") == 0
    assert await connection.fetchval("select count(*) from memoryd.unread") == 0


@pytest.mark.parametrize("operation", ["add", "supersede"])
async def test_what_a_program_remembered_outlives_a_message_that_says_it_too(
    chat: Chat, connection: asyncpg.Connection, operation: str
) -> None:
    before = WEDNESDAY - timedelta(1)
    for text in ("The user works.", "The user is a nurse."):
        await remember(connection, text, user_id=chat.user, kind="fact", created_at=before)

    def answer(request: dict[str, Any]) -> str:
        if operation == "add":
            return reply(add=[add("The user is a nurse.", "m1")])
        return reply(supersede=[supersede(id_of(request, "works"), "The user is a nurse.", "m1")])

    message = await chat.say("I am a nurse", answer)
    await connection.execute("delete from conversation_messages where id = $1", message)
    assert "The user is a nurse." in await chat.known()


@pytest.mark.parametrize(("of_memory", "of_message"), [(None, "boat"), ("boat", None)])
async def test_what_replaces_a_memory_is_found_where_that_one_was(
    chat: Chat, connection: asyncpg.Connection, of_memory: str | None, of_message: str | None
) -> None:
    """What is said in one project is not lost in the others, nor is a project's memory found in all."""
    metadata = [json.dumps({} if one is None else {"project": one}) for one in (of_memory, of_message)]
    await remember(
        connection,
        "The user lives in Lyon.",
        user_id=chat.user,
        kind="fact",
        metadata=metadata[0],
        created_at=WEDNESDAY - timedelta(1),
    )
    await chat.write()
    await connection.execute(
        "insert into conversation_messages (session_id, user_id, role, content, metadata, created_at) "
        "values ($1, $2, 'user', 'we moved to Nantes', $3, $4)",
        chat.session,
        chat.user,
        metadata[1],
        WEDNESDAY,
    )
    await chat.read(reply(supersede=[supersede("k1", "The user lives in Nantes.", "m1")]))
    project = "select metadata ->> 'project' from agent_memory where content ~ 'Nantes'"
    assert await connection.fetchval(project) == of_memory


async def test_an_agent_changes_its_own_memories_and_the_shared_ones_for_all(
    chat: Chat, connection: asyncpg.Connection, provider: OpenAIServer
) -> None:
    """`bob` goes on to know what `alice`, who hears the user, cannot recall."""
    before = WEDNESDAY - timedelta(1)
    for agent, text in (("bob", "The user uses tabs."), ("_shared", "The user lives in Lyon.")):
        await remember(connection, text, user_id=chat.user, agent_id=agent, kind="fact", created_at=before)
    await chat.say("moved to Nantes", reply(supersede=[supersede("k1", "The user lives in Nantes.", "m1")]))
    assert [one["text"] for one in shown(provider.requests[-1])["memories"]] == ["The user lives in Lyon."]
    assert await chat.known() == ["The user lives in Nantes.", "The user uses tabs."]
    agent = "select agent_id from agent_memory where content ~ 'Nantes'"
    assert await connection.fetchval(agent) == "_shared"
