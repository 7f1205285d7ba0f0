"""When a language model reads a conversation: at a pause, every twenty messages, within the budget, after an outage."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from daemon.db import settings
from daemon.db.pool import Database
from daemon.settings import load_settings
from providers.ports import UnavailableError
from tests.support.content.fact_chat import (
    WEDNESDAY,
    Chat,
    add,
    reply,
    shown,
)
from tests.support.processes.dreamers import Log
from tests.support.services.openai_server import Fault, OpenAIServer


async def test_nothing_is_read_where_there_is_no_model_or_facts_are_off(
    database: Database, connection: asyncpg.Connection, provider: OpenAIServer, log: Log
) -> None:
    without = Chat(database)
    await without.say("I live in Lyon with Dora")
    assert await connection.fetchval("select count(*) from memoryd.unread") == 0
    off = Chat(database, provider, log)
    await off.write("I live in Turin")
    await connection.execute(
        "insert into memory_settings (user_id, memory_enabled) values ($1, false)", off.user
    )
    await off.read(reply(add=[add("The user lives in Turin.", "m1")]))
    assert (await off.known(), provider.requests) == ([], [])
    assert await connection.fetchval("select count(*) from memoryd.unread") == 0


async def test_nothing_is_queued_where_the_plugin_is_not_there(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "load_plugins", lambda: ())
    await settings.write_settings(connection, load_settings(language_model="openai/any"))
    await connection.execute(
        "insert into conversation_messages (session_id, user_id, role, content) "
        "values (gen_random_uuid(), gen_random_uuid(), 'user', 'I live in Lyon with Dora')"
    )
    assert await connection.fetchval("select count(*) from memoryd.unread") == 0


@pytest.mark.parametrize("queued", [False, True])
async def test_what_waited_when_facts_were_turned_off_is_not_read(
    chat: Chat, connection: asyncpg.Connection, provider: OpenAIServer, queued: bool
) -> None:
    await chat.write("I live in Lyon with Dora")
    if queued:
        assert await connection.fetchval("select memoryd.queue_stretches(16, '0')") == 1
    await connection.execute("update memoryd.settings set value = '\"off\"' where key = 'facts'")
    await chat.read(reply(add=[add("The user lives in Lyon.", "m1")]))
    assert (await chat.known(), provider.requests) == ([], [])
    assert await connection.fetchval("select count(*) from memoryd.names") == 0
    assert await connection.fetchval("select count(*) from memoryd.jobs where topic = 'facts'") == 0


async def test_a_conversation_is_read_when_it_pauses_or_has_twenty_messages(
    chat: Chat, connection: asyncpg.Connection, provider: OpenAIServer
) -> None:
    queue = "select memoryd.queue_stretches(16)"
    for number in range(19):
        await chat.write(f"message {number}")
        assert await connection.fetchval(queue) == 0
    await chat.write("message 19", "message 20")
    assert await connection.fetchval(queue) == 1
    assert await connection.fetchval(queue) == 1  # it waits, and is queued once
    assert await connection.fetchval("select count(*) from memoryd.jobs where topic = 'facts'") == 1
    await connection.execute(
        "update memoryd.unread set queued_at = now() - interval '61 seconds' where message_index = 20"
    )
    await chat.read()
    assert [len(shown(one)["messages"]) for one in provider.requests] == [20, 1]
    assert shown(provider.requests[1])["before"] == [
        {"by": "user", "text": "message 18"}, {"by": "user", "text": "message 19"},
    ]  # fmt: skip


async def test_a_conversation_that_never_pauses_is_read_every_twenty_messages_in_order(
    chat: Chat, provider: OpenAIServer
) -> None:
    await chat.write(*(f"message {number}" for number in range(90)))
    await chat.read()
    await chat.read()  # the last ten, once it has paused
    firsts = [shown(one)["messages"][0]["text"] for one in provider.requests]
    assert firsts == [f"message {number}" for number in (0, 20, 40, 60, 80)]


async def test_ten_thousand_messages_are_read_within_the_budget_and_the_newest_first(
    chat: Chat, connection: asyncpg.Connection, database: Database, provider: OpenAIServer
) -> None:
    await chat.write()
    await connection.execute(
        "insert into conversation_messages (session_id, user_id, role, content, message_index, created_at) "
        "select md5((n / 2500)::text)::uuid, $1, 'user', 'message ' || n, n % 2500, $2::timestamptz + make_interval(mins => n) "
        "from generate_series(0, 9999) n",
        chat.user,
        WEDNESDAY - timedelta(days=100),
    )
    limited = Chat(database, provider, chat.log, calls=3)
    limited.user = chat.user
    await limited.read()
    assert [shown(one)["messages"][-1]["text"] for one in provider.requests] == [
        "message 9999", "message 9979", "message 9959",
    ]  # fmt: skip
    assert chat.log.values("language_model_budget_spent")[0]["calls"] == 3
    assert await connection.fetchval("select count(*) from memoryd.unread") == 9940
    assert await connection.fetchval("select count(*) from memoryd.jobs where topic = 'facts'") == 0


async def test_what_waits_is_read_again_only_when_half_of_the_room_is_free(
    chat: Chat, connection: asyncpg.Connection
) -> None:
    """An import leaves hundreds of thousands of messages, and the tick comes every few seconds."""
    await chat.write()
    await connection.execute(
        "insert into conversation_messages (session_id, user_id, role, content) "
        "select gen_random_uuid(), gen_random_uuid(), 'user', 'message ' || n from generate_series(1, 100) n"
    )
    queued = "select count(*) from memoryd.jobs where topic = 'facts'"
    queue = "select memoryd.queue_stretches(16, '0 seconds')"
    looks = "select seq_scan + coalesce(idx_scan, 0) from pg_stat_xact_user_tables where relname = 'unread'"
    assert await connection.fetchval(queue) == 100
    for left, looked in ((16, False), (9, False), (8, True)):
        await connection.execute(
            "delete from memoryd.jobs where topic = 'facts' and id not in "
            "(select id from memoryd.jobs where topic = 'facts' order by id limit $1)",
            left,
        )
        async with connection.transaction():
            before = await connection.fetchval(looks)
            await connection.execute(queue)
            assert (await connection.fetchval(looks) > before) == looked, left
    assert await connection.fetchval(queued) == 16


async def test_an_outage_of_the_model_loses_nothing(
    chat: Chat, connection: asyncpg.Connection, provider: OpenAIServer
) -> None:
    await chat.write("I live in Lyon")
    provider.script(Fault.status(500))
    with pytest.raises(UnavailableError):
        await chat.read(reply(add=[add("The user lives in Lyon.", "m1")]))
    assert await connection.fetchval("select count(*) from memoryd.unread") == 1
    assert await chat.known() == []


async def test_the_same_content_has_the_same_key(
    chat: Chat, connection: asyncpg.Connection, provider: OpenAIServer
) -> None:
    """A server that heeds it answers a stretch that is asked about again after a crash, and is not paid twice."""
    [message] = await chat.write("I live in Lyon")
    await chat.read()
    await connection.execute(
        "update conversation_messages set content = content || '!' where id = $1", message
    )
    await chat.read()
    assert len(set(provider.idempotency_keys)) == 2
    await connection.execute(
        "update conversation_messages set content = 'I live in Lyon' where id = $1", message
    )
    await chat.read()
    assert provider.idempotency_keys[2] == provider.idempotency_keys[0]
