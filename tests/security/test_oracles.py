"""No caller learns by trying which ids there are: rows of others are refused like rows that do not exist, and none is made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.rows import column, insert, remember

GRANTED = """
select c.relname || '.' || a.attname
from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped
  and has_column_privilege('memoryd_user', c.oid, a.attnum, $1) and {}
"""
# Unique indexes and foreign keys whose every column end users may write: what they write is compared with others' rows.
COMPARED = """
select c.conrelid::regclass::text || ' ' || array_to_string(array(
    select a.attname from unnest(c.conkey) k join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k order by 1), ', ')
from pg_constraint c
where c.connamespace = 'public'::regnamespace and c.contype in ('p', 'u', 'f')
  and (select bool_and(has_column_privilege('memoryd_user', c.conrelid, k, 'insert')
                       or has_column_privilege('memoryd_user', c.conrelid, k, 'update')) from unnest(c.conkey) k)
order by 1
"""
COUNTS = """
select (select count(*) from conversation_sessions), (select count(*) from conversation_messages),
       (select count(*) from memory_chunks), (select count(*) from memoryd.jobs)
"""
OVERWRITE = " on conflict ({}) do update set {} = excluded.{}"


class Others:
    """Sessions and documents that are not BOB's: ANN's, those without a user, and ids that are free."""

    def __init__(self, sessions: list[UUID], documents: list[UUID]) -> None:
        self.sessions, self.documents = sessions, documents


@pytest.fixture
async def others(scratch: asyncpg.Connection) -> Others:
    sessions, documents = [], []
    for user in (ANN, None):
        session = await insert(scratch, "conversation_sessions", {"user_id": user, "title": "a title"})
        said: dict[str, object] = {
            "session_id": session,
            "role": "user",
            "content": "a word",
            "user_id": user,
        }
        await insert(scratch, "conversation_messages", said)
        document = await insert(scratch, "documents", {"user_id": user, "title": "a title"})
        chunk = {"document_id": document, "chunk_index": 0, "chunk_text": "a word"}
        await insert(scratch, "memory_chunks", chunk)
        sessions.append(session)
        documents.append(document)
    return Others([*sessions, uuid4()], [*documents, uuid4()])


async def told(connection: asyncpg.Connection, sql: str, key: UUID, *args: object) -> tuple[str, ...]:
    """How BOB is refused, the id left out; a statement that would wait for others fails otherwise."""
    async with acting_as(connection, BOB):
        await connection.execute("set local lock_timeout = '5s'")
        said = await refused(connection, sql, key, *args)
    return tuple(part.replace(str(key), "<id>") for part in said)


async def test_users_may_not_choose_ids(scratch: asyncpg.Connection) -> None:
    assert await column(scratch, GRANTED.format("a.attname = 'id'"), "insert") == []
    assert await column(scratch, GRANTED.format("a.attname ~ '(^|_)id$'"), "update") == [
        "agent_memory.session_id",
        "memory_settings.user_id",
    ]


async def test_a_users_writes_are_checked_only_against_their_own_rows(
    scratch: asyncpg.Connection,
) -> None:
    """The parents that they name are looked for among their own; a new constraint has to be thought of here."""
    assert await column(scratch, COMPARED) == [
        "conversation_messages message_index, session_id",
        "conversation_messages session_id",
        "memory_chunks chunk_index, document_id",
        "memory_chunks document_id",
        "memory_settings user_id",
    ]


@pytest.mark.parametrize(
    "also",
    ["", " on conflict do nothing", OVERWRITE.format("session_id, message_index", "content", "content")],
)
@pytest.mark.parametrize("writer", ["default", "null", "$2::uuid"])
@pytest.mark.parametrize("place", ["default", "0", "7"])
async def test_another_users_session_is_refused_like_a_missing_one(
    scratch: asyncpg.Connection, others: Others, also: str, writer: str, place: str
) -> None:
    sql = (
        "insert into conversation_messages (session_id, role, content, user_id, message_index) "
        f"values ($1, 'user', 'x', {writer}, {place}){also}"
    )
    before = await scratch.fetchrow(COUNTS)
    for user in (ANN, BOB) if "$2" in writer else (None,):
        args = () if user is None else (user,)
        said = {await told(scratch, sql, session, *args) for session in others.sessions}
        assert len(said) == 1
        state, message, hint = said.pop()
        assert (state, message) == ("42501", "session <id> is not yours")
        assert "insert into conversation_sessions" in hint
    assert await scratch.fetchrow(COUNTS) == before


@pytest.mark.parametrize(
    "also",
    ["", " on conflict do nothing", OVERWRITE.format("document_id, chunk_index", "chunk_text", "chunk_text")],
)
@pytest.mark.parametrize("place", [0, 7])
async def test_another_users_document_is_refused_like_a_missing_one(
    scratch: asyncpg.Connection, others: Others, also: str, place: int
) -> None:
    sql = f"insert into memory_chunks (document_id, chunk_index, chunk_text) values ($1, {place}, 'x'){also}"
    before = await scratch.fetchrow(COUNTS)
    said = {await told(scratch, sql, document) for document in others.documents}
    assert len(said) == 1
    state, message, hint = said.pop()
    assert (state, message) == ("42501", "document <id> is not yours")
    assert "insert into documents" in hint
    assert await scratch.fetchrow(COUNTS) == before


async def test_a_user_with_memory_off_learns_nothing_from_dropped_rows(
    scratch: asyncpg.Connection, others: Others
) -> None:
    """With memory off rows are dropped without a word: also those that would have been refused, each of them."""
    await scratch.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", BOB)
    before = await scratch.fetchrow(COUNTS)
    message = "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'x')"
    chunk = "insert into memory_chunks (document_id, chunk_index, chunk_text) values ($1, 7, 'x')"
    async with acting_as(scratch, BOB):
        for sql, keys in ((message, others.sessions), (chunk, others.documents)):
            assert {await scratch.execute(sql, key) for key in keys} == {"INSERT 0 0"}
    unnamed = message.replace("content)", "content, user_id)").replace("'x')", "'x', null)")
    assert len({await told(scratch, unnamed, key) for key in others.sessions}) == 1
    assert await scratch.fetchrow(COUNTS) == before


async def test_a_users_statement_never_waits_for_rows_of_others(
    connection: asyncpg.Connection, second: asyncpg.Connection, others: Others
) -> None:
    """Rows that others are writing at this moment, and sessions that they are making: BOB waits for none of them."""
    made = uuid4()
    message = "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'x')"
    chunk = "insert into memory_chunks (document_id, chunk_index, chunk_text) values ($1, 7, 'x')"
    async with second.transaction():
        for table in (
            "conversation_sessions",
            "documents",
            "conversation_messages",
            "memory_chunks",
            "agent_memory",
        ):
            await second.execute(f"select from {table} for update")
        await second.execute(message, made)
        assert len({await told(connection, message, key) for key in (*others.sessions, made)}) == 1
        assert len({await told(connection, chunk, key) for key in others.documents}) == 1
        async with acting_as(connection, BOB):
            await connection.execute("set local lock_timeout = '5s'")
            for source, keys in (("session", [*others.sessions, made]), ("document", others.documents)):
                assert await connection.fetchval("select forget($1, $2)", keys, source) == 0
            for key in (*others.sessions, made):
                assert await connection.fetchval("select reset_session($1)", key) == 0


async def test_a_user_cannot_create_another_users_session_id(scratch: asyncpg.Connection) -> None:
    """The id that a service makes of a chat's name is no secret, and knowing it gives nothing."""
    session = uuid5(NAMESPACE_URL, "telegram:chat:42")
    async with acting_as(scratch, BOB):
        for sql in (
            "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'mine now')",
            "insert into conversation_sessions (id) values ($1)",
        ):
            assert (await refused(scratch, sql, session))[0] == "42501"
    said = {"session_id": session, "user_id": ANN, "role": "user", "content": "hello"}
    async with acting_as(scratch, None, role="memoryd_service"):
        await insert(scratch, "conversation_messages", said)
    assert await column(scratch, "select user_id from conversation_sessions") == [ANN]
    async with acting_as(scratch, BOB):
        assert await scratch.fetch("select * from load_context($1)", session) == []
    async with acting_as(scratch, ANN):
        assert await column(scratch, "select content from load_context($1)", session) == ["hello"]


