"""Conversations are forgotten in time, by the daemon's setting or a user's own, in bounded steps, and never under a writer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg

from tests.support.access.acting import ANN, BOB
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, insert, one_row, say

LAST = "select content from load_context($1, 2)"


async def aged(
    connection: asyncpg.Connection, minutes: int, user: UUID | None = None, text: str = "turn"
) -> UUID:
    """A message of this age in a session of its own, as old."""
    return await say(
        connection, uuid4(), text, user_id=user, created_at=datetime.now(UTC) - timedelta(minutes=minutes)
    )


async def keeps(connection: asyncpg.Connection, user: UUID, minutes: int | None) -> None:
    """A user's own setting."""
    await connection.execute(
        "insert into memory_settings (user_id, conversation_retention_minutes) values ($1, $2)", user, minutes
    )


async def expire(
    connection: asyncpg.Connection, minutes: int | None, most: int | None = None
) -> tuple[int, ...]:
    """Messages and sessions deleted."""
    return tuple(
        await one_row(connection, "select * from memoryd.expire_conversations($1, $2)", minutes, most)
    )


async def test_a_daemon_expires_conversations_after_the_retention_time(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    for minutes in (61, 600, 100_000):
        await aged(connection, minutes)
    young = await aged(connection, 50)
    daemon = await daemons.start(conversation_retention_minutes=60, cleanup_seconds=1)
    line = await daemon.event("conversations_expired")
    assert (line["messages"], line["sessions"]) == (3, 3)
    assert await column(connection, "select id from conversation_messages") == [young]
    assert await connection.fetchval("select count(*) from conversation_sessions") == 1


async def test_without_the_setting_conversations_never_expire(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await keeps(connection, BOB, 30)
    kept, gone = await aged(connection, 10**7), await aged(connection, 31, BOB)
    daemon = await daemons.start(cleanup_seconds=1)
    await daemon.event("conversations_expired", messages=1, sessions=1)
    assert await column(connection, "select id from conversation_messages") == [kept]
    assert gone != kept


async def test_a_users_own_retention_time_wins_over_the_default(scratch: asyncpg.Connection) -> None:
    careful, fond, plain = UUID(int=1), UUID(int=2), UUID(int=3)
    await keeps(scratch, careful, 10)
    await keeps(scratch, fond, 100_000)
    await keeps(scratch, plain, None)
    ages = {None: (59, 61), careful: (9, 11), fond: (99_999, 100_001), plain: (59, 61), UUID(int=4): (59, 61)}
    kept = []
    for user, (young, old) in ages.items():
        kept.append(await aged(scratch, young, user))
        await aged(scratch, old, user)
    assert await expire(scratch, 60) == (5, 5)
    assert set(await column(scratch, "select id from conversation_messages")) == set(kept)
    assert await scratch.fetchval("select count(*) from conversation_sessions") == 5
    assert await expire(scratch, 60) == (0, 0)
    assert await expire(scratch, None) == (0, 0)


async def test_a_session_expires_with_the_last_of_its_messages(scratch: asyncpg.Connection) -> None:
    session, empty = uuid4(), uuid4()
    await say(scratch, session, "old", created_at=datetime.now(UTC) - timedelta(hours=3))
    await say(scratch, session, "new")
    await insert(scratch, "conversation_sessions", {"id": empty, "title": "just opened"})
    assert await expire(scratch, 60) == (1, 0)
    assert await column(scratch, LAST, session) == ["new"]
    await scratch.execute("update conversation_sessions set created_at = created_at - interval '2 hours'")
    assert await expire(scratch, 60) == (0, 1)
    assert await column(scratch, "select id from conversation_sessions") == [session]


async def test_a_session_with_a_message_under_way_does_not_expire(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    session = uuid4()
    await insert(
        connection, "conversation_sessions", {"id": session, "created_at": datetime(2020, 1, 1, tzinfo=UTC)}
    )
    writing = second.transaction()
    await writing.start()
    await say(second, session, "not too late")
    assert await expire(connection, 60) == (0, 0)
    await writing.commit()
    assert await expire(connection, 60) == (0, 0)
    assert await column(connection, LAST, session) == ["not too late"]


async def test_expiring_deletes_at_most_the_given_number_at_once(scratch: asyncpg.Connection) -> None:
    await keeps(scratch, ANN, 5)
    await scratch.execute(
        "insert into conversation_messages (session_id, user_id, role, content, created_at) "
        "select md5((n / 10)::text)::uuid, case when n < 50 then $1::uuid end, 'user', 'turn', now() - interval '1 day' "
        "from generate_series(0, 99) n",
        ANN,
    )
    gone = []
    while sum(found := await expire(scratch, 60, 30)):
        gone.append(found)
    assert all(max(found) <= 30 for found in gone)
    assert [sum(found[0] for found in gone), sum(found[1] for found in gone)] == [100, 10]


async def test_expiring_scans_no_whole_table(scratch: asyncpg.Connection) -> None:
    await scratch.execute(
        "insert into conversation_messages (session_id, user_id, role, content, created_at) "
        "select md5((n / 10)::text)::uuid, md5((n / 100)::text)::uuid, 'user', 'turn ' || n, "
        "now() - make_interval(mins => 20000 - n) from generate_series(1, 20000) n"
    )
    await scratch.execute(
        "insert into memory_settings (user_id, conversation_retention_minutes) "
        "select md5(n::text)::uuid, 19000 from generate_series(1, 20) n"
    )
    await scratch.execute("analyze conversation_messages, conversation_sessions, memory_settings")
    counted = (
        "select sum(seq_scan) from pg_stat_xact_user_tables "
        "where relname in ('conversation_messages', 'conversation_sessions')"
    )
    before = await scratch.fetchval(counted)
    for minutes in (60, None):
        for _ in range(6):
            await expire(scratch, minutes, 50)
        assert await scratch.fetchval(counted) == before, minutes
    plan = json.loads(
        await scratch.fetchval(
            "explain (format json) select * from conversation_messages where content = 'a scan would be seen'"
        )
    )
    assert plan[0]["Plan"]["Node Type"] == "Seq Scan"
