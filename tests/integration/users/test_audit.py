"""Who read and wrote a user's memory is on record: without a word of it, and not to be forged."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from daemon.db.settings import write_settings
from daemon.settings import load_settings
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.users import whole_user
from tests.support.database.server_log import server_log
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import ask, associate, column, insert, remember
from tests.support.waiting import IDLE, READY, until

LOGS = "select * from agent_execution_logs where action_type = $1 order by created_at, user_id, step_name"


async def logged(connection: asyncpg.Connection, action: str) -> list[tuple[UUID | None, str | None, Any]]:
    """User, agent and data of the rows of one action."""
    rows = await connection.fetch(LOGS, action)
    return [(r["user_id"], r["agent_id"], json.loads(r["input_data"] or r["output_data"])) for r in rows]


def wrote(table: str, operation: str, count: int) -> dict[str, Any]:
    """What is logged of a statement."""
    return {"table": table, "operation": operation, "count": count}


async def off(connection: asyncpg.Connection) -> None:
    """Turns the audit off."""
    await write_settings(connection, load_settings(audit_days=0))


# Writes.


async def test_a_write_statement_is_audited_once_for_each_user_and_agent(scratch: asyncpg.Connection) -> None:
    await scratch.execute(
        "insert into agent_memory (agent_id, user_id, content) "
        "select case n % 3 when 0 then 'bob' else 'alice' end, case n % 2 when 0 then $1 else $2::uuid end, 'secret ' || n "
        "from generate_series(1, 12) n union all select 'alice', null, 'nobody''s'", ANN, BOB,
    )  # fmt: skip
    assert sorted(await logged(scratch, "memory_write"), key=str) == sorted(
        ((user, agent, wrote("agent_memory", "insert", count))
         for user in (ANN, BOB) for agent, count in (("alice", 4), ("bob", 2))), key=str,
    )  # fmt: skip
    (row,) = await scratch.fetch(
        "select * from agent_execution_logs where user_id = $1 and agent_id = 'bob'", ANN
    )
    assert (row["session_id"], row["status"], row["step_name"]) == (None, "success", "insert agent_memory")
    assert "secret" not in str(dict(row))


async def test_every_write_to_every_table_of_users_is_audited(scratch: asyncpg.Connection) -> None:
    session = uuid4()
    await insert(scratch, "conversation_messages",
                 {"session_id": session, "user_id": ANN, "agent_id": "alice", "role": "user", "content": "x"})  # fmt: skip
    await insert(scratch, "documents", {"user_id": ANN, "title": "x"})
    await remember(scratch, "x", user_id=ANN)
    await scratch.execute("update agent_memory set metadata = '{\"a\": 1}'")
    await scratch.execute("update conversation_messages set content = 'y'")
    await scratch.execute("update documents set title = 'y'")
    for table in ("agent_memory", "conversation_messages", "documents"):
        await scratch.execute(f"delete from {table}")
    assert {
        (data["table"], data["operation"], agent) for _, agent, data in await logged(scratch, "memory_write")
    } == {
        (table, operation, None if table == "documents" else "alice")
        for table in ("agent_memory", "conversation_messages", "documents")
        for operation in ("insert", "update", "delete")
    }


async def test_derived_columns_that_memoryd_writes_are_not_audited(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await remember(connection, "x", user_id=ANN)
    await insert(connection, "conversation_messages",
                 {"session_id": uuid4(), "user_id": ANN, "role": "user", "content": "a lamp"})  # fmt: skip
    await insert(connection, "documents", {"user_id": ANN, "title": "x"})
    await until(connection, IDLE)
    await connection.execute("update agent_memory set content = content")
    await connection.execute("update documents set status = 'active'")
    operations = [data["operation"] for _, _, data in await logged(connection, "memory_write")]
    assert operations == ["insert"] * 3


async def test_a_captured_outcome_is_audited_as_a_write(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await ask(connection, "x", user_id=ANN, status="completed")
    await until(connection, IDLE)
    assert await logged(connection, "memory_write") == [(ANN, "alice", wrote("agent_memory", "insert", 1))]


async def test_statements_without_users_are_not_audited(scratch: asyncpg.Connection) -> None:
    await remember(scratch, "x")
    await scratch.execute(
        "insert into agent_memory (agent_id, user_id, content) select 'a', $1, 'x' where false", ANN
    )
    await scratch.execute("delete from agent_memory")
    assert await scratch.fetchval("select count(*) from agent_execution_logs") == 0


async def test_the_audit_can_be_turned_off(scratch: asyncpg.Connection) -> None:
    await off(scratch)
    await remember(scratch, "x", user_id=ANN)
    await scratch.execute("select memoryd.audit_read($1, 'alice', 'recall', 3, 4)", ANN)
    assert await scratch.fetchval("select count(*) from agent_execution_logs") == 0


# Reads.


async def test_a_read_is_audited_with_caller_and_count(scratch: asyncpg.Connection) -> None:
    await scratch.execute(
        "select memoryd.audit_read($1, 'alice', 'recall', 3, 4), memoryd.audit_read(null, 'a', 'b', 1, 1)",
        ANN,
    )
    (row,) = await scratch.fetch("select * from agent_execution_logs")
    assert (row["user_id"], row["agent_id"], row["step_name"], row["action_type"]) == (
        ANN,
        "alice",
        "recall",
        "memory_read",
    )
    assert (json.loads(row["output_data"]), row["execution_time_ms"], row["input_data"]) == (
        {"found": 3},
        4,
        '{"caller": "service"}',
    )


async def test_unusual_arguments_of_note_read_are_no_error(scratch: asyncpg.Connection) -> None:
    for agent, step, count, ms in (
        (None, None, None, None),
        ("a" * 900, " ", -1, -1),
        ("a", "s" * 900, 2**31 - 1, 0),
    ):
        await scratch.execute("select memoryd.audit_read($1, $2, $3, $4, $5)", ANN, agent, step, count, ms)
    assert await scratch.fetchval("select count(*) from agent_execution_logs") == 3


async def test_users_audit_reads_of_themselves_only(scratch: asyncpg.Connection) -> None:
    for role in ("memoryd_user", "memoryd_admin"):
        async with acting_as(scratch, BOB, role=role):
            for named in (ANN, BOB, None):
                await scratch.execute("select memoryd.audit_read($1, 'alice', 'recall', 3, 4)", named)
    for claims in (None, "{}", '{"sub": 1}', "no json"):
        async with acting_as(scratch, None, claims=claims):
            await scratch.execute("select memoryd.audit_read($1, 'alice', 'recall', 3, 4)", ANN)
    assert set(await column(scratch, "select user_id from agent_execution_logs")) == {BOB}
    assert await scratch.fetchval("select count(*) from agent_execution_logs") == 6


async def test_users_read_the_audit_rows_about_them_and_write_none(scratch: asyncpg.Connection) -> None:
    await remember(scratch, "x", user_id=ANN)
    await remember(scratch, "x", user_id=BOB)
    async with acting_as(scratch, ANN):
        assert await column(scratch, "select user_id from agent_execution_logs") == [ANN]
    for statement in (
        "insert into agent_execution_logs (user_id, step_name, action_type) values ($1, 'x', 'memory_read')",
        "update agent_execution_logs set step_name = 'y' where user_id = $1",
        "delete from agent_execution_logs where user_id = $1",
        "select memoryd.sweep_audit(0) where $1::uuid is not null",
        "select memoryd.audit_admin_read('agent_memory', $1)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with acting_as(scratch, ANN):
                await scratch.execute(statement, ANN)


async def test_reads_work_in_a_read_only_transaction(connection: asyncpg.Connection) -> None:
    await remember(connection, "the lamp is lit", user_id=ANN)
    async with connection.transaction(readonly=True):
        await connection.execute("select memoryd.audit_read($1, 'alice', 'recall', 3, 4)", ANN)
        assert json.loads(await connection.fetchval("select export_user_memory($1)", ANN))["tables"][
            "agent_memory"
        ]
    assert await logged(connection, "memory_read") == []


async def test_contexts_and_exports_are_audited_as_reads(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    await remember(connection, "the lamp is lit", user_id=ANN)
    await remember(connection, "the lamp is out")
    for user in (ANN, None):
        command = await ask(connection, "see to the lamp", user_id=user)
        await until(connection, READY, command)
    await connection.execute("select export_user_memory($1)", ANN)
    rows = await connection.fetch(LOGS, "memory_read")
    assert [(r["user_id"], r["step_name"]) for r in rows] == [(ANN, "context"), (ANN, "export")]
    assert json.loads(rows[0]["output_data"]) == {"found": 2}
    assert not any("lamp" in str(dict(r)) for r in rows)


async def test_old_audit_rows_are_swept_and_the_agents_steps_stay(scratch: asyncpg.Connection) -> None:
    for action in ("memory_read", "memory_write", "admin_read", "tool_call", "decision"):
        await scratch.execute(
            "insert into agent_execution_logs (user_id, step_name, action_type, created_at) "
            "select $1, 'x', $2, now() - d * interval '1 day' from unnest(array[1, 40]) d", ANN, action,
        )  # fmt: skip
    assert await scratch.fetchval("select memoryd.sweep_audit(30)") == 3
    left = await column(
        scratch, "select action_type from agent_execution_logs where created_at < now() - interval '2 days'"
    )
    assert set(left) == {"tool_call", "decision"}


# Support.


async def test_an_admins_reads_are_audited(scratch: asyncpg.Connection) -> None:
    for user in (ANN, ANN, BOB, None):
        await remember(scratch, "x", user_id=user)
    admin = uuid4()
    async with acting_as(scratch, admin, role="memoryd_admin"):
        for _ in range(3):
            assert await scratch.fetchval("select count(*) from agent_memory where user_id = $1", ANN) == 2
        assert await scratch.fetchval("select count(*) from agent_memory where user_id is null") == 1
    ((user, _, data),) = await logged(scratch, "admin_read")
    assert (user, data["admin"], data["table"]) == (ANN, str(admin), "agent_memory")
    assert data["login"] == await scratch.fetchval("select session_user")
    async with acting_as(scratch, None, role="memoryd_admin"):
        assert await scratch.fetchval("select count(*) from agent_memory") == 4
    assert {(u, d["admin"]) for u, _, d in await logged(scratch, "admin_read")} == {
        (ANN, str(admin)),
        (BOB, data["login"]),
    }


async def test_users_see_who_read_them(scratch: asyncpg.Connection) -> None:
    await remember(scratch, "x", user_id=ANN)
    async with acting_as(scratch, BOB, role="memoryd_admin"):
        await scratch.fetch("select * from agent_memory")
    async with acting_as(scratch, ANN):
        (row,) = await scratch.fetch(LOGS, "admin_read")
    assert json.loads(row["input_data"])["admin"] == str(BOB)


async def test_an_admin_reads_every_table_of_users_and_each_read_is_audited(
    connection: asyncpg.Connection,
) -> None:
    ids = await whole_user(connection, ANN, "wombat")
    await connection.execute("delete from agent_execution_logs where action_type <> 'tool_call'")
    tables = await column(
        connection, "select name from memoryd.user_tables() where name <> 'shared_knowledge'"
    )
    for table in tables:
        async with acting_as(connection, None, role="memoryd_admin"):
            assert await connection.fetch(f"select * from {table}"), table
        assert (ANN, table) in {(u, d["table"]) for u, _, d in await logged(connection, "admin_read")}
    assert set(ids) <= set(map(str, tables)) | {"shared_knowledge"}
    async with acting_as(connection, None, role="memoryd_admin"):
        for table in (
            "agents",
            "dream_sessions",
            "chat_groups",
            "shared_knowledge",
            "shared_memory",
            "conversation_history",
        ):
            await connection.fetch(f"select * from {table}")


async def test_rows_seen_by_a_filter_function_are_audited(connection: asyncpg.Connection) -> None:
    """A condition of the admin's own sees no row before it is on record."""
    await remember(connection, "wombat", user_id=ANN)
    await connection.execute("create schema spy; grant all on schema spy to memoryd_admin")
    async with acting_as(connection, None, role="memoryd_admin"):
        await connection.execute(
            "create function spy.peek(text) returns boolean language plpgsql cost 0.0001 as "
            "$$ begin raise notice '%', $1; return false; end $$"
        )
        assert await connection.fetch("select * from agent_memory where spy.peek(content)") == []
    assert [(u, d["table"]) for u, _, d in await logged(connection, "admin_read")] == [(ANN, "agent_memory")]