async def test_a_user_creates_a_session_and_writes_into_it(scratch: asyncpg.Connection) -> None:
    async with acting_as(scratch, BOB):
        session = await scratch.fetchval(
            "insert into conversation_sessions (title) values ('mine') returning id"
        )
        for words in ("hello", "again"):
            sql = "insert into conversation_messages (session_id, role, content) values ($1, 'user', $2)"
            await scratch.execute(sql, session, words)
        both = (
            "with s as (insert into conversation_sessions default values returning id) "
            "insert into conversation_messages (session_id, role, content) select id, 'user', 'at once' from s"
        )
        await scratch.execute(both)
        assert await column(scratch, "select content from load_context($1)", session) == ["hello", "again"]
        assert await column(scratch, "select user_id from conversation_sessions") == [BOB, BOB]


READS_AND_CHANGES = (
    ("conversation_sessions", "select * from conversation_sessions where id = $1 for update"),
    ("conversation_sessions", "select * from load_context($1)"),
    ("conversation_sessions", "select reset_session($1)"),
    ("conversation_sessions", "select forget(array[$1::uuid], 'session')"),
    ("conversation_sessions", "update conversation_sessions set title = 'x' where id = $1"),
    ("conversation_messages", "update conversation_messages set content = ' ' where id = $1"),
    ("conversation_messages", "select forget(array[$1::uuid], 'message')"),
    ("documents", "update documents set title = ' ' where id = $1"),
    ("documents", "select forget(array[$1::uuid], 'document')"),
    ("memory_chunks", "update memory_chunks set chunk_text = ' ' where id = $1"),
    ("memory_chunks", "select forget(array[$1::uuid], 'chunk')"),
    ("agent_memory", "update agent_memory set content = ' ' where id = $1"),
    ("agent_memory", "select forget(array[$1::uuid])"),
    ("agent_sessions", "update agent_sessions set status = ' ' where id = $1"),
    ("agent_commands", "select id from agent_commands where id = $1"),
    ("memory_requests", "select id from memory_requests where id = $1"),
)


