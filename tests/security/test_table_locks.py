"""End users delete their own rows, by function; no end user can take a lock that would stop others."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, NOBODY, acting_as
from tests.support.access.refusals import refused
from tests.support.database.logins import GONE
from tests.support.processes.commands import Commands
from tests.support.repository import ROOT
from tests.support.rows import column, insert, remember

RELATIONS = """
select c.oid::regclass::text from pg_class c
where c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace) and c.relkind in ('r', 'p', 'v')
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
"""
STOPPING = (
    "row exclusive", "share update exclusive", "share", "share row exclusive", "exclusive", "access exclusive",
)  # fmt: skip
"""Modes that stop some of what others do, or that only who writes whole tables needs."""
HELD = """
select distinct l.relation::regclass::text, l.mode from pg_locks l join pg_class c on c.oid = l.relation
where l.pid = pg_backend_pid() and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
  and l.mode not in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
"""
SOURCES = {
    "memory": "agent_memory",
    "message": "conversation_messages",
    "session": "conversation_sessions",
    "document": "documents",
    "chunk": "memory_chunks",
}


async def rows_of(
    connection: asyncpg.Connection, user: UUID | None, *, level: int | None = 1
) -> dict[str, UUID]:
    """A row of each source; messages and chunks are shared unless `level` is None."""
    session = await insert(connection, "conversation_sessions", {"user_id": user, "title": "a talk"})
    words: dict[str, object] = {"content": "a word", "access_level": level}
    said = words | {"session_id": session, "user_id": user, "role": "user"}
    document = await insert(connection, "documents", {"user_id": user, "title": "a text"})
    chunk = {"document_id": document, "chunk_index": 0, "chunk_text": "a word", "access_level": level}
    if user is not None:
        await connection.execute("insert into memory_settings (user_id) values ($1)", user)
    return {
        "memory": await remember(connection, "a memory", user_id=user),
        "message": await insert(connection, "conversation_messages", said),
        "session": session,
        "document": document,
        "chunk": await insert(connection, "memory_chunks", chunk),
    }


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_admin"])
async def test_no_table_is_locked_against_others(scratch: asyncpg.Connection, role: str) -> None:
    await rows_of(scratch, ANN)
    relations = await column(scratch, RELATIONS)
    assert {"agent_memory", "memory_settings", "conversation_history", "memoryd.jobs"} <= set(relations)
    async with acting_as(scratch, ANN, role=role):
        for relation in relations:
            for mode in STOPPING:
                for how in ("", " nowait"):
                    state, _, _ = await refused(scratch, f"lock table {relation} in {mode} mode{how}")
                    assert state == "42501", (relation, mode)
        assert await scratch.fetch(HELD) == []


@pytest.mark.parametrize("role", ["memoryd_user", "memoryd_admin"])
async def test_users_have_no_rights_on_whole_tables(scratch: asyncpg.Connection, role: str) -> None:
    """What LOCK TABLE asks for. Rights by column, as users have them, allow no lock."""
    rights = ["insert", "update", "delete", "truncate", "references", "trigger"]
    if await scratch.fetchval("select current_setting('server_version_num')::integer >= 170000"):
        rights.append("maintain")
    each = f"from ({RELATIONS}) r(name), unnest($2::text[]) p(name)"
    granted = f"select r.name, p.name {each} where has_table_privilege($1, r.name, p.name)"
    assert await scratch.fetch(granted, role, rights) == []


async def test_a_users_row_locks_do_not_stop_others(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """ANN locks all the rows that she can; BOB and the service go on."""
    mine = await rows_of(connection, ANN, level=None)
    theirs = await rows_of(connection, BOB)
    async with acting_as(connection, ANN):
        for source, table in SOURCES.items():
            locked = await column(connection, f"select id from {table} for update")
            assert locked == [mine[source]]
        assert await column(connection, "select user_id from memory_settings for update") == [ANN]
        assert await connection.fetch(HELD) == []
        async with acting_as(second, BOB):
            await second.execute("set local lock_timeout = '5s'")
            await remember(second, "another", user_id=BOB)
            turn = "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'x')"
            await second.execute(turn, theirs["session"])
            await second.execute("update documents set title = 'another'")
            for source, key in theirs.items():
                if source != "session":
                    # The chunk went with its document.
                    gone = 0 if source == "chunk" else 1
                    assert await second.fetchval("select forget($1, $2)", [key, mine[source]], source) == gone
            assert await second.fetchval("select reset_session($1)", theirs["session"]) >= 1
        async with acting_as(second, None, role="memoryd_service"):
            await second.execute("set local lock_timeout = '5s'")
            for table in SOURCES.values():
                assert await second.fetchval(f"select count(*) from {table}") >= 1
            await remember(second, "the service's", user_id=ANN)


@pytest.mark.parametrize("source", SOURCES)
async def test_users_forget_only_their_own_rows(scratch: asyncpg.Connection, source: str) -> None:
    rows = {user: (await rows_of(scratch, user))[source] for user in (ANN, BOB, None)}
    ids = [*rows.values(), rows[ANN], None, uuid4()]
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval("select forget($1, $2)", ids, source) == 1
        assert await scratch.fetchval("select forget($1, $2)", ids, source) == 0
    left = set(await column(scratch, f"select id from {SOURCES[source]}"))
    assert left == {rows[BOB], rows[None]}
    async with acting_as(scratch, None, claims=NOBODY):
        assert await scratch.fetchval("select forget($1, $2)", ids, source) == 0
    async with acting_as(scratch, None, role="memoryd_service"):
        assert await scratch.fetchval("select forget($1, $2)", ids, source) == 2


async def test_forgetting_a_row_deletes_its_dependents_and_is_audited(scratch: asyncpg.Connection) -> None:
    rows = await rows_of(scratch, ANN)
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval("select forget(array[$1::uuid])", rows["memory"]) == 1
        for source in ("session", "document"):
            assert await scratch.fetchval("select forget($1, $2)", [rows[source]], source) == 1
        noted = await column(scratch, "select step_name from agent_execution_logs order by 1")
    assert {"delete agent_memory", "delete conversation_messages", "delete documents"} <= set(noted)
    for table in SOURCES.values():
        assert await scratch.fetchval(f"select count(*) from {table}") == 0


async def test_users_forget_their_own_settings(scratch: asyncpg.Connection) -> None:
    await scratch.execute("insert into memory_settings (user_id) values ($1), ($2)", ANN, BOB)
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval("select forget($1, 'settings')", [ANN, BOB]) == 1
    assert await column(scratch, "select user_id from memory_settings") == [BOB]


@pytest.mark.parametrize("source", ["agents", "command", "knowledge", "agent_memory", "", None])
async def test_an_unknown_source_of_forget_is_refused(
    scratch: asyncpg.Connection, source: str | None
) -> None:
    async with acting_as(scratch, ANN):
        state, message, hint = await refused(scratch, "select forget($1, $2)", [uuid4()], source)
    assert (state, message) == ("22023", f"unknown source {'null' if source is None else repr(source)}")
    assert "session, message, memory, document, chunk, settings" in hint


async def test_forget_without_ids_forgets_nothing(scratch: asyncpg.Connection) -> None:
    await rows_of(scratch, ANN)
    async with acting_as(scratch, ANN):
        for ids in (None, [], [None]):
            assert await scratch.fetchval("select forget($1)", ids) == 0


@pytest.mark.parametrize("role", ["memoryd_admin", "memoryd_user"])
async def test_delete_is_refused_to_users_and_support(scratch: asyncpg.Connection, role: str) -> None:
    await rows_of(scratch, ANN)
    async with acting_as(scratch, ANN, role=role):
        for table in (*SOURCES.values(), "memory_settings"):
            assert (await refused(scratch, f"delete from {table}"))[0] == "42501"
        if role == "memoryd_admin":
            for call in ("forget(array[gen_random_uuid()])", "reset_session(gen_random_uuid())"):
                assert (await refused(scratch, f"select {call}"))[0] == "42501"


async def test_resetting_a_shared_session_deletes_only_the_users_own_messages(
    scratch: asyncpg.Connection,
) -> None:
    session = await insert(scratch, "conversation_sessions", {"agent_id": "alice"})
    for user, words in ((ANN, "ann's"), (BOB, "bob's"), (None, "nobody's")):
        said: dict[str, object] = {"session_id": session, "role": "user", "content": words, "user_id": user}
        await insert(scratch, "conversation_messages", said)
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval("select reset_session($1)", session) == 1
    left = "select content from conversation_messages order by message_index"
    assert await column(scratch, left) == ["bob's", "nobody's"]
    async with acting_as(scratch, None, role="memoryd_service"):
        assert await scratch.fetchval("select reset_session($1)", session) == 2


async def test_the_doctor_reports_roles_with_rights_on_whole_tables(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    """What `grant all on all tables in schema public` does, which tutorials recommend."""
    doctor = Commands(database_url, tmp_path)

    async def found() -> dict[str, str]:
        (check,) = [c for c in (await doctor("doctor", "--json")).json if c["name"] == "table rights"]
        assert isinstance(check, dict)
        return check

    assert (await found())["verdict"] == "ok"
    name = f"client_{uuid4().hex[:8]}"
    await connection.execute(f"create role {name} in role memoryd_user")
    try:
        await connection.execute(
            f"grant all on agent_memory, documents to {name}; grant delete on agents to public"
        )
        wrong = await found()
        assert wrong["verdict"] == "problem"
        assert f"{name}: agent_memory, documents; public: agents" in wrong["found"]
        await connection.execute(wrong["advice"].removeprefix("Run: "))
        assert (await found())["verdict"] == "ok"
        assert await connection.fetchval(
            "select has_column_privilege($1, 'documents', 'title', 'update')", name
        )
    finally:
        await connection.execute(GONE.format(name))


async def test_the_timeouts_that_are_recommended_can_be_set(scratch: asyncpg.Connection) -> None:
    document = (ROOT / "docs" / "operations.md").read_text("utf-8")
    lines = [line.partition(";")[0] for line in document.splitlines() if line.startswith("alter role web ")]
    assert len(lines) == 5
    name = f"client_{uuid4().hex[:8]}"
    new = await scratch.fetchval("select current_setting('server_version_num')::integer >= 170000")
    await scratch.execute(f"create role {name} in role memoryd_user")
    try:
        for line in lines:
            if new or "transaction_timeout" not in line.replace("idle_in_transaction", ""):
                await scratch.execute(line.replace("role web", f"role {name}"))
    finally:
        await scratch.execute(f"drop role {name}")
