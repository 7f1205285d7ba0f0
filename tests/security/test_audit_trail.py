"""The trail of who read what: support cannot search beside it, users cannot forge it, the server's log knows its own lines."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from daemon.db.migration_files import load_sources
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.isolation import index_world
from tests.support.access.refusals import refused
from tests.support.database.logins import login
from tests.support.database.server_log import server_log
from tests.support.rows import insert, remember

ADMIN = UUID(int=0xAD)
TRAIL = "select * from agent_execution_logs where action_type = $1 order by created_at"

ONE = "'{one}'"
REQUEST = "memoryd.recall_request('recall', 'wombat', null, %s, null, 10, '{{%s}}', '{{}}', '{{}}')"
SEARCHES = (
    f"select id from memoryd.find({REQUEST % ('null', '')})",
    *(f"select id from memoryd.find({REQUEST % (ONE, source)})" for source in load_sources()),
    "select * from recall('wombat')",
    "select * from recall('wombat', null, '{one}')",
    "select * from explain_recall('wombat', 'alice')",
    f"select * from memoryd.search({REQUEST % (ONE, 'memory')})",
)


async def trail(connection: asyncpg.Connection, action: str) -> list[asyncpg.Record]:
    """The rows of one action."""
    return list(await connection.fetch(TRAIL, action))


async def seeded(connection: asyncpg.Connection) -> None:
    """A memory of a user's, indexed."""
    await remember(connection, "the wombat sleeps", user_id=ANN)
    await index_world(connection)
    await connection.execute("delete from agent_execution_logs")


# Support.


@pytest.mark.parametrize("search", SEARCHES)
async def test_searches_of_support_are_audited(connection: asyncpg.Connection, search: str) -> None:
    await seeded(connection)
    async with acting_as(connection, ADMIN, role="memoryd_admin"):
        for _ in range(3):
            await connection.fetch(search.format(one=ANN))
    rows = [json.loads(row["input_data"]) for row in await trail(connection, "admin_read")]
    (searched,) = [row for row in rows if row["table"] == "lexeme_statistics"]
    assert (searched["admin"], searched["users"]) == (str(ADMIN), "many")
    assert searched["login"] == await connection.fetchval("select session_user")
    assert "wombat" not in str(rows)


async def test_a_search_that_only_tells_that_memory_is_off_is_audited(connection: asyncpg.Connection) -> None:
    await seeded(connection)
    await connection.execute("insert into memory_settings (user_id, memory_enabled) values ($1, false)", ANN)
    for rows, search in enumerate(SEARCHES, start=1):
        async with acting_as(connection, ADMIN, role="memoryd_admin"):
            await connection.fetch(search.format(one=ANN))
        searched = [
            row for row in await trail(connection, "admin_read") if "lexeme_statistics" in row["input_data"]
        ]
        assert len(searched) == rows, search


@pytest.mark.parametrize("search", SEARCHES)
async def test_searches_of_support_in_a_read_only_transaction_are_refused(
    connection: asyncpg.Connection, search: str
) -> None:
    await seeded(connection)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError, match="reads of memoryd_admin are logged"):
        async with connection.transaction(readonly=True), acting_as(connection, None, role="memoryd_admin"):
            await connection.fetch(search.format(one=ANN))


async def test_searches_of_agents_and_users_make_no_admin_rows(connection: asyncpg.Connection) -> None:
    await seeded(connection)
    for role in ("memoryd_service", "memoryd_user"):
        async with acting_as(connection, ANN, role=role):
            for search in SEARCHES:
                await connection.fetch(search.format(one=ANN))
    assert await trail(connection, "admin_read") == []


async def test_support_cannot_write_its_own_text_into_the_audit(connection: asyncpg.Connection) -> None:
    async with acting_as(connection, ADMIN, role="memoryd_admin"):
        for table in ("bob read this", "agent_memory; drop", "x" * 9000, "pg_class", "agent_memory"):
            await connection.execute("select memoryd.audit_admin_read($1, $2)", table, ANN)
    tables = [json.loads(row["input_data"])["table"] for row in await trail(connection, "admin_read")]
    assert sorted(tables) == ["agent_memory", "unknown"]


# Users.


async def test_an_audit_row_that_a_user_caused_says_so_and_names_no_agent(
    connection: asyncpg.Connection,
) -> None:
    async with acting_as(connection, BOB):
        for user, agent, step, found, ms in (
            (ANN, "alice", "recall", 3, 5),
            (BOB, "alice", "bob stole this", -5, -5),
            (BOB, "alice\n--- forged", "x" * 9000, 2**31 - 1, 2**31 - 1),
            (None, "alice", None, None, None),
        ):
            await connection.execute(
                "select memoryd.audit_read($1, $2, $3, $4, $5)", user, agent, step, found, ms
            )
        await connection.fetch("select * from recall('wombat', 'alice')")
    rows = await trail(connection, "memory_read")
    assert len(rows) == 5
    assert {row["user_id"] for row in rows} == {BOB}
    assert {row["agent_id"] for row in rows} == {None}
    assert {json.loads(row["input_data"])["caller"] for row in rows} == {"user"}
    assert {row["step_name"] for row in rows} == {"recall", "read"}
    assert all(row["execution_time_ms"] in range(86_400_001) for row in rows)
    assert not [row for row in rows if "alice" in str(dict(row)) or "bob" in str(dict(row))]


