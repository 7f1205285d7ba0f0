"""What a browser hears: changes of the rows that are its user's, and memory_updated by Broadcast."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB
from tests.support.database.schemas import connected
from tests.support.database.supabase import Project
from tests.support.rows import column, insert

PUBLISHED = "select tablename::text from pg_publication_tables where pubname = 'supabase_realtime' order by 1"
SENT = """
with sent as (delete from realtime.messages where extension = 'broadcast' and event = 'memory_updated' returning *)
select topic, payload - 'id' as payload, private from sent order by topic, payload
"""
SAY = "insert into agent_memory (agent_id, user_id, memory_type, content) values ('a', $1, $2, 'a lamp')"
SET = "insert into memoryd.settings values ($1, $2) on conflict (key) do update set value = excluded.value"


@pytest.fixture
async def owner(project: Project) -> AsyncIterator[asyncpg.Connection]:
    """The owner of the project; nothing was sent yet, and the settings are as ever."""
    async with connected(project.url()) as opened:
        await opened.execute("set search_path = public, extensions")
        await opened.execute("delete from agent_memory")
        await opened.execute("delete from realtime.messages")
        yield opened
        await opened.execute("delete from memoryd.settings where key = 'broadcast'")
        await opened.execute(SET, "notification_user_ids", "false")


async def sent(owner: asyncpg.Connection) -> list[tuple[str, dict[str, Any], bool]]:
    """Topic, payload and whether it is private, of each message since the last call."""
    return [(row["topic"], json.loads(row["payload"]), row["private"]) for row in await owner.fetch(SENT)]


# --- Changes of tables.


async def test_a_subscriber_may_read_their_own_requests_alone(
    project: Project, owner: asyncpg.Connection
) -> None:
    """Realtime sends a subscriber a change if they may read the row: it asks as `authenticated`, with their claims."""
    ids = {
        user: await insert(
            owner, "memory_requests", {"kind": "recall", "query": "x", "user_id": user, "status": "done"}
        )
        for user in (ANN, BOB, None)
    }
    for user in (ANN, BOB):
        async with project.user(user) as client:
            assert await column(
                client, "select id from memory_requests where id = any($1)", list(ids.values())
            ) == [ids[user]]


# --- Broadcast.


async def test_a_change_is_told_to_all_without_a_user_and_to_its_user(
    project: Project, owner: asyncpg.Connection
) -> None:
    """Both in private; once for each pair of user and type."""
    async with project.user(ANN) as client:
        await client.execute(SAY, ANN, "brand_memory")
        await client.execute(
            "insert into agent_memory (agent_id, user_id, content) select 'a', $1, 'x' from generate_series(1, 9)",
            ANN,
        )
    await owner.execute("insert into agent_memory (agent_id, content) values ('a', 'of an agent')")
    own = f"agent-memory:{ANN}"
    of_all: list[tuple[str, dict[str, Any], bool]] = [
        ("agent-memory", {"memory_type": "brand_memory", "operation": "INSERT"}, True),
        ("agent-memory", {"memory_type": None, "operation": "INSERT"}, True),
        ("agent-memory", {"memory_type": None, "operation": "INSERT"}, True),
    ]
    to_ann: list[tuple[str, dict[str, Any], bool]] = [
        (own, {"memory_type": kind, "operation": "INSERT", "user_id": str(ANN)}, True)
        for kind in ("brand_memory", None)
    ]
    told = await sent(owner)
    assert len(told) == 5
    assert all(one in told for one in (*of_all, *to_ann))
    # What memoryd itself writes is no change, and nothing is told of what did not happen.
    await owner.execute("update agent_memory set embedding = null")
    undone = owner.transaction()
    await undone.start()
    await owner.execute("delete from agent_memory")
    await undone.rollback()
    assert await sent(owner) == []
    await owner.execute("update agent_memory set user_id = $1 where memory_type is not null", BOB)
    assert [topic for topic, _, _ in await sent(owner)] == ["agent-memory", own, f"agent-memory:{BOB}"]
    await owner.execute("delete from agent_memory where user_id = $1", BOB)
    assert {payload["operation"] for _, payload, _ in await sent(owner)} == {"DELETE"}


async def test_who_is_told_what_is_a_setting(owner: asyncpg.Connection) -> None:
    await owner.execute(SET, "notification_user_ids", "true")
    await owner.execute(SET, "broadcast", '"public"')
    await owner.execute(SAY, ANN, None)
    payload = {"memory_type": None, "operation": "INSERT", "user_id": str(ANN)}
    assert await sent(owner) == [("agent-memory", payload, False), (f"agent-memory:{ANN}", payload, True)]
    await owner.execute(SET, "broadcast", '"off"')
    await owner.execute(SAY, ANN, None)
    assert await sent(owner) == []


async def test_a_statement_over_many_users_tells_no_single_one(owner: asyncpg.Connection) -> None:
    many = (
        "insert into agent_memory (agent_id, user_id, content) "
        "select 'a', md5(n::text)::uuid, 'x' from generate_series(1, $1) n"
    )
    await owner.execute(many, 100)
    assert len(await sent(owner)) == 101
    await owner.execute(many, 101)
    assert await sent(owner) == [("agent-memory", {"memory_type": None, "operation": "INSERT"}, True)]


async def test_a_message_that_cannot_be_sent_fails_no_write(
    project: Project, owner: asyncpg.Connection
) -> None:
    """Whether realtime.send() says so by a warning, as Supabase's own does, or by an error."""
    async with connected(project.url(user="postgres")) as admin:
        await admin.execute("alter table realtime.messages rename to messages_gone")
        try:
            await owner.execute(SAY, ANN, None)
        finally:
            await admin.execute("alter table realtime.messages_gone rename to messages")
        before = await admin.fetchval("select pg_get_functiondef('realtime.send'::regproc)")
        await admin.execute(
            "create or replace function realtime.send(payload jsonb, event text, topic text, private boolean default true) "
            "returns void language plpgsql as $$ begin raise exception 'no'; end $$"
        )
        try:
            await owner.execute(SAY, ANN, None)
        finally:
            await admin.execute(before)
    await owner.execute(SAY, ANN, None)
    assert len(await sent(owner)) == 2
    assert await owner.fetchval("select count(*) from agent_memory") == 3
    async with owner.transaction():
        await owner.execute("set local realtime.topic = 'mine'")
        await owner.execute(SAY, ANN, None)
        assert await owner.fetchval("select realtime.topic()") == "mine"


