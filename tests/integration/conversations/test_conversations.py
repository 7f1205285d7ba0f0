"""Conversation memory: places within a session under any writers, sessions made as needed, whose they are."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, NOBODY, acting_as
from tests.support.access.refusals import refused
from tests.support.database.schemas import connected
from tests.support.rows import column, insert, one_row, say
from tests.support.waiting import BLOCKED, until

PLACES = "select message_index from conversation_messages where session_id = $1 order by message_index"
LAST = "select content from load_context($1, 2)"


# --- The newest messages, oldest first.


async def test_context_is_the_newest_messages_oldest_first(scratch: asyncpg.Connection) -> None:
    session, other = uuid4(), uuid4()
    for n in range(15):
        await say(scratch, session, f"turn {n}", role="user" if n % 2 else "assistant", speaker=f"s{n}")
        await say(scratch, other, f"elsewhere {n}")
    rows = await scratch.fetch("select * from load_context($1)", session)
    assert [row["content"] for row in rows] == [f"turn {n}" for n in range(3, 15)]
    first = dict(rows[0])
    assert first.pop("created_at")
    assert first == {
        "role": "user",
        "speaker": "s3",
        "content": "turn 3",
        "message_index": 3,
        "metadata": "{}",
    }
    assert await column(scratch, LAST, session) == ["turn 13", "turn 14"]
    assert len(await scratch.fetch("select * from load_context($1, 2147483647)", session)) == 15
    assert await scratch.fetch("select * from load_context($1, 0)", session) == []
    assert await scratch.fetch("select * from load_context($1)", uuid4()) == []


async def test_messages_are_ordered_by_place_and_not_by_time(scratch: asyncpg.Connection) -> None:
    session, now = uuid4(), datetime.now(UTC)
    await say(scratch, session, "second", message_index=5, created_at=now - timedelta(days=2))
    await say(scratch, session, "first", message_index=2, created_at=now)
    await say(scratch, session, "third", created_at=now - timedelta(days=1))
    assert await column(scratch, "select content from load_context($1)", session) == [
        "first", "second", "third",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "state", "said", "hint"),
    [
        ("load_context(null)", "22004", "session_id is null", "Give the session whose messages you want."),
        ("load_context(gen_random_uuid(), null)", "22023", "max_messages is null", "0 or more"),
        ("load_context(gen_random_uuid(), -1)", "22023", "max_messages is -1", "0 or more"),
        ("reset_session(null)", "22004", "session_id is null", "Give the session whose messages are to go."),
    ],
)
async def test_a_call_with_invalid_arguments_is_refused_with_advice(
    scratch: asyncpg.Connection, sql: str, state: str, said: str, hint: str
) -> None:
    found = await refused(scratch, f"select * from {sql}")
    assert (found[0], found[1]) == (state, said)
    assert hint in found[2]


@pytest.mark.parametrize(
    ("columns", "state", "said", "hint"),
    [
        ({"role": "robot"}, "23514", "unknown role 'robot'", "Roles: user, assistant, system, tool."),
        ({"role": None}, "23502", '"role"', ""),
        ({"content": " \n"}, "23514", "content is blank", "A message says something"),
        ({"content": None}, "23502", '"content"', ""),
        ({"session_id": None}, "23502", '"session_id"', ""),
        ({"message_index": -1}, "23514", "message_index is -1", "Indexes count from 0"),
        ({"message_index": 2**31 - 1}, "23514", "message_index is 2147483647", "leave it out"),
        ({"agent_id": "  "}, "23514", "agent_id is blank", "1 to 200 characters"),
        ({"speaker": "x" * 201}, "23514", "speaker is blank or too long", "of 1 to 200 characters"),
        ({"access_level": -1}, "23514", "access_level is -1", "null keeps it private"),
        ({"chat_id": UUID(int=5)}, "23503", "chat_id_fkey", ""),
        (
            {"created_at": datetime(9999, 12, 31, tzinfo=UTC)},
            "23514",
            "created_at is 9999",
            "from the year 1 to 9999",
        ),
    ],
)
async def test_an_invalid_message_is_refused_with_advice(
    scratch: asyncpg.Connection, columns: dict[str, object], state: str, said: str, hint: str
) -> None:
    values = {"session_id": uuid4(), "role": "user", "content": "hello"} | columns
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    sql = f"insert into conversation_messages ({', '.join(values)}) values ({places})"
    found = await refused(scratch, sql, *values.values())
    assert found[0] == state
    assert said in found[1]
    assert hint in found[2]
    assert await scratch.fetchval("select count(*) from conversation_sessions") == 0


# --- Places, also with several writers at once.


async def test_a_statement_of_a_thousand_rows_takes_a_thousand_places_in_order(
    scratch: asyncpg.Connection,
) -> None:
    session = uuid4()
    await scratch.execute(
        "insert into conversation_messages (session_id, role, content) "
        "select $1, 'user', 'turn ' || n from generate_series(0, 999) n",
        session,
    )
    wrong = "select count(*) from conversation_messages where content <> 'turn ' || message_index"
    assert await scratch.fetchval(wrong) == 0
    assert await column(scratch, PLACES, session) == list(range(1000))


async def test_copied_rows_get_places(admin_scratch: asyncpg.Connection) -> None:
    """COPY is for those whom no policy holds: Postgres refuses it to others."""
    sessions = [uuid4(), uuid4()]
    await admin_scratch.copy_records_to_table(
        "conversation_messages",
        records=[(sessions[n % 2], "user", f"turn {n // 2}") for n in range(400)],
        columns=["session_id", "role", "content"],
    )
    for session in sessions:
        assert await column(admin_scratch, PLACES, session) == list(range(200))
    assert await admin_scratch.fetchval("select count(*) from conversation_sessions") == 2


@pytest.mark.first_server
async def test_writing_many_sessions_does_not_take_a_lock_for_each(scratch: asyncpg.Connection) -> None:
    # More than fit into the server's table of locks.
    await scratch.execute(
        "insert into conversation_messages (session_id, role, content) "
        "select md5(n::text)::uuid, 'user', 'only turn' from generate_series(1, 30000) n"
    )
    assert await scratch.fetchval("select count(*) from conversation_sessions") == 30000


async def test_writers_of_one_session_wait_for_each_other(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    session = uuid4()
    first = connection.transaction()
    await first.start()
    await say(connection, session, "one")
    waiting = asyncio.create_task(say(second, session, "two"))
    async with connected(database_url) as third:
        await until(third, BLOCKED)
    await say(connection, session, "one and a half")
    await first.commit()
    await waiting
    assert await column(connection, "select content from load_context($1)", session) == [
        "one", "one and a half", "two",
    ]  # fmt: skip


async def test_many_writers_of_one_session_leave_no_gap(
    connection: asyncpg.Connection, database_url: str
) -> None:
    session = uuid4()

    async def write(name: int) -> None:
        async with connected(database_url) as own:
            for n in range(10):
                await say(own, session, f"{name} {n}")
            await own.execute(
                "insert into conversation_messages (session_id, role, content) "
                "select $1, 'assistant', 'block ' || n from generate_series(1, 50) n",
                session,
            )

    await asyncio.gather(*(write(n) for n in range(4)))
    assert await column(connection, PLACES, session) == list(range(240))
    assert await connection.fetchval("select count(*) from conversation_sessions") == 1


async def test_a_writer_without_a_place_does_not_fail_because_another_gave_one(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    session = uuid4()
    await say(connection, session, "zero")
    first = connection.transaction()
    await first.start()
    await say(connection, session, "one", message_index=1)
    waiting = asyncio.create_task(say(second, session, "two"))
    async with connected(database_url) as third:
        await until(third, BLOCKED)
    await first.commit()
    await waiting
    assert await column(connection, "select content from load_context($1)", session) == ["zero", "one", "two"]


async def test_a_taken_place_is_refused(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    await say(scratch, session, "here")
    again = "insert into conversation_messages (session_id, role, content, message_index) values ($1, 'user', 'x', 0)"
    state, said, _ = await refused(scratch, again, session)
    assert state == "23505"
    assert "one_message_at_each_index" in said
    await scratch.execute(f"{again} on conflict do nothing", session)
    assert await column(scratch, LAST, session) == ["here"]
    # What comes next goes on from the highest.
    await say(scratch, session, "far", message_index=40)
    await say(scratch, session, "further")
    assert await column(scratch, PLACES, session) == [0, 40, 41]


async def test_a_message_whose_session_is_deleted_meanwhile_creates_it_again(
    connection: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    session = uuid4()
    await say(connection, session, "old")
    first = connection.transaction()
    await first.start()
    await connection.execute("delete from conversation_sessions where id = $1", session)
    waiting = asyncio.create_task(say(second, session, "new"))
    async with connected(database_url) as third:
        await until(third, BLOCKED)
    await first.commit()
    await waiting
    assert await column(connection, LAST, session) == ["new"]


# --- Whose a message is.


async def test_a_session_is_made_with_its_first_message(scratch: asyncpg.Connection) -> None:
    session, when = uuid4(), datetime(2026, 3, 4, tzinfo=UTC)
    await say(scratch, session, "hello", user_id=ANN, agent_id="alice", created_at=when)
    row = await one_row(scratch, "select * from conversation_sessions")
    assert (row["id"], row["user_id"], row["agent_id"], row["created_at"]) == (session, ANN, "alice", when)
    await scratch.execute("update conversation_sessions set title = 'kept'")
    await say(scratch, session, "hi", role="assistant")
    assert await column(scratch, "select title from conversation_sessions") == ["kept"]
    # The answer is the user's too, who would else see half of the conversation.
    assert await column(scratch, "select distinct user_id from conversation_messages") == [ANN]
    async with acting_as(scratch, ANN):
        assert await column(scratch, LAST, session) == ["hello", "hi"]
    async with acting_as(scratch, BOB):
        assert await column(scratch, LAST, session) == []


@pytest.mark.parametrize("role", ["none", "memoryd_service"])
async def test_a_session_of_one_user_takes_no_message_of_anothers(
    scratch: asyncpg.Connection, role: str
) -> None:
    session = uuid4()
    await say(scratch, session, "mine", user_id=ANN)
    sql = (
        "insert into conversation_messages (session_id, role, content, user_id) values ($1, 'user', 'x', $2)"
    )
    async with acting_as(scratch, None, role=role):
        state, said, hint = await refused(scratch, sql, session, BOB)
    assert (state, said) == ("42501", f"session {session} is another user's")
    assert "A session of several users has no user_id" in hint


async def test_a_user_writes_only_into_their_own_sessions(scratch: asyncpg.Connection) -> None:
    anns, agents = uuid4(), uuid4()
    await say(scratch, anns, "ann's", user_id=ANN)
    await say(scratch, agents, "nobody's")
    columns = "insert into conversation_messages (session_id, role, content"
    async with acting_as(scratch, BOB):
        for session in (anns, agents, uuid4()):
            for sql, args in (
                (f"{columns}) values ($1, 'user', 'x')", (session,)),
                (f"{columns}, user_id) values ($1, 'user', 'x', $2)", (session, BOB)),
                (f"{columns}, user_id) values ($1, 'user', 'x', $2)", (session, ANN)),
                (f"{columns}, user_id, message_index) values ($1, 'user', 'x', $2, 0)", (session, BOB)),
            ):
                assert (await refused(scratch, sql, *args))[0] == "42501"
        own = await scratch.fetchval("insert into conversation_sessions default values returning id")
        # As supabase-js would: neither a user nor a place is given.
        await scratch.execute(f"{columns}) values ($1, 'user', 'my own')", own)
        await scratch.execute(f"{columns}) values ($1, 'assistant', 'an answer')", own)
        assert await column(scratch, LAST, own) == ["my own", "an answer"]
        assert await column(scratch, "select user_id from conversation_sessions") == [BOB]
        assert await scratch.fetchval("select reset_session($1)", anns) == 0
        assert await scratch.fetchval("select reset_session($1)", own) == 2
    assert await scratch.fetchval("select count(*) from conversation_messages") == 2


async def test_a_user_without_claims_writes_nothing(scratch: asyncpg.Connection) -> None:
    async with acting_as(scratch, None, claims=NOBODY):
        sql = "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'x')"
        assert (await refused(scratch, sql, uuid4()))[0] == "42501"
    assert await scratch.fetchval("select count(*) from conversation_sessions") == 0


async def test_in_a_group_chat_each_user_sees_only_their_own_messages(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    chat = await insert(scratch, "chat_groups", {"platform": "telegram", "group_name": "garden"})
    await say(scratch, session, "ann here", user_id=ANN, chat_id=chat)
    await say(scratch, session, "bob here", user_id=BOB, chat_id=chat)
    await say(scratch, session, "welcome", role="assistant", chat_id=chat)
    assert await column(scratch, "select user_id from conversation_sessions") == [None]
    async with acting_as(scratch, ANN):
        assert await column(scratch, LAST, session) == ["ann here"]
        assert await column(scratch, "select group_name from chat_groups") == ["garden"]
    async with acting_as(scratch, UUID(int=0xC)):
        assert await scratch.fetch("select * from chat_groups") == []


async def test_messages_of_a_user_with_memory_off_are_not_in_the_context(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    chat = await insert(scratch, "chat_groups", {"platform": "telegram"})
    for user, text in ((ANN, "ann's"), (BOB, "bob's"), (None, "the agent's")):
        await say(scratch, session, text, user_id=user, chat_id=chat)
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ANN)
    assert await column(scratch, LAST, session) == ["bob's", "the agent's"]
    async with acting_as(scratch, ANN):
        assert await column(scratch, LAST, session) == []
    await scratch.execute("update memory_settings set memory_enabled = true")
    assert await column(scratch, "select content from load_context($1)", session) == [
        "ann's", "bob's", "the agent's",
    ]  # fmt: skip


async def test_giving_a_session_to_a_user_gives_its_messages(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    for text in ("who are you", "an agent"):
        await say(scratch, session, text)
    await scratch.execute("update conversation_sessions set user_id = $1", ANN)
    async with acting_as(scratch, ANN):
        assert await column(scratch, LAST, session) == ["who are you", "an agent"]
    await scratch.execute("update conversation_sessions set user_id = $1, title = 'x'", BOB)
    assert await column(scratch, "select distinct user_id from conversation_messages") == [BOB]


@pytest.mark.parametrize(
    "statement",
    [
        "insert into conversation_messages (session_id, role, content) values ($1, 'system', 'obey')",
        "insert into conversation_messages (session_id, role, content, access_level) values ($1, 'user', 'x', 0)",
        "insert into conversation_messages (session_id, role, content, visibility_tags) values ($1, 'user', 'x', '{a}')",
        "insert into conversation_messages (session_id, role, content, chat_id) values ($1, 'user', 'x', $1)",
        "insert into conversation_messages (session_id, role, content, created_at) values ($1, 'user', 'x', now())",
        "update conversation_messages set role = 'system' where session_id = $1",
        "update conversation_messages set access_level = 0 where session_id = $1",
        "update conversation_messages set session_id = gen_random_uuid() where session_id = $1",
        "insert into conversation_sessions (id, user_id) values (gen_random_uuid(), $1)",
        "update conversation_sessions set user_id = null where id = $1",
        "insert into chat_groups (id, platform) values ($1, 'x')",
        "insert into conversation_history (session_id, speaker, message_text) values ($1, 'user', 'x')",
        "truncate conversation_messages",
    ],
)
async def test_columns_that_a_user_may_not_write_are_refused(
    scratch: asyncpg.Connection, statement: str
) -> None:
    session = uuid4()
    await say(scratch, session, "mine", user_id=ANN)
    async with acting_as(scratch, ANN):
        arguments = (session,) if "$1" in statement else ()
        assert (await refused(scratch, statement, *arguments))[0] == "42501"


async def test_a_shared_text_cannot_be_changed_by_its_owner(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    shared = await say(scratch, session, "the menu of the week", user_id=ANN, access_level=1)
    await say(scratch, session, "be brief", user_id=ANN, role="system")
    private = await say(scratch, session, "a note", user_id=ANN)
    await insert(scratch, "user_memory_access", {"user_id": BOB, "access_level": 1})
    change = "update conversation_messages set content = 'poison', metadata = '{\"project\": \"b\"}'"
    async with acting_as(scratch, ANN):
        assert await scratch.execute(change) == "UPDATE 1"
        assert (
            await scratch.fetchval("select content from conversation_messages where id = $1", private)
            == "poison"
        )
    async with acting_as(scratch, BOB):
        assert await column(scratch, "select content from load_context($1)", session) == [
            "the menu of the week"
        ]
        assert await scratch.execute(change) == "UPDATE 0"
        assert await scratch.fetchval("select forget($1, 'message')", [shared, private]) == 0
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval("select forget($1, 'message')", [shared]) == 1


# --- Forgetting.


async def test_a_session_that_was_reset_starts_at_place_zero(scratch: asyncpg.Connection) -> None:
    session, other = uuid4(), uuid4()
    for n in range(3):
        await say(scratch, session, f"turn {n}")
        await say(scratch, other, f"turn {n}")
    assert await scratch.fetchval("select reset_session($1)", session) == 3
    assert await scratch.fetchval("select reset_session($1)", session) == 0
    assert await scratch.fetchval("select reset_session($1)", uuid4()) == 0
    assert await scratch.fetchval("select count(*) from conversation_sessions") == 2
    await say(scratch, session, "again")
    assert await column(scratch, PLACES, session) == [0]
    assert await column(scratch, PLACES, other) == [0, 1, 2]
