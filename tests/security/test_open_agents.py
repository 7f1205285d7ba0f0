"""End users command only the agents that are open to them, and hear of no others."""

from __future__ import annotations

import json
from uuid import uuid4

import asyncpg

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, insert, one_row
from tests.support.waiting import IDLE, until

COMMAND = (
    "insert into agent_commands (agent_id, user_id, message) values ($1, $2, 'open the vault') returning id"
)
OPEN = "update agents set open_to_users = true where agent_id = $1"
STATUS = "select status = $2 from agent_commands where id = $1"


async def test_an_agent_is_closed_until_the_service_opens_it(connection: asyncpg.Connection) -> None:
    await connection.execute("insert into agents (agent_id) values ('vault')")
    async with acting_as(connection, ANN):
        state, message, hint = await refused(connection, COMMAND, "vault", ANN)
    assert (state, message) == ("42501", "agent 'vault' takes no commands from users")
    assert "update agents set open_to_users = true" in hint
    assert await connection.fetchval("select count(*) from agent_commands") == 0
    assert await connection.fetchval("select count(*) from memoryd.jobs") == 0
    async with acting_as(connection, None, role="memoryd_service"):
        await connection.execute(OPEN, "vault")
    async with acting_as(connection, ANN):
        made = await connection.fetchval(COMMAND, "vault", ANN)
    assert await column(connection, "select id from agent_commands") == [made]


