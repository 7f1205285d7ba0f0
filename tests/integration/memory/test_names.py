"""Whom and what a user names: known from the message on, to classify_message and to names_said(); gone with the message."""

from __future__ import annotations

import json
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


async def test_names_by_rule_are_known_until_their_message_goes(
    connection: asyncpg.Connection, database: Database
) -> None:
    chat = Chat(database)
    await chat.say("My sister Dora plays the tuba")
    later = await chat.say("On Friday Dora joins the Apollo project", at=WEDNESDAY + timedelta(hours=1))
    await chat.say("def Nobody(): pass  # Martin", at=WEDNESDAY + timedelta(hours=2))
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
    # Read again, it is the same; changed or deleted, it is gone.
    await connection.execute("select memoryd.read_for_facts(array_agg(id)) from conversation_messages")
    await chat.read()
    assert await said(connection, chat) == [("Dora", "person", 2), ("Apollo", "project", 1)]
    await connection.execute("update conversation_messages set content = 'I met Tom' where id = $1", later)
    await chat.read()
    assert await said(connection, chat) == [("Tom", None, 1), ("Dora", "person", 1)]
    await connection.execute("delete from conversation_messages where id = $1", later)
    assert await said(connection, chat) == [("Dora", "person", 1)]
    await connection.execute(
        "insert into memory_settings (user_id, memory_enabled) values ($1, false)", chat.user
    )
    assert await said(connection, chat) == []
    await connection.execute("select erase_user_memory($1)", chat.user)
    assert await connection.fetchval("select count(*) from memoryd.names") == 0


async def test_an_import_brings_names(connection: asyncpg.Connection, database: Database) -> None:
    chat = Chat(database)
    await chat.say("My sister Dora lives in Ghent and I live in Lyon")
    names = await said(connection, chat)
    assert len(names) == 3
    export = json.loads(await connection.fetchval("select export_user_memory($1)", chat.user))["tables"]
    await connection.execute("select erase_user_memory($1)", chat.user)
    for table in ("conversation_sessions", "conversation_messages"):
        await connection.execute(
            "select memoryd.import_rows($1, $1, $2, $3)", chat.user, table, json.dumps(export[table])
        )
    await chat.read()
    assert await said(connection, chat) == names


async def test_a_language_model_names_what_the_message_has(
    connection: asyncpg.Connection, database: Database, provider: OpenAIServer, log: Log
) -> None:
    """Of a name that the rules found, too, its kind counts; what it leaves out or invents is as the rules say."""
    chat = Chat(database, provider, log)
    given = [
        ("Tom", "person"),
        ("Zorblax", "project"),
        ("Nora", "person"),
        ("Mallory", "person"),
        ("launch", "planet"),
    ]
    await chat.say(
        "I met tom and Nora at the zorblax launch in Lyon, I am Ann", reply(names=[*given, ("Ann", "user")])
    )
    assert sorted(await said(connection, chat)) == [
        ("Ann", "user", 1), ("Lyon", None, 1), ("Nora", "person", 1), ("tom", "person", 1), ("zorblax", "project", 1),
    ]  # fmt: skip
    by = {
        row["key"]: row["found_by"]
        for row in await connection.fetch("select key, found_by from memoryd.names")
    }
    assert (by["lyon"], by["nora"]) == ("rule", "openai/any")
    again = await chat.say("I saw that Dora was here", "of course: Dora!")
    assert ("Dora", None, 1) in await said(connection, chat)
    await connection.execute("update conversation_messages set content = 'never mind' where id = $1", again)
    assert ("Dora", None, 1) not in await said(connection, chat)
