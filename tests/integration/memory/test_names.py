"""Whom and what a user names: known from the message on, to classify_message and to names_said(); gone with the message."""

from __future__ import annotations

from datetime import timedelta

import asyncpg

from daemon.db.pool import Database
from tests.support.access.acting import BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.content.fact_chat import WEDNESDAY, Chat, reply
from tests.support.processes.dreamers import Log
from tests.support.services.openai_server import OpenAIServer

PATTERNS = "select array_agg(distinct pattern) from classify_message($1)"
SAID = "select name, kind, messages from names_said($1)"


async def said(connection: asyncpg.Connection, chat: Chat) -> list[tuple[object, ...]]:
    return [tuple(row) for row in await connection.fetch(SAID, chat.user)]


async def test_names_are_known_until_their_message_goes(
    connection: asyncpg.Connection, database: Database, provider: OpenAIServer, log: Log
) -> None:
    chat = Chat(database, provider, log)
    dora = ("Dora", "person")
    await chat.say("My sister Dora plays the tuba", reply(names=[dora]))
    later = await chat.say(
        "On Friday Dora joins the Apollo project",
        reply(names=[dora, ("Apollo", "project")]),
        at=WEDNESDAY + timedelta(hours=1),
    )
    assert await said(connection, chat) == [("Dora", "person", 2), ("Apollo", "project", 1)]
    async with acting_as(connection, chat.user):
        assert [tuple(r)[:2] for r in await connection.fetch("select * from names_said()")] == [
            ("Dora", "person"), ("Apollo", "project"),
        ]  # fmt: skip
        for message, shows in (
            ("Dora is late", True),
            ("and what of dora's tuba", True),
            ("DORA!! where", False),
            ("What about adoration", False),
        ):
            assert ("names" in (await connection.fetchval(PATTERNS, message) or [])) is shows, message
    # To others it says nothing.
    async with acting_as(connection, BOB):
        assert await connection.fetch("select * from names_said()") == []
        assert await connection.fetch("select * from names_said($1)", chat.user) == []
        assert "names" not in (await connection.fetchval(PATTERNS, "Dora is late") or [])
        assert (await refused(connection, "select * from memoryd.names"))[0] == "42501"
    assert (await refused(connection, "select * from names_said($1, -1)", chat.user))[0] == "22023"
    # Changed or deleted, it is gone.
    await connection.execute("update conversation_messages set content = 'I met Tom' where id = $1", later)
    await chat.read(reply(names=[("Tom", "person")]))
    assert await said(connection, chat) == [("Tom", "person", 1), ("Dora", "person", 1)]
    await connection.execute("delete from conversation_messages where id = $1", later)
    assert await said(connection, chat) == [("Dora", "person", 1)]
    await connection.execute(
        "insert into memory_settings (user_id, memory_enabled) values ($1, false)", chat.user
    )
    assert await said(connection, chat) == []
    await connection.execute("select erase_user_memory($1)", chat.user)
    assert await connection.fetchval("select count(*) from memoryd.names") == 0


async def test_a_name_that_the_message_does_not_have_is_none(
    connection: asyncpg.Connection, database: Database, provider: OpenAIServer, log: Log
) -> None:
    chat = Chat(database, provider, log)
    given = [
        ("Tom", "person"), ("Zorblax", "project"), ("Nora", "person"), ("Mallory", "person"), ("launch", "planet"),
        ("Ann", "user"),
    ]  # fmt: skip
    await chat.say("I met tom and Nora at the zorblax launch, I am Ann", reply(names=given))
    assert sorted(await said(connection, chat)) == [
        ("Ann", "user", 1), ("Nora", "person", 1), ("tom", "person", 1), ("zorblax", "project", 1),
    ]  # fmt: skip
    assert {r["found_by"] for r in await connection.fetch("select found_by from memoryd.names")} == {
        "openai/any"
    }