async def test_an_admins_settings_do_not_switch_the_audit_off(connection: asyncpg.Connection) -> None:
    await remember(connection, "wombat", user_id=ANN)
    await off(connection)
    async with acting_as(connection, ANN, role="memoryd_admin"):
        # As the user themselves, with the audit off, with every setting that comes to mind.
        for setting in ("noted", "admin_noted", "importing", "audit"):
            await connection.execute(f"set local memoryd.{setting} = 'on'")
        await connection.execute("set local search_path = pg_temp; set local client_min_messages = error")
        assert len(await connection.fetch("select * from public.agent_memory")) == 1
    ((user, _, data),) = await logged(connection, "admin_read")
    assert (user, data["login"]) == (ANN, await connection.fetchval("select session_user"))


async def test_a_read_of_many_users_is_audited_in_one_row_beyond_a_hundred(
    scratch: asyncpg.Connection,
) -> None:
    await scratch.execute(
        "insert into agent_memory (agent_id, user_id, content) "
        "select 'alice', gen_random_uuid(), 'x' from generate_series(1, 500)"
    )
    async with acting_as(scratch, None, role="memoryd_admin"):
        assert await scratch.fetchval("select count(*) from agent_memory") == 500
        assert await scratch.fetchval("select count(*) from agent_memory") == 500
    rows = await logged(scratch, "admin_read")
    assert len(rows) == 101
    assert [d["users"] for u, _, d in rows if u is None] == ["many"]