async def test_a_closed_and_an_unknown_agent_are_refused_with_the_same_error(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute("insert into agents (agent_id, enabled) values ('vault', true), ('gone', false)")
    told = {}
    async with acting_as(connection, ANN):
        for agent in ("vault", "gone", "nobody"):
            said = await refused(connection, COMMAND, agent, ANN)
            told[agent] = [part.replace(agent, "<agent>") for part in said]
    assert told["vault"] == told["gone"] == told["nobody"]


async def test_one_closed_agent_refuses_the_whole_statement(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "insert into agents (agent_id, open_to_users) values ('vault', false), ('desk', true)"
    )
    for agents in (["desk", "vault"], ["desk", "nobody"], ["nobody", "desk"]):
        for also in ("", " on conflict do nothing", " returning id"):
            async with acting_as(connection, ANN):
                ask = "insert into agent_commands (agent_id, user_id, message) select a, $2, 'x' from unnest($1::text[]) a"
                assert (await refused(connection, ask + also, agents, ANN))[0] == "42501"
    assert await connection.fetchval("select count(*) from agent_commands") == 0


async def test_a_users_rows_register_no_agent(connection: asyncpg.Connection) -> None:
    async with acting_as(connection, ANN):
        await refused(connection, COMMAND, "invented", ANN)
        memory: dict[str, object] = {"agent_id": "invented", "user_id": ANN, "content": "an invention"}
        await insert(connection, "agent_memory", memory)
    assert await column(connection, "select agent_id from agents") == []
    async with acting_as(connection, None, role="memoryd_service"):
        await insert(connection, "agent_memory", memory)
        await insert(
            connection, "agent_commands", {"agent_id": "tasked", "user_id": ANN, "message": "for ann"}
        )
    assert await column(connection, "select agent_id from agents where not open_to_users order by 1") == [
        "invented",
        "tasked",
    ]


async def test_the_service_commands_any_agent_for_a_user(connection: asyncpg.Connection) -> None:
    async with acting_as(connection, None, role="memoryd_service"):
        assert await connection.fetchval(COMMAND, "vault", ANN)
    async with acting_as(connection, ANN):
        assert await connection.fetchval("select agent_id from agent_commands") == "vault"


async def test_a_command_without_an_agent_is_refused(connection: asyncpg.Connection) -> None:
    async with acting_as(connection, ANN):
        assert (await refused(connection, COMMAND, None, ANN))[0] == "23502"


async def test_a_user_cannot_open_an_agent(connection: asyncpg.Connection) -> None:
    await connection.execute("insert into agents (agent_id) values ('vault')")
    async with acting_as(connection, ANN):
        for statement in ("update agents set open_to_users = true", "select open_to_users from agents"):
            assert (await refused(connection, statement))[0] == "42501"


async def test_a_users_command_to_an_open_agent_runs(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    await connection.execute("insert into agents (agent_id, open_to_users) values ('desk', true)")
    known: dict[str, object] = {
        "agent_id": "desk",
        "kind": "fact",
        "content": "open the vault with the blue key",
    }
    await insert(connection, "agent_memory", known)
    await until(connection, IDLE)
    async with acting_as(connection, ANN):
        made = await connection.fetchval(COMMAND, "desk", ANN)
    await until(connection, STATUS, made, "ready")
    assert "the blue key" in await connection.fetchval("select context from claim_command('desk')")
    await connection.execute("select complete_command($1, 'it is open')", made)
    await until(connection, IDLE)
    async with acting_as(connection, ANN):
        row = await one_row(
            connection, "select status, output, message from agent_commands where id = $1", made
        )
        assert tuple(row) == ("completed", "it is open", "open the vault")
        assert (await refused(connection, "select context from agent_commands"))[0] == "42501"


async def test_a_command_to_a_disabled_open_agent_is_cancelled_with_the_reason(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    await connection.execute(
        "insert into agents (agent_id, open_to_users, enabled, disabled_reason) values ('desk', true, false, 'lunch')"
    )
    async with acting_as(connection, ANN):
        made = await connection.fetchval(COMMAND, "desk", ANN)
    await until(connection, STATUS, made, "cancelled")
    async with acting_as(connection, ANN):
        told = await connection.fetchval("select to_json(error) from agent_commands where id = $1", made)
    assert json.loads(told) == "agent desk is disabled: lunch"


async def test_a_user_names_no_session_of_a_stranger(connection: asyncpg.Connection) -> None:
    """In a command, whose executor would load it, nor in a memory: it is refused like one that does not exist."""
    await connection.execute("insert into agents (agent_id, open_to_users) values ('desk', true)")
    chat = await insert(connection, "chat_groups", {"platform": "slack", "group_name": "club"})
    await insert(connection, "chat_group_members", {"chat_id": chat, "user_id": ANN})
    group = await insert(connection, "conversation_sessions", {"chat_id": chat})
    other = await insert(connection, "chat_groups", {"platform": "slack", "group_name": "board"})
    strangers = [
        await insert(connection, "conversation_sessions", {"user_id": BOB}),
        await insert(connection, "conversation_sessions", {"agent_id": "desk"}),
        await insert(connection, "conversation_sessions", {"chat_id": other}),
        uuid4(),
    ]
    memory: dict[str, object] = {"agent_id": "desk", "user_id": ANN, "content": "mine"}
    # A service names any session, and what it named stays when the user changes something else.
    async with acting_as(connection, None, role="memoryd_service"):
        of_service = await insert(connection, "agent_memory", memory | {"session_id": strangers[3]})
        await insert(connection, "agent_commands",
                     {"agent_id": "desk", "user_id": ANN, "message": "x", "session_id": strangers[0]})  # fmt: skip
    async with acting_as(connection, ANN):
        own = await insert(connection, "conversation_sessions", {"user_id": ANN})
        told = set()
        asking = (
            "insert into agent_commands (agent_id, user_id, message, session_id) values ('desk', $2, 'x', $1)"
        )
        keeping = (
            "insert into agent_memory (agent_id, user_id, content, session_id) values ('desk', $2, 'x', $1)"
        )
        moving = "update agent_memory set session_id = $1 where user_id = $2"
        for statement in (asking, keeping, moving):
            for session in strangers:
                if not (statement == moving and session == strangers[3]):
                    said = await refused(connection, statement, session, ANN)
                    told.add(tuple(part.replace(str(session), "<id>") for part in said))
            for mine in (own, group, None):
                await connection.execute(statement, mine, ANN)
        assert len(told) == 1
        assert next(iter(told))[:2] == ("42501", "session <id> is not yours")
    async with acting_as(connection, None, role="memoryd_service"):
        await connection.execute(
            "update agent_memory set session_id = $1 where id = $2", strangers[3], of_service
        )
    async with acting_as(connection, ANN):
        await connection.execute("update agent_memory set content = 'mine still' where user_id = $1", ANN)
    assert (
        await connection.fetchval("select session_id from agent_memory where id = $1", of_service)
        == strangers[3]
    )


async def test_a_user_changes_their_own_rows_of_all_agents_and_adds_none(
    connection: asyncpg.Connection,
) -> None:
    shared: dict[str, object] = {"agent_id": "_shared", "user_id": ANN, "content": "likes tea"}
    await insert(connection, "agent_memory", shared)
    await insert(connection, "agent_memory", {"agent_id": "_shared", "user_id": BOB, "content": "likes milk"})
    await insert(connection, "agent_memory", {"agent_id": "_shared", "content": "the team's"})
    async with acting_as(connection, ANN):
        await insert(connection, "agent_memory", shared | {"agent_id": "desk"})
        assert await connection.execute("update agent_memory set content = 'likes coffee'") == "UPDATE 2"
        add = "insert into agent_memory (agent_id, user_id, content) values ('_shared', $1, 'x')"
        assert (await refused(connection, add, ANN))[0] == "42501"
        assert (await refused(connection, "update agent_memory set agent_id = '_shared'"))[0] == "42501"
    texts = await column(connection, "select content from agent_memory order by 1")
    assert texts == ["likes coffee", "likes coffee", "likes milk", "the team's"]


async def test_a_setting_of_a_login_passes_no_metadata(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "insert into memoryd.settings (key, value) values ('metadata_schemas', '\"refuse\"') "
        "on conflict (key) do update set value = excluded.value"
    )
    wrong = (
        "insert into agent_memory (agent_id, user_id, content, memory_type, metadata) "
        "values ('desk', $1, 'x', 'task_memory', '{\"outcome\": 5}')"
    )
    for role, user in (("memoryd_user", ANN), ("memoryd_service", None)):
        async with acting_as(connection, user, role=role):
            for forged in ("on", "true", ""):
                await connection.execute("select set_config('memoryd.metadata_kept', $1, true)", forged)
                assert "metadata." in (await refused(connection, wrong, ANN))[1]
