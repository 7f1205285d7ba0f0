"""What a browser hears: changes of the rows that are its user's, and memory_updated by Broadcast."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.acting import ANN, BOB
from tests.support.rows import column, insert, remember
from tests.support.schemas import apply, connected
from tests.support.supabase import BROADCAST, PUBLICATION, Project

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


async def test_a_table_that_was_taken_out_stays_out_and_a_new_one_joins(project: Project) -> None:
    await project.make("older", *PUBLICATION)
    assert (await apply(project.url("older"))).left == ()
    async with connected(project.url("older")) as owner:
        everything = await column(owner, PUBLISHED)
        assert "memory_requests" in everything
        # As a version made it that knew five tables, of which somebody took one out.
        await owner.execute("delete from memoryd.settings where key = 'published'")
        await owner.execute(
            "alter publication supabase_realtime drop table memory_requests, agent_execution_logs"
        )
        assert (await apply(project.url("older"))).left == ()
        without = [name for name in everything if name != "agent_execution_logs"]
        assert await column(owner, PUBLISHED) == without
        await owner.execute("alter publication supabase_realtime drop table memory_requests")
        assert (await apply(project.url("older"))).left == ()
        assert await column(owner, PUBLISHED) == [name for name in without if name != "memory_requests"]


async def test_a_publication_of_somebody_else_is_left_to_them(project: Project) -> None:
    await project.make("others", "create publication supabase_realtime")
    left = (await apply(project.url("others"))).left
    assert {part for part, _ in left} == {"realtime"}
    async with connected(project.url("others", "postgres")) as admin:
        for _, statement in left:
            await admin.execute(statement)
        assert len(await column(admin, PUBLISHED)) == len(left) == 6
    assert (await apply(project.url("others"))).left == ()


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


async def test_a_function_of_a_stranger_is_not_called(project: Project) -> None:
    """Whoever may create a schema in the database could name it so, and would run as memoryd's owner."""
    await project.make(
        "trap", "create role stranger_of_trap", "grant create on database trap to stranger_of_trap"
    )
    assert (await apply(project.url("trap"))).left == ()
    async with connected(project.url("trap", "postgres")) as admin:
        await admin.execute(
            "set role stranger_of_trap; create schema realtime; grant usage on schema realtime to public; "
            "create function realtime.send(payload jsonb, event text, topic text, private boolean) returns void "
            "language plpgsql as $$ begin execute 'create role trapped'; end $$; reset role"
        )
        await admin.execute(SAY.replace("agent_memory", "public.agent_memory"), ANN, None)
        assert not await admin.fetchval("select exists (select from pg_roles where rolname = 'trapped')")


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
            "insert into realtime.messages (topic, extension, event) values ($1, 'broadcast', 'probe')", topic
        )
    async with project.client("authenticated", claims) as client:
        await client.execute(f"set local realtime.topic = '{topic}'")
        seen = await column(
            client, "select topic from realtime.messages where event = 'probe' and topic = $1", topic
        )
        assert (seen == [topic]) == hears
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with client.transaction():
                await client.execute(
                    "insert into realtime.messages (topic, extension) values ($1, 'broadcast')", topic
                )
    async with project.client("anon", claims) as stranger:
        await stranger.execute(f"set local realtime.topic = '{topic}'")
        assert await column(stranger, "select topic from realtime.messages") == []


async def test_where_the_policy_may_not_be_made_the_statement_is_left(project: Project) -> None:
    own_owner = [one for one in BROADCAST if "owner to supabase_realtime_admin" not in one]
    await project.make("closed", *own_owner)
    left = (await apply(project.url("closed"))).left
    assert [part for part, _ in left] == ["broadcast"]
    async with connected(project.url("closed", "postgres")) as admin:
        await admin.execute(left[0][1])
        assert (await apply(project.url("closed"))).left == ()
        await remember(admin, "a lamp", user_id=uuid4())
