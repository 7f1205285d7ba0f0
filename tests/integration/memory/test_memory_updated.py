"""Channel memory_updated: who listens hears what changed, once a statement, and nothing of what memoryd writes beside it.

With the users' ids, which are left out unless asked for: see tests/security/test_channels.py.
"""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.content.index import INDEXED, index_rows
from tests.support.database.notifications import Notifications
from tests.support.processes.daemons import Daemons
from tests.support.rows import embedding, remember
from tests.support.waiting import IDLE, until

News = list[tuple[str | None, str | None, str]]


class MemoryUpdates(Notifications):
    """The payloads of memory_updated."""

    def __init__(self, sender: asyncpg.Connection, listener: asyncpg.Connection) -> None:
        super().__init__(listener)
        self.sender = sender

    async def payloads(self) -> list[dict[str, Any]]:
        """Since the last call."""
        return [json.loads(payload) for _, payload in await self.until_now(self.sender)]

    async def news(self) -> News:
        """The same as (user, type, operation), sorted; each payload has these three keys."""
        told = await self.payloads()
        assert all(set(one) == {"user_id", "memory_type", "operation"} for one in told)
        return sorted(((o["user_id"], o["memory_type"], o["operation"]) for o in told), key=str)


@pytest.fixture
async def updates(connection: asyncpg.Connection, second: asyncpg.Connection) -> MemoryUpdates:
    await connection.execute("update memoryd.settings set value = 'true' where key = 'notification_user_ids'")
    opened = MemoryUpdates(connection, second)
    await opened.listen("memory_updated")
    return opened


async def test_each_combination_is_notified_once_a_statement(
    connection: asyncpg.Connection, updates: MemoryUpdates
) -> None:
    await connection.execute(
        "insert into agent_memory (agent_id, user_id, memory_type, content) "
        "select 'alice', case when n % 2 = 0 then $1::uuid end, case when n % 3 = 0 then 'brand_memory' end, 'm' "
        "from generate_series(1, 600) n",
        ANN,
    )
    combinations = [(user, kind) for user in (str(ANN), None) for kind in ("brand_memory", None)]
    assert await updates.news() == sorted([(*one, "INSERT") for one in combinations], key=str)
    await connection.execute("update agent_memory set metadata = '{\"seen\": true}' where user_id = $1", ANN)
    assert await updates.news() == [(str(ANN), "brand_memory", "UPDATE"), (str(ANN), None, "UPDATE")]
    await connection.execute("delete from agent_memory where memory_type is null")
    assert await updates.news() == sorted([(str(ANN), None, "DELETE"), (None, None, "DELETE")], key=str)
    await connection.execute("delete from agent_memory where false")
    await connection.execute("update agent_memory set content = content || '!' where false")
    assert await updates.news() == []


@pytest.mark.parametrize(
    "change",
    [
        "content = 'new words'",
        "metadata = '{\"a\": 1}'",
        "kind = 'fact'",
        "expires_at = '2030-01-01'",
        "agent_id = 'bob'",
        "source = 'import'",
    ],
)
async def test_a_change_of_a_memory_is_notified(
    connection: asyncpg.Connection, updates: MemoryUpdates, change: str
) -> None:
    await remember(connection, "the old words", user_id=ANN)
    await connection.execute("update agent_memory set content = content, kind = kind, metadata = metadata")
    assert await updates.news() == [(str(ANN), None, "INSERT")]
    await connection.execute(f"update agent_memory set {change}")
    assert await updates.news() == [(str(ANN), None, "UPDATE")]


async def test_derived_columns_of_a_memory_are_not_notified(
    connection: asyncpg.Connection, updates: MemoryUpdates, daemons: Daemons
) -> None:
    await daemons.start(notification_user_ids="true")
    memory = await remember(connection, "the harbour freezes in January", user_id=ANN)
    await until(connection, INDEXED, memory)
    await until(connection, IDLE)
    assert await updates.news() == [(str(ANN), None, "INSERT")]
    await connection.execute("update agent_memory set embedding = $1::text::vector", embedding(1.0))
    await connection.execute("update agent_memory set embedding = null")
    await until(connection, IDLE)
    assert await index_rows(connection, "memory", embedding=embedding(1.0)) == [memory]
    await until(connection, IDLE)
    assert await updates.news() == []


async def test_a_memory_that_changes_its_owner_is_notified_for_both(
    connection: asyncpg.Connection, updates: MemoryUpdates
) -> None:
    memory = await remember(connection, "the spare key", user_id=ANN, memory_type="brand_memory")
    await updates.news()
    await connection.execute(
        "update agent_memory set user_id = $1, memory_type = null where id = $2", BOB, memory
    )
    assert await updates.news() == [(str(ANN), "brand_memory", "UPDATE"), (str(BOB), None, "UPDATE")]


async def test_an_insert_that_becomes_an_update_is_notified_as_an_update(
    connection: asyncpg.Connection, updates: MemoryUpdates
) -> None:
    memory = await remember(connection, "once", user_id=ANN)
    await updates.news()
    upsert = (
        "insert into agent_memory (id, agent_id, user_id, content) values ($1, 'alice', $2, 'twice') "
        "on conflict (id) do update set content = excluded.content"
    )
    await connection.execute(upsert, memory, ANN)
    assert await updates.news() == [(str(ANN), None, "UPDATE")]


async def test_a_rolled_back_change_is_never_notified(
    connection: asyncpg.Connection, updates: MemoryUpdates
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await remember(connection, "not to be")
    await transaction.rollback()
    assert await updates.news() == []


async def test_an_end_users_write_is_notified(connection: asyncpg.Connection, updates: MemoryUpdates) -> None:
    async with acting_as(connection, ANN):
        memory = await remember(connection, "mine", user_id=ANN)
        assert await connection.fetchval("select forget($1)", [memory]) == 1
    assert await updates.news() == [(str(ANN), None, "DELETE"), (str(ANN), None, "INSERT")]


async def test_the_deletion_of_expired_memories_is_notified(
    connection: asyncpg.Connection, updates: MemoryUpdates
) -> None:
    await remember(connection, "gone by now", user_id=ANN, ttl_hours=1)
    await connection.execute("update agent_memory set expires_at = now() - interval '1 second'")
    await updates.news()
    assert await connection.fetchval("select cleanup_expired_memory()") == 1
    assert await updates.news() == [(str(ANN), None, "DELETE")]


async def test_a_statement_over_many_users_is_notified_once(
    connection: asyncpg.Connection, updates: MemoryUpdates
) -> None:
    insert = (
        "insert into agent_memory (agent_id, user_id, content) "
        "select 'alice', md5(n::text)::uuid, 'm' from generate_series(1, $1) n"
    )
    await connection.execute(insert, 100)
    told = await updates.news()
    assert len({user for user, _, _ in told}) == len(told) == 100
    await connection.execute(insert, 101)
    many = {"user_id": None, "memory_type": None, "many": True}
    assert await updates.payloads() == [many | {"operation": "INSERT"}]
    await connection.execute("update agent_memory set source = 'x'")
    await connection.execute("delete from agent_memory")
    assert await updates.payloads() == [many | {"operation": "UPDATE"}, many | {"operation": "DELETE"}]
