"""What any login hears on the channels, and what it can say there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB
from tests.support.database.logins import login
from tests.support.database.notifications import Notifications
from tests.support.processes.daemons import Daemons
from tests.support.rows import remember
from tests.support.waiting import READY, until


@pytest.fixture
async def heard(connection: asyncpg.Connection, database_url: str) -> AsyncIterator[Notifications]:
    """What a login with the rights of an end user hears, who listens to every channel that there is."""
    async with login(connection, database_url) as (_, opened):
        notifications = Notifications(opened)
        await notifications.listen("memory_updated", "request_finished", "command_ready", "memoryd")
        yield notifications


async def write_of_all_users(owner: asyncpg.Connection) -> None:
    """Memories of two users, inserted, changed and deleted; a task and a question of one of them."""
    await owner.execute(
        "insert into agent_memory (agent_id, user_id, memory_type, content) "
        "select 'alice', u, t, 'm' from unnest(array[$1, $2, null]::uuid[]) u, unnest('{brand_memory,null}'::text[]) t",
        ANN,
        BOB,
    )
    await owner.execute("update agent_memory set source = 'x'")
    await owner.execute("update agent_memory set user_id = $1 where user_id = $2", ANN, BOB)
    await owner.execute("delete from agent_memory")
    await owner.execute(
        "insert into agent_commands (agent_id, message, user_id, status) values ('a', 'x', $1, 'ready')", ANN
    )
    await owner.execute("insert into memory_requests (kind, query, user_id) values ('recall', 'x', $1)", ANN)
    await owner.execute("update memory_requests set status = 'done'")


async def test_a_listening_login_receives_no_user_ids(
    connection: asyncpg.Connection, heard: Notifications
) -> None:
    await write_of_all_users(connection)
    said = await heard.until_now(connection)
    assert {name for name, _ in said} == {"memory_updated", "request_finished", "command_ready", "memoryd"}
    assert not [one for one in said if str(ANN) in one[1] or str(BOB) in one[1]]
    news = [json.loads(payload) for name, payload in said if name == "memory_updated"]
    # Once a statement and type, however many users' rows it wrote.
    assert sorted((n["operation"], n["memory_type"] or "") for n in news) == sorted(
        (operation, kind)
        for operation in ("INSERT", "UPDATE", "UPDATE", "DELETE")
        for kind in ("", "brand_memory")
    )
    assert all(set(n) == {"memory_type", "operation"} for n in news)


async def test_with_the_setting_notifications_name_the_user(
    connection: asyncpg.Connection, daemons: Daemons, heard: Notifications
) -> None:
    for setting, users in (("true", [str(ANN)]), ("false", [])):
        daemon = await daemons.start(notification_user_ids=setting)
        await heard.until_now(connection)
        await remember(connection, "x", user_id=ANN)
        news = [
            json.loads(payload)
            for name, payload in await heard.until_now(connection)
            if name == "memory_updated"
        ]
        assert [n["user_id"] for n in news if "user_id" in n] == users
        assert len(news) == 1
        await daemon.stop()


async def test_notifications_sent_by_a_login_change_nothing(
    connection: asyncpg.Connection, daemons: Daemons, heard: Notifications
) -> None:
    """A channel is a hint: the daemon looks for itself, and what is not there is not done."""
    daemon = await daemons.start(poll_seconds=600)
    for payload in ("index", "context", "no such topic", "{}", "x" * 7000, ""):
        await heard.listener.execute("select pg_notify('memoryd', $1)", payload)
    command = await connection.fetchval(
        "insert into agent_commands (agent_id, message) values ('alice', 'go on') returning id"
    )
    await until(connection, READY, command)
    assert daemon.process.returncode is None
    assert not [line for line in daemon.lines if line.get("level") in ("error", "critical")]