@pytest.mark.parametrize(
    ("who", "topic", "hears"),
    [
        (ANN, f"agent-memory:{ANN}", True),
        (ANN, "agent-memory", True),
        (ANN, f"agent-memory:{BOB}", False),
        (ANN, "somebody elses topic", False),
        (None, f"agent-memory:{ANN}", False),
        (None, "agent-memory", True),
    ],
)
async def test_a_user_may_listen_to_their_own_topic(
    project: Project, owner: asyncpg.Connection, who: UUID | None, topic: str, hears: bool
) -> None:
    """As Realtime asks: it puts a message there, reads it as the client, and takes it back."""
    claims = {} if who is None else {"sub": str(who)}
    async with connected(project.url(user="postgres")) as admin:
        await admin.execute(
            "insert into realtime.messages (topic, extension, event) "
            "select unnest(array[$1, 'another application''s']), 'broadcast', 'probe'",
            topic,
        )
    async with project.client("authenticated", claims) as client:
        await client.execute(f"set local realtime.topic = '{topic}'")
        # Nothing of other topics, whatever the setting says that Realtime asks by.
        seen = await column(client, "select topic from realtime.messages where event = 'probe'")
        assert seen == ([topic] if hears else [])
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with client.transaction():
                await client.execute(
                    "insert into realtime.messages (topic, extension) values ($1, 'broadcast')", topic
                )
    async with project.client("anon", claims) as stranger:
        await stranger.execute(f"set local realtime.topic = '{topic}'")
        assert await column(stranger, "select topic from realtime.messages") == []
