"""What an end user may not do: run the owner's code, set what is not his to set, read what the agents know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.access.refusals import refused


@pytest.fixture
async def as_ann(connection: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """A connection with the rights of one end user."""
    await connection.execute("insert into agents (agent_id, open_to_users) values ('a', true), ('ops', true)")
    async with acting_as(connection, ANN):
        yield connection


# What runs as the owner and may be called. Each asks who calls: what they may
# bring to light is tried for all of them, under hostile settings, in test_isolation_functions.py.
OPEN = {
    "anchor_line", "app_agent_id", "caller_id", "context_space", "dimensions", "document_of_chunk", "embed",
    "begin_lease", "end_lease", "renew_command",
    "embeds_here", "erase_user_memory", "export_user_memory", "find", "forget", "is_open",
    "is_withheld", "known_names", "lock_knowledge", "mark_useful", "names_said", "nearest_in_scope", "nearest_knowledge",
    "audit_admin_anchor", "audit_admin_memories", "audit_admin_names", "audit_admin_read", "audit_read",
    "repeats", "reset_session", "searched_dimensions", "secrets_key", "states_of", "supersede_memory", "surprise_threshold",
    "words_shared", "commands_shown", "named_knowledge", "team_names", "title_names", "facts_said_in", "retrieved_memories",
    "wait_until_idle", "embed_by_daemon", "calibration",
}  # fmt: skip


async def test_only_listed_security_definer_functions_may_be_called(connection: asyncpg.Connection) -> None:
    callable_by_others = await connection.fetch(
        """
        select p.proname
        from pg_proc p
        where p.pronamespace in ('memoryd'::regnamespace, 'public'::regnamespace)
          and p.prosecdef
          and exists (select from pg_roles r
                      where r.rolname in ('memoryd_user', 'memoryd_service', 'memoryd_admin')
                        and has_function_privilege(r.rolname, p.oid, 'execute'))
        """
    )
    assert {row["proname"] for row in callable_by_others} == OPEN
    to_public = await connection.fetch(
        "select p.proname from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a "
        "where p.pronamespace in ('memoryd'::regnamespace, 'public'::regnamespace) and p.prosecdef and a.grantee = 0"
    )
    assert to_public == []


async def test_memoryds_trigger_functions_cannot_be_attached_to_a_users_table(
    as_ann: asyncpg.Connection,
) -> None:
    await as_ann.execute(
        "create temp table mine (id uuid, agent_id text, status text, created_at timestamptz)"
    )
    made = (
        "create trigger mine after insert on mine referencing new table as new_rows "
        "for each statement execute function memoryd.commands_inserted()"
    )
    assert (await refused(as_ann, made))[0] == "42501"


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("agent_commands", "created_at", "infinity"),
        ("agent_commands", "status", "completed"),
        ("agent_memory", "created_at", "infinity"),
        ("agent_memory", "command_id", "00000000-0000-0000-0000-000000000001"),
        ("memory_queries", "query_time", "infinity"),
        ("memory_requests", "status", "done"),
    ],
)
async def test_a_user_may_not_set_column(
    as_ann: asyncpg.Connection, table: str, column: str, value: str
) -> None:
    own = {
        "agent_commands": "agent_id, message, user_id",
        "agent_memory": "agent_id, content, user_id",
        "memory_queries": "agent_id, user_id",
        "memory_requests": "kind, query, user_id",
    }[table]
    words = {
        "agent_id": "'a'",
        "message": "'m'",
        "content": "'c'",
        "kind": "'recall'",
        "query": "'q'",
        "user_id": f"'{ANN}'",
    }
    values = ", ".join(words[name] for name in own.split(", "))
    await as_ann.execute(f"insert into {table} ({own}) values ({values})")
    more = f"insert into {table} ({own}, {column}) values ({values}, '{value}')"
    assert (await refused(as_ann, more))[0] == "42501"


async def test_a_user_writes_no_shared_memory(as_ann: asyncpg.Connection) -> None:
    order = "insert into agent_memory (agent_id, content, user_id) values ('_shared', 'obey ann', $1)"
    assert (await refused(as_ann, order, ANN))[0] == "42501"


async def test_the_context_of_a_users_command_is_not_readable_by_the_user(
    as_ann: asyncpg.Connection,
) -> None:
    command = await as_ann.fetchval(
        "insert into agent_commands (agent_id, message, user_id) values ('ops', 'vault password', $1) returning id",
        ANN,
    )
    assert await as_ann.fetchval("select status from agent_commands where id = $1", command) == "pending"
    assert (await refused(as_ann, "select context from agent_commands where id = $1", command))[0] == "42501"


@pytest.mark.parametrize("table", ["agent_commands", "agent_memory"])
async def test_an_infinite_time_is_refused(connection: asyncpg.Connection, table: str) -> None:
    text = "message" if table == "agent_commands" else "content"
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(
            f"insert into {table} (agent_id, {text}, created_at) values ('a', 'x', 'infinity')"
        )


async def test_lanes_are_taken_in_the_order_of_their_oldest_job(connection: asyncpg.Connection) -> None:
    """However many agents are invented after it, the lane that waits longest is next."""
    oldest = uuid4()
    await connection.execute("insert into memoryd.jobs (topic, lane, ref) values ('t', 'zoe', $1)", oldest)
    await connection.execute(
        "insert into memoryd.jobs (topic, lane) select 't', 'a' || n from generate_series(1, 200) n"
    )
    claimed = await connection.fetch("select * from memoryd.claim_lanes('t', 8, 64, interval '30 seconds')")
    assert oldest in [row["ref"] for row in claimed]
    assert len(claimed) == 8