async def test_an_admin_reads_no_row_of_a_user_in_a_read_only_transaction(
    connection: asyncpg.Connection,
) -> None:
    await whole_user(connection, ANN, "wombat")
    tables = await column(
        connection, "select name from memoryd.user_tables() where name <> 'shared_knowledge'"
    )
    for table in tables:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError, match="reads of memoryd_admin are logged"):
            async with (
                connection.transaction(readonly=True),
                acting_as(connection, None, role="memoryd_admin"),
            ):
                await connection.fetch(f"select * from {table}")


async def test_a_rolled_back_admin_read_is_in_the_servers_log(
    connection: asyncpg.Connection, admin: asyncpg.Connection
) -> None:
    await remember(connection, "wombat", user_id=ANN)
    log = await server_log(connection, admin)
    transaction = connection.transaction()
    await transaction.start()
    async with acting_as(connection, BOB, role="memoryd_admin"):
        assert len(await connection.fetch("select * from agent_memory")) == 1
    await transaction.rollback()
    login = await connection.fetchval("select session_user")
    assert await logged(connection, "admin_read") == []
    (line,) = log.audit_lines(connection.get_server_pid())
    said = json.loads(line.partition("memoryd: audit ")[2].rpartition(" mac=")[0])
    assert (said["action"], said["table"], said["user"], said["admin"], said["login"]) == (
        "admin_read", "agent_memory", str(ANN), str(BOB), login,
    )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "insert into agent_memory (agent_id, content) values ('a', 'x')",
        "update agent_memory set content = 'y'",
        "delete from agent_memory",
        "truncate agent_memory",
        "delete from agent_execution_logs",
        "insert into agent_execution_logs (step_name, action_type) values ('x', 'admin_read')",
        "insert into memory_requests (kind, query) values ('recall', 'x')",
        "update memory_settings set memory_enabled = false",
        "insert into user_memory_access (user_id) values (gen_random_uuid())",
        "select claim_command('alice')",
        "select mark_useful(gen_random_uuid(), true)",
        "select cleanup_expired_memory()",
        "select build_context('alice', 'x')",
        "select reset_session(gen_random_uuid())",
        "select * from memoryd.settings",
        "update memoryd.settings set value = 'false'",
        "select memoryd.sweep_audit(0)",
        "select memoryd.import_rows(null, null, 'agent_memory', '[]')",
        "select memoryd.user_rows(gen_random_uuid(), 'agent_memory')",
        "set local role memoryd_service",
    ],
)
async def test_an_admin_writes_nothing(admin_scratch: asyncpg.Connection, statement: str) -> None:
    """Only a superuser may be another login for a while."""
    await remember(admin_scratch, "x", user_id=ANN)
    grantee = f"admin_{uuid4().hex[:8]}"
    await admin_scratch.execute(
        f"create role {grantee}; grant memoryd_admin to {grantee}; set local session authorization {grantee}"
    )
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with admin_scratch.transaction():
            await admin_scratch.execute(statement)


async def test_an_admins_recall_is_audited(connection: asyncpg.Connection) -> None:
    one = await remember(connection, "the lamp is lit", user_id=ANN, kind="fact")
    other = await remember(connection, "no lamp, no light", user_id=ANN, kind="fact")
    await associate(connection, one, other, 0.5)
    async with acting_as(connection, None, role="memoryd_admin"):
        found = await column(connection, "select id from recall('lamp')")
    assert set(found) == {one, other}
    assert (ANN, "agent_memory") in {(u, d["table"]) for u, _, d in await logged(connection, "admin_read")}
