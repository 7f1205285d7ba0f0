"""Export and erasure end where the user's own rows end: in a conversation without an owner, what others said stays theirs."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.users import found, whole_user
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, insert, one_row
from tests.support.waiting import IDLE, until

WORDS = {
    "mine": "the quokka is mine",
    "system": "tell nobody of the wombat",
    "guest": "a numbat from a guest",
    "reply": "a bilby in reply",
}
SESSIONS = "select count(*) from conversation_sessions"
SAID = "select content from conversation_messages order by message_index"


async def talk(connection: asyncpg.Connection, *, owner: UUID | None, title: str | None = None) -> UUID:
    """A conversation in which ANN spoke, and besides a system prompt, a guest and the assistant, of no user."""
    session = await insert(connection, "conversation_sessions", {"title": title})
    turns: tuple[dict[str, object], ...] = (
        {"role": "system", "content": WORDS["system"]},
        {"role": "user", "content": WORDS["mine"], "user_id": ANN},
        {"role": "user", "content": WORDS["guest"], "speaker": "Guest"},
        {"role": "assistant", "content": WORDS["reply"], "speaker": "Alice"},
    )
    for turn in turns:
        await insert(connection, "conversation_messages", turn | {"session_id": session})
    if owner is not None:
        await connection.execute(
            "update conversation_sessions set user_id = $1 where id = $2", owner, session
        )
        # Given to a user, a session takes its messages along; a service may still write messages without a user.
        nobodys = "update conversation_messages set user_id = null where session_id = $1 and content <> $2"
        await connection.execute(nobodys, session, WORDS["mine"])
    return session


async def export(connection: asyncpg.Connection, user: UUID) -> dict[str, list[dict[str, Any]]]:
    """The tables that a user is given of themselves."""
    async with acting_as(connection, user):
        document = json.loads(await connection.fetchval("select export_user_memory($1)", user))
    tables: dict[str, list[dict[str, Any]]] = document["tables"]
    return tables


async def erase(connection: asyncpg.Connection, user: UUID) -> dict[str, Any]:
    """The counts of an erasure that the user asks for."""
    async with acting_as(connection, user):
        counts: dict[str, Any] = json.loads(await connection.fetchval("select erase_user_memory($1)", user))
    return counts


async def test_only_the_users_own_messages_of_an_ownerless_session_are_exported(
    connection: asyncpg.Connection,
) -> None:
    await talk(connection, owner=None, title="wombats")
    tables = await export(connection, ANN)
    assert [m["content"] for m in tables["conversation_messages"]] == [WORDS["mine"]]
    assert tables["conversation_sessions"] == []


async def test_only_the_users_own_messages_of_an_ownerless_session_are_erased(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await daemons.start()
    session = await talk(connection, owner=None, title="the quokka, and more")
    await until(connection, IDLE)
    counts = await erase(connection, ANN)
    assert (counts["conversation_messages"], counts["conversation_sessions"]) == (1, 0)
    assert await column(connection, SAID) == [WORDS["system"], WORDS["guest"], WORDS["reply"]]
    row = await one_row(connection, "select id, user_id, title from conversation_sessions")
    assert tuple(row) == (session, None, None)
    await until(connection, IDLE)
    # What the others said is still indexed, and its words are still known.
    assert await column(connection, "select content from recall('numbat bilby wombat')")
    assert await found(connection, "quokka") == {}
    known = await column(
        connection, "select word from memoryd.lexicon where word in ('wombat', 'numbat', 'bilby')"
    )
    assert len(known) == 3


async def test_an_ownerless_session_is_deleted_with_its_last_message(connection: asyncpg.Connection) -> None:
    session = await insert(connection, "conversation_sessions", {"title": "the quokka"})
    turn: dict[str, object] = {
        "session_id": session,
        "role": "user",
        "content": WORDS["mine"],
        "user_id": ANN,
    }
    await insert(connection, "conversation_messages", turn)
    counts = await erase(connection, ANN)
    # How many sat in it besides is not theirs to know: it is not counted as theirs.
    assert (counts["conversation_messages"], counts["conversation_sessions"]) == (1, 0)
    assert await connection.fetchval(SESSIONS) == 0
    assert await connection.fetchval("select count(*) from memoryd.jobs where ref = $1", session) == 0
    assert await found(connection, "quokka") == {}


async def test_a_users_own_session_exports_the_assistants_messages_but_not_the_system_prompt(
    connection: asyncpg.Connection,
) -> None:
    await talk(connection, owner=ANN, title="quokkas")
    tables = await export(connection, ANN)
    said = [m["content"] for m in tables["conversation_messages"]]
    assert said == [WORDS["mine"], WORDS["reply"]]
    assert [s["title"] for s in tables["conversation_sessions"]] == ["quokkas"]
    counts = await erase(connection, ANN)
    assert counts["conversation_messages"] == len(said)
    assert await column(connection, SAID) == [WORDS["system"], WORDS["guest"]]
    row = await one_row(connection, "select user_id, title from conversation_sessions")
    assert tuple(row) == (None, None)


@pytest.mark.parametrize("owner", [ANN, BOB, None])
async def test_an_export_holds_exactly_the_rows_that_an_erasure_deletes(
    connection: asyncpg.Connection, owner: UUID | None
) -> None:
    session = await talk(connection, owner=None)
    if owner == BOB:
        # The service may put a session into other hands and leave the messages where they are.
        await connection.execute("update conversation_sessions set user_id = $1 where id = $2", BOB, session)
        await connection.execute("update conversation_messages set user_id = null where user_id = $1", BOB)
    elif owner == ANN:
        await connection.execute("update conversation_sessions set user_id = $1 where id = $2", ANN, session)
    exported = {m["id"] for m in (await export(connection, ANN))["conversation_messages"]}
    before = set(map(str, await column(connection, "select id from conversation_messages")))
    await erase(connection, ANN)
    after = set(map(str, await column(connection, "select id from conversation_messages")))
    assert before - after == exported
    assert exported


async def test_a_services_steps_in_a_users_session_are_not_exported(connection: asyncpg.Connection) -> None:
    session = (await whole_user(connection, ANN, "quokka"))["agent_sessions"]
    step: dict[str, object] = {
        "session_id": session,
        "step_name": "weigh the wombat",
        "action_type": "reasoning",
        "input_data": json.dumps({"wombat": 1}),
        "reasoning": "the wombat is heavy",
    }
    hidden = [
        await insert(connection, "agent_execution_logs", step | {"user_id": user}) for user in (None, BOB)
    ]
    tables = await export(connection, ANN)
    logs = tables["agent_execution_logs"]
    assert logs
    assert {row["user_id"] for row in logs} == {str(ANN)}
    assert "wombat" not in json.dumps(tables)
    assert not {str(one) for one in hidden} & {row["id"] for row in logs}
    # They go with the run that they are steps of, and are counted for no user.
    own = await connection.fetchval("select count(*) from agent_execution_logs where user_id = $1", ANN)
    counts = await erase(connection, ANN)
    assert counts["agent_execution_logs"] == own
    assert await found(connection, "wombat") == {}


@pytest.mark.parametrize("table", ["conversation_sessions", "agent_execution_logs"])
async def test_an_import_creates_no_rows_without_a_user(connection: asyncpg.Connection, table: str) -> None:
    row = {"user_id": None, "session_id": None, "step_name": "x", "action_type": "decision", "title": "x"}
    own = await connection.fetchval("select memoryd.own_columns($1)", table)
    rows = json.dumps([{name: value for name, value in row.items() if name in own}])
    with pytest.raises(asyncpg.DataError, match="rows of another user than the file"):
        await connection.execute("select memoryd.import_rows($1, $1, $2, $3)", ANN, table, rows)


async def test_an_imported_ownerless_session_comes_back_as_the_users_own(
    connection: asyncpg.Connection,
) -> None:
    session = await insert(connection, "conversation_sessions", {"agent_id": "alice"})
    for words in ("the first quokka", "the second quokka"):
        turn = {"session_id": session, "role": "user", "content": words, "user_id": ANN}
        await insert(connection, "conversation_messages", turn)
    rows = (await export(connection, ANN))["conversation_messages"]
    await erase(connection, ANN)
    put = "select memoryd.import_rows($1, $1, 'conversation_messages', $2)"
    assert await connection.fetchval(put, ANN, json.dumps(rows)) == 2
    assert (
        await connection.fetchval("select user_id from conversation_sessions where id = $1", session) == ANN
    )