@pytest.mark.parametrize(("table", "sql"), READS_AND_CHANGES)
async def test_another_users_id_is_answered_like_a_free_one(
    scratch: asyncpg.Connection, others: Others, table: str, sql: str
) -> None:
    assert others.sessions
    for user in (ANN, None):
        own: dict[str, object] = {"user_id": user}
        await remember(scratch, "a word", **own)
        await insert(scratch, "memory_queries", own)
        await insert(scratch, "agent_sessions", own)
        await insert(
            scratch, "agent_commands", own | {"agent_id": "a", "message": "x", "status": "cancelled"}
        )
        await insert(scratch, "memory_requests", own | {"kind": "recall", "query": "x", "status": "done"})
    keys = [*await column(scratch, f"select id from {table}"), uuid4()]
    assert len(keys) == 3
    async with acting_as(scratch, BOB):
        answers = [list(map(tuple, await scratch.fetch(sql, key))) for key in keys]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    "also", ["", " on conflict do nothing", " on conflict (user_id) do update set memory_enabled = false"]
)
async def test_whether_another_user_has_settings_cannot_be_found_out(
    scratch: asyncpg.Connection, also: str
) -> None:
    await scratch.execute("insert into memory_settings (user_id) values ($1)", ANN)
    sql = f"insert into memory_settings (user_id) values ($1){also}"
    assert len({await told(scratch, sql, user) for user in (ANN, uuid4())}) == 1
    # Nor by giving one's own to them: PostgREST's upsert updates every column that it was given, the key too.
    await scratch.execute("insert into memory_settings (user_id) values ($1)", BOB)
    given = "update memory_settings set user_id = $1"
    assert len({await told(scratch, given, user) for user in (ANN, uuid4())}) == 1


@pytest.fixture
async def calls(scratch: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """A scratch with BOB's rights, for calls that must fail alike."""
    async with acting_as(scratch, BOB):
        yield scratch


async def test_whether_a_user_exists_cannot_be_found_out(calls: asyncpg.Connection) -> None:
    for function in ("export_user_memory", "erase_user_memory"):
        said = {await refused(calls, f"select {function}($1)", user) for user in (ANN, uuid4())}
        assert len(said) == 1
