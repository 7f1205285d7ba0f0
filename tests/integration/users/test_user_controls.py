"""What users decide about their memory: whether there is one, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.users import decide
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import ask, column, insert, one_row, remember
from tests.support.waiting import IDLE, READY, until

# Settings.


async def test_users_write_only_their_own_settings(scratch: asyncpg.Connection) -> None:
    async with acting_as(scratch, ANN):
        await decide(scratch, ANN, memory_enabled=False, memory_ttl_hours=12)
        await decide(scratch, ANN, memory_enabled=True)
    async with acting_as(scratch, BOB):
        assert await column(scratch, "select user_id from memory_settings") == []
        assert await scratch.execute("update memory_settings set memory_enabled = false") == "UPDATE 0"
        assert await scratch.fetchval("select forget($1, 'settings')", [ANN]) == 0
    for user in (BOB, None):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with acting_as(scratch, user):
                await decide(scratch, ANN, memory_enabled=False)
    for statement in (
        "update memory_settings set user_id = $1",
        "update memory_settings set created_at = now()",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with acting_as(scratch, ANN):
                await scratch.execute(statement, *([BOB] if "$1" in statement else []))
    row = await one_row(scratch, "select * from memory_settings")
    assert (row["user_id"], row["memory_enabled"], row["memory_ttl_hours"]) == (ANN, True, 12)
    assert row["updated_at"] > row["created_at"]


@pytest.mark.parametrize(
    "name", ["memory_ttl_hours", "task_memory_ttl_hours", "conversation_retention_minutes"]
)
@pytest.mark.parametrize("value", [0, -1, 2**31 - 1])
async def test_a_retention_time_outside_the_bounds_is_refused(
    scratch: asyncpg.Connection, name: str, value: int
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=f"{name} is {value}"):
        await decide(scratch, ANN, **{name: value})


# How long: the default, the user's hours, and a limit to whatever is asked for.


@pytest.mark.parametrize(
    ("columns", "hours"),
    [
        ({"kind": "outcome"}, 12),
        ({"kind": "fact"}, 12),
        ({"kind": "fact", "ttl_hours": None}, 12),
        ({"kind": "fact", "ttl_hours": 100}, 12),
        ({"kind": "fact", "ttl_hours": 3}, 3),
        ({"memory_type": "task_memory"}, 200),
        ({"memory_type": "task_memory", "ttl_hours": 300}, 200),
    ],
)
async def test_a_users_ttl_replaces_a_longer_default(
    scratch: asyncpg.Connection, columns: dict[str, object], hours: int
) -> None:
    await decide(scratch, ANN, memory_ttl_hours=12, task_memory_ttl_hours=200)
    memory = await remember(scratch, "a", user_id=ANN, **columns)
    row = await one_row(
        scratch, "select ttl_hours, expires_at - now() as left from agent_memory where id = $1", memory
    )
    assert (row["ttl_hours"], row["left"]) == (hours, timedelta(hours=hours))
    for somebody in (BOB, None):
        other = await remember(scratch, "a", user_id=somebody, kind="fact")
        assert await scratch.fetchval("select expires_at from agent_memory where id = $1", other) is None


async def test_a_users_longer_ttl_replaces_shorter_defaults(scratch: asyncpg.Connection) -> None:
    await decide(scratch, ANN, memory_ttl_hours=1000)
    memory = await remember(scratch, "a", user_id=ANN, kind="outcome")
    assert await scratch.fetchval("select ttl_hours from agent_memory where id = $1", memory) == 1000


async def test_an_expiry_cannot_be_moved_beyond_the_users_ttl(scratch: asyncpg.Connection) -> None:
    await decide(scratch, ANN, memory_ttl_hours=12)
    late = datetime.now(UTC) + timedelta(days=900)
    memory = await remember(scratch, "a", user_id=ANN, expires_at=late)
    for change in ("expires_at = $2", "ttl_hours = 5000", "ttl_hours = null, expires_at = null"):
        await scratch.execute(f"update agent_memory set {change} where id = $1 or $2 < now()", memory, late)
        left = await scratch.fetchval("select expires_at - now() from agent_memory where id = $1", memory)
        assert left == timedelta(hours=12)
    sooner = datetime.now(UTC) + timedelta(hours=1)
    await scratch.execute("update agent_memory set expires_at = $2 where id = $1", memory, sooner)
    assert await scratch.fetchval("select expires_at from agent_memory where id = $1", memory) == sooner


async def test_a_bad_ttl_is_still_refused(scratch: asyncpg.Connection) -> None:
    await decide(scratch, ANN, memory_ttl_hours=12)
    with pytest.raises(asyncpg.CheckViolationError, match="ttl_hours is -3"):
        await remember(scratch, "a", user_id=ANN, ttl_hours=-3)


async def test_a_shorter_ttl_applies_to_existing_memories(scratch: asyncpg.Connection) -> None:
    wanted: dict[str, dict[str, object]] = {
        "outcome": {"user_id": ANN, "kind": "outcome"},
        "fact": {"user_id": ANN, "kind": "fact"},
        "short": {"user_id": ANN, "ttl_hours": 2},
        "task": {"user_id": ANN, "memory_type": "task_memory"},
        "other": {"user_id": BOB, "kind": "fact"},
        "nobody's": {"kind": "fact"},
    }
    made = {name: await remember(scratch, name, **columns) for name, columns in wanted.items()}

    async def hours() -> dict[str, int | None]:
        rows = await scratch.fetch(
            "select id, extract(epoch from expires_at - updated_at) / 3600 as h from agent_memory"
        )
        ends = {r["id"]: r["h"] for r in rows}
        return {name: None if ends[i] is None else round(ends[i]) for name, i in made.items()}

    before = await hours()
    assert before == {"outcome": 72, "fact": None, "short": 2, "task": 2160, "other": None, "nobody's": None}
    await decide(scratch, ANN, conversation_retention_minutes=5)
    assert await hours() == before
    await decide(scratch, ANN, memory_ttl_hours=24)
    shorter = before | {"outcome": 24, "fact": 24}
    assert await hours() == shorter
    await decide(scratch, ANN, task_memory_ttl_hours=48)
    assert await hours() == shorter | {"task": 48}
    # Longer ones bring no older end back; deleting the settings does not either.
    await decide(scratch, ANN, memory_ttl_hours=5000)
    await scratch.execute("delete from memory_settings")
    assert await hours() == shorter | {"task": 48}


# No memory.

DROPPED = {
    "agent_memory": "insert into agent_memory (agent_id, user_id, content) values ('alice', $1, 'x')",
    "agent_memory, permanent":
        "insert into agent_memory (agent_id, user_id, content, ttl_hours) values ('alice', $1, 'x', null)",
    "conversation_messages":
        "insert into conversation_messages (session_id, user_id, role, content) values (gen_random_uuid(), $1, 'user', 'x')",
    "conversation_history":
        "insert into conversation_history (session_id, user_id, speaker, message_text) "
        "values (gen_random_uuid(), $1, 'user', 'x')",
    "documents": "insert into documents (user_id, title) values ($1, 'x')",
    "memory_queries": "insert into memory_queries (agent_id, user_id) values ('alice', $1)",
    "dream_insights":
        "insert into dream_insights (user_id, insight, source_memories, category, confidence) "
        "values ($1, 'x', '{}', 'pattern', 1)",
    "agent_execution_logs":
        "insert into agent_execution_logs (user_id, step_name, action_type) values ($1, 'x', 'memory_write')",
}  # fmt: skip


@pytest.mark.parametrize("door", DROPPED)
async def test_nothing_is_kept_of_a_user_with_memory_off(scratch: asyncpg.Connection, door: str) -> None:
    table = door.split(",", maxsplit=1)[0]
    await decide(scratch, ANN, memory_enabled=False)
    await decide(scratch, BOB, memory_enabled=True)
    await scratch.execute(DROPPED[door], ANN)
    if table not in ("dream_insights", "agent_execution_logs"):
        async with acting_as(scratch, ANN):
            wanting = await scratch.fetchval(
                "select has_any_column_privilege('memoryd_user', to_regclass($1), 'insert')", table
            )
            if wanting:
                await scratch.execute(DROPPED[door].replace(", ttl_hours", "").replace(", null", ""), ANN)
    assert await scratch.fetchval(f"select count(*) from {table} where user_id = $1", ANN) == 0
    assert await scratch.fetchval("select count(*) from conversation_sessions") == 0
    for somebody in (BOB, uuid4()):
        await scratch.execute(DROPPED[door], somebody)
        assert await scratch.fetchval(f"select count(*) from {table} where user_id = $1", somebody) >= 1
    await decide(scratch, ANN, memory_enabled=True)
    await scratch.execute(DROPPED[door], ANN)
    assert await scratch.fetchval(f"select count(*) from {table} where user_id = $1", ANN) >= 1


async def test_an_agents_messages_to_a_user_with_memory_off_are_not_kept(scratch: asyncpg.Connection) -> None:
    session = await insert(scratch, "conversation_sessions", {"user_id": ANN})
    document = await insert(scratch, "documents", {"user_id": ANN, "title": "x"})
    await decide(scratch, ANN, memory_enabled=False)
    await scratch.execute(
        "insert into conversation_messages (session_id, role, content) values ($1, 'assistant', 'x')", session
    )
    await scratch.execute(
        "insert into memory_chunks (document_id, chunk_index, chunk_text) values ($1, 0, 'x')", document
    )
    async with acting_as(scratch, ANN):
        # Of a document that was dropped.
        await scratch.execute(
            "insert into memory_chunks (document_id, chunk_index, chunk_text) values (gen_random_uuid(), 0, 'x')"
        )
    for table in ("conversation_messages", "memory_chunks"):
        assert await scratch.fetchval(f"select count(*) from {table}") == 0


async def test_only_rows_of_users_with_memory_off_are_dropped_from_a_statement(
    scratch: asyncpg.Connection,
) -> None:
    await decide(scratch, ANN, memory_enabled=False)
    status = await scratch.execute(
        "insert into agent_memory (agent_id, user_id, content) "
        "select 'alice', case n % 2 when 0 then $1::uuid else $2::uuid end, 'note ' || n from generate_series(1, 100) n",
        ANN, BOB,
    )  # fmt: skip
    assert status == "INSERT 0 50"


async def test_commands_of_a_user_with_memory_off_still_run(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    """Commands run with empty contexts and leave nothing; what was there before is hidden, and comes back."""
    await remember(connection, "the deploy password is under the doormat", user_id=ANN, kind="fact")
    await until(connection, IDLE)
    await connection.execute("delete from memory_queries")

    async def deploy() -> str:
        command = await ask(connection, "deploy with the password", user_id=ANN)
        await until(connection, READY, command)
        await connection.execute("select claim_command('alice')")
        await connection.execute("select complete_command($1, 'deployed')", command)
        await until(connection, IDLE)
        context: str = await connection.fetchval("select context from agent_commands where id = $1", command)
        return context

    await decide(connection, ANN, memory_enabled=False)
    assert await deploy() == ""
    assert await connection.fetchval("select count(*) from agent_memory") == 1
    assert await connection.fetchval("select count(*) from memory_queries") == 0
    async with acting_as(connection, ANN):
        assert await connection.fetchval("select build_context('alice', 'deploy password')") == ""
    request = await insert(connection, "memory_requests",
                           {"kind": "context", "agent_id": "alice", "user_id": ANN, "query": "deploy password"})  # fmt: skip
    await until(
        connection, "select status = 'done' and result = '\"\"' from memory_requests where id = $1", request
    )
    assert await connection.fetchval("select count(*) from memoryd.dead_letters") == 0

    await decide(connection, ANN, memory_enabled=True)
    assert "under the doormat" in await deploy()
    assert await connection.fetchval("select count(*) from agent_memory") == 2


async def test_memory_is_off_only_where_memory_enabled_is_false(scratch: asyncpg.Connection) -> None:
    off = "select memoryd.memory_is_off($1)"
    assert [await scratch.fetchval(off, user) for user in (ANN, None)] == [False, False]
    await decide(scratch, ANN, memory_ttl_hours=5)
    assert await scratch.fetchval(off, ANN) is False
    await decide(scratch, ANN, memory_enabled=False)
    assert [await scratch.fetchval(off, user) for user in (ANN, BOB, None)] == [True, False, False]
    async with acting_as(scratch, ANN):
        assert await scratch.fetchval(off, ANN) is True
    async with acting_as(scratch, BOB):
        assert await scratch.fetchval(off, ANN) is False