async def test_an_audit_row_of_an_agents_read_names_the_agent(connection: asyncpg.Connection) -> None:
    await remember(connection, "the wombat sleeps", user_id=ANN)
    async with acting_as(connection, None, role="memoryd_service"):
        await connection.fetch("select * from recall('wombat', 'alice', $1)", ANN)
        await connection.execute("select memoryd.audit_read($1, E'al\\nice\\u202e', 'recall', 3, 5)", ANN)
    rows = await trail(connection, "memory_read")
    assert [(row["agent_id"], json.loads(row["input_data"])["caller"]) for row in rows] == [
        ("alice", "service"),
        ("al ice", "service"),
    ]


# The server's log.


def told(line: str) -> dict[str, Any]:
    """What a line says."""
    said = json.loads(line.partition("memoryd: audit ")[2].rpartition(" mac=")[0])
    assert isinstance(said, dict)
    return said


CHECK = "select memoryd.check_log_line($1)"


async def test_a_signed_audit_line_is_told_apart_from_a_forged_one(
    connection: asyncpg.Connection, admin: asyncpg.Connection, second: asyncpg.Connection, database_url: str
) -> None:
    await remember(connection, "the wombat sleeps", user_id=ANN)
    log = await server_log(second, admin)
    async with acting_as(second, None, role="memoryd_admin"):
        await second.fetch("select * from agent_memory where content like '%wombat%'")
    (line,) = log.audit_lines(second.get_server_pid())
    assert await connection.fetchval(CHECK, line)
    line = line[line.index("memoryd: audit ") :]
    assert await connection.fetchval(CHECK, f"2026-11-20 10:00:00 UTC [77] WARNING:  {line}\n")
    said = told(line)
    assert (said["action"], said["table"], said["user"], said["pid"]) == (
        "admin_read", "agent_memory", str(ANN), second.get_server_pid(),
    )  # fmt: skip
    assert said["transaction"].isdigit()
    assert set(said) == {"action", "table", "admin", "user", "login", "at", "pid", "transaction", "began"}
    async with login(connection, database_url) as (_, attacker):
        for text in (
            line.replace(str(ANN), str(BOB)),
            line.rpartition(" mac=")[0],
            line.rpartition(" mac=")[0] + " mac=" + "0" * 64,
            line.replace(line[-64:], line[-64:][::-1]),
            f"memoryd: admin_read of agent_memory about {ANN} by bob (login bob)",
        ):
            before = len(log.text())
            await attacker.execute("do $do$ begin raise log '%', $said$" + text + "$said$; end $do$")
            mark = f"[{attacker.get_server_pid()}] LOG:  memoryd: "
            (forged,) = [one for one in log.text()[before:].splitlines() if mark in one]
            assert not await connection.fetchval(CHECK, forged)
        for statement in (
            "select memoryd.check_log_line('x')",
            "select memoryd.sign_log('x')",
            "select memoryd.log_audit('{}')",
            "select value from memoryd.settings where key = 'log_key'",
        ):
            for role in ("memoryd_user", "memoryd_admin", "memoryd_service"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    async with acting_as(connection, None, role=role):
                        await connection.execute(statement)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await attacker.execute(statement)


async def test_each_database_has_a_key_of_its_own(connection: asyncpg.Connection) -> None:
    key = await connection.fetchval("select value #>> '{}' from memoryd.settings where key = 'log_key'")
    assert len(bytes.fromhex(key)) == 48
    # RFC 4231, test case 2.
    mac = await connection.fetchval("select memoryd.hmac('Jefe', 'what do ya want for nothing?')")
    assert mac == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"


READS = (
    ("select * from recall('wombat', 'alice', '{one}')", "recall", 1),
    ("select * from explain_recall('wombat', null, '{one}')", "explain_recall", 1),
    ("select * from match_memory('{vector}', -1, 5, null, '{one}')", "match_memory", 1),
    ("select export_user_memory('{one}')", "export", None),
)


@pytest.mark.parametrize(("read", "step", "found"), READS)
@pytest.mark.parametrize("role", ["memoryd_service", "memoryd_user"])
async def test_a_read_in_a_read_only_transaction_is_audited_in_the_servers_log(
    connection: asyncpg.Connection,
    admin: asyncpg.Connection,
    role: str,
    read: str,
    step: str,
    found: int | None,
) -> None:
    await seeded(connection)
    vector = await connection.fetchval("select embedding::text from memoryd.entries")
    log = await server_log(connection, admin)
    async with connection.transaction(readonly=True), acting_as(connection, ANN, role=role):
        rows = await connection.fetch(read.format(one=ANN, vector=vector))
    assert "wombat" in str(rows)
    (line,) = log.audit_lines(connection.get_server_pid())
    # Not the statement either, which holds the question.
    assert "wombat" not in log.text()
    assert await connection.fetchval(CHECK, line)
    said = told(line)
    assert (said["action"], said["step"], said["user"], said["transaction"]) == (
        "memory_read",
        step,
        str(ANN),
        "none",
    )
    assert said["caller"] == role.removeprefix("memoryd_")
    assert found is None or said["found"] == found
    assert await trail(connection, "memory_read") == []


RECORDED = (
    *(read for read, _, _ in READS),
    "select * from search_keys('wombat', agent_id => 'alice', user_id => '{one}')",
    "select * from names_said('{one}')",
    "select * from memory_as_of(now(), user_id => '{one}')",
    "select build_context('alice', 'wake the wombat', '{one}')",
    "select * from explain_context('alice', 'wake the wombat', '{one}')",
)
"""Every read that is on the audit trail."""


@pytest.mark.parametrize("read", RECORDED)
@pytest.mark.parametrize("role", ["memoryd_service", "memoryd_user"])
async def test_no_read_goes_by_the_trail_in_a_read_only_transaction(
    connection: asyncpg.Connection, admin: asyncpg.Connection, role: str, read: str
) -> None:
    """It is a line in the log. Where the server's log would not take the line, nothing is read."""
    await seeded(connection)
    vector = await connection.fetchval("select embedding::text from memoryd.entries")
    # A refused statement stands in the log, where other tests look that no wombat does.
    sql = read.replace("wombat", "sleeps").format(one=ANN, vector=vector)
    log = await server_log(connection, admin)
    async with connection.transaction(readonly=True), acting_as(connection, ANN, role=role):
        await connection.fetch(sql)
    assert len(log.audit_lines(connection.get_server_pid())) == 1
    for level, statements in (("error", "error"), ("log", "error"), ("fatal", "panic"), ("panic", "fatal")):
        await connection.execute(
            f"set log_min_messages = {level}; set log_min_error_statement = {statements}"
        )
        async with connection.transaction(readonly=True), acting_as(connection, ANN, role=role):
            state, said, _ = await refused(connection, sql)
        assert (state, "neither a table nor the log takes it" in said) == ("25006", True), level
        # Where a row can be written the line is not needed.
        async with acting_as(connection, ANN, role=role):
            await connection.fetch(sql)
    assert len(await trail(connection, "memory_read")) == 4
    # A line of level LOG passes.
    await connection.execute("set log_min_messages = log; set log_min_error_statement = panic")
    async with connection.transaction(readonly=True), acting_as(connection, ANN, role=role):
        await connection.fetch(sql)
    assert len(log.audit_lines(connection.get_server_pid())) == 2


@pytest.mark.parametrize("change", ["reset log_min_messages", "set log_min_messages = fatal"])
async def test_nobody_but_a_superuser_can_keep_the_line_out_of_the_log(
    database_url: str, connection: asyncpg.Connection, change: str
) -> None:
    async with login(connection, database_url, role="memoryd_service") as (_, service):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute(change)


async def test_a_context_is_built_in_a_read_only_transaction(
    connection: asyncpg.Connection, admin: asyncpg.Connection
) -> None:
    await seeded(connection)
    log = await server_log(connection, admin)
    async with connection.transaction(readonly=True), acting_as(connection, ANN):
        block = await connection.fetchval("select build_context('alice', 'wake the wombat')")
    assert "the wombat sleeps" in block
    (line,) = log.audit_lines(connection.get_server_pid())
    assert told(line)["step"] == "context"
    # An end user's word for the agent is not put on record as if it had been the agent.
    assert told(line)["agent"] is None


async def test_with_the_audit_off_the_servers_log_has_no_audit_lines(
    connection: asyncpg.Connection, admin: asyncpg.Connection
) -> None:
    await seeded(connection)
    await connection.execute("update memoryd.settings set value = 'false' where key = 'audit'")
    log = await server_log(connection, admin)
    async with connection.transaction(readonly=True):
        await connection.fetch("select * from recall('wombat', null, $1)", ANN)
    assert log.audit_lines(connection.get_server_pid()) == []


async def test_the_caller_does_not_see_the_audit_line(connection: asyncpg.Connection) -> None:
    """Else they could write it again."""
    await remember(connection, "the wombat sleeps", user_id=ANN)
    heard: list[str] = []
    connection.add_log_listener(lambda _connection, message: heard.append(str(message.message)))
    for level in ("debug5", "log", "notice"):
        async with acting_as(connection, None, role="memoryd_admin"):
            await connection.execute(f"set local client_min_messages = {level}")
            assert await connection.fetch("select * from agent_memory")
    assert not [line for line in heard if "mac=" in line]


async def test_requests_of_support_are_refused(connection: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with acting_as(connection, uuid4(), role="memoryd_admin"):
            await insert(connection, "memory_requests", {"kind": "recall", "query": "wombat"})
