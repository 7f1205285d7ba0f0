"""What an end user may see and change: their own rows, in every table and through every function; else nothing."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import pytest

from daemon.db.migration_files import load_sources
from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.content.index import INDEXED_MEMORIES
from tests.support.processes.daemons import DaemonProcess
from tests.support.rows import ask, associate, column, insert, one_row, remember
from tests.support.waiting import IDLE, until

READABLE = ["agent_commands", "agent_memory", "dream_insights", "memory_queries", "memory_requests"]
NAMELESS = [
    None,
    "",
    "null",
    "{}",
    '{"sub": null}',
    '{"sub": ""}',
    '{"sub": "admin"}',
    '{"sub": "00000000-0000-0000-0000-00000000000"}',
    f'{{"sub": {{"id": "{ANN}"}}}}',
    f'["{ANN}"]',
    f'{{"user_id": "{ANN}"}}',
    f"{{sub: {ANN}",
    "' or true --",
    '{"sub": "00000000-0000-0000-0000-000000000009"}',
]
"""Claims that name no user who has rows."""


async def rows_of(connection: asyncpg.Connection, user: UUID | None) -> dict[str, UUID]:
    """One row in each table that has users, and two linked memories."""
    one = await remember(connection, f"the secret recipe of {user}", user_id=user)
    two = await remember(connection, f"another secret recipe of {user}", user_id=user, agent_id="_shared")
    owner: dict[str, object] = {"user_id": user, "agent_id": "alice"}
    query = owner | {"retrieved_memory_ids": [one, two]}
    request = owner | {"kind": "recall", "query": "q", "status": "done"}
    insight = owner | {"insight": f"recipe of {user}", "source_memories": [one, two]}
    insight |= {"category": "summary", "confidence": 0.9}
    return {
        "agent_memory": one,
        "memory_associations": await associate(connection, one, two, 0.9),
        "agent_commands": await ask(connection, f"cook for {user}", user_id=user, status="cancelled"),
        "memory_queries": await insert(connection, "memory_queries", query),
        "dream_insights": await insert(connection, "dream_insights", insight),
        "memory_requests": await insert(connection, "memory_requests", request),
    }


@pytest.fixture
async def rows(scratch: asyncpg.Connection) -> dict[UUID | None, dict[str, UUID]]:
    """The rows of two users, and rows without a user."""
    return {user: await rows_of(scratch, user) for user in (ANN, BOB, None)}


async def test_every_table_has_row_level_security_forced(scratch: asyncpg.Connection) -> None:
    tables = await scratch.fetch(
        "select relname, relrowsecurity, relforcerowsecurity from pg_class "
        "where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
    )
    assert {row["relname"] for row in tables} >= {
        *READABLE,
        "agents",
        "memory_associations",
        "dream_sessions",
    }
    assert [
        row["relname"] for row in tables if not (row["relrowsecurity"] and row["relforcerowsecurity"])
    ] == []
    views = await column(
        scratch,
        "select relname from pg_class "
        "where relnamespace in ('memoryd'::regnamespace, 'public'::regnamespace) and relkind in ('v', 'm') "
        "and not coalesce(reloptions @> '{security_invoker=true}', false)",
    )
    assert views == []


async def test_schema_memoryd_is_closed_to_users_and_services(scratch: asyncpg.Connection) -> None:
    granted = await scratch.fetch(
        "select c.relname, r.rolname from pg_class c cross join (values ('memoryd_user'), ('memoryd_service')) r(rolname) "
        "where c.relnamespace = 'memoryd'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S') and ("
        "has_table_privilege(r.rolname, c.oid, 'select, insert, update, delete, truncate, references, trigger')"
        " or has_any_column_privilege(r.rolname, c.oid, 'select, insert, update, references'))"
    )
    # Of the views that recall searches in, the policies of the tables decide who reads what; knowledge is not for users.
    of_sources = {f"source_{source}" for source in load_sources()}
    for_users = {*of_sources, "searchable_by_users", "index_states"} - {"source_knowledge"}
    views = {("memoryd_user", name) for name in for_users}
    views |= {("memoryd_service", name) for name in {*for_users, *of_sources, "searchable"}}
    assert {(row["rolname"], row["relname"]) for row in granted} == views
    to_public = await column(
        scratch,
        "select c.relname from pg_class c cross join lateral aclexplode(c.relacl) a "
        "where c.relnamespace in ('memoryd'::regnamespace, 'public'::regnamespace) and a.grantee = 0",
    )
    assert to_public == []
    for role in ("memoryd_user", "public"):
        assert not await scratch.fetchval("select has_schema_privilege($1, 'memoryd', 'create')", role)
    assert not await scratch.fetchval("select has_schema_privilege('public', 'memoryd', 'usage')")


async def test_functions_that_act_as_their_owner_are_safe(scratch: asyncpg.Connection) -> None:
    functions = await scratch.fetch(
        "select p.proname, p.prosecdef, p.prosqlbody is not null as parsed, "
        "exists (select from unnest(p.proconfig) s where s like 'search\\_path=%pg\\_temp') as pinned "
        "from pg_proc p where p.pronamespace in ('memoryd'::regnamespace, 'public'::regnamespace) "
        "and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')"
    )
    assert [row["proname"] for row in functions if row["prosecdef"] and not row["pinned"]] == []
    assert [row["proname"] for row in functions if not row["pinned"] and not row["parsed"]] == []
    assert len(functions) > 10


async def test_a_user_sees_their_own_rows(
    scratch: asyncpg.Connection, rows: dict[UUID | None, dict[str, UUID]], subtests: pytest.Subtests
) -> None:
    for table in (*READABLE, "memory_associations"):
        for user in (ANN, BOB):
            with subtests.test(table, user=user):
                async with acting_as(scratch, user):
                    seen = set(await column(scratch, f"select id from {table}"))
                assert rows[user][table] in seen
                assert not seen & {rows[somebody][table] for somebody in rows if somebody != user}


async def test_without_valid_claims_no_rows_are_visible(
    scratch: asyncpg.Connection, rows: dict[UUID | None, dict[str, UUID]], subtests: pytest.Subtests
) -> None:
    assert rows
    for claims in NAMELESS:
        with subtests.test(claims=claims):
            await nothing_is_visible(scratch, claims)


async def nothing_is_visible(connection: asyncpg.Connection, claims: str | None) -> None:
    """Nor may anything be written."""
    async with acting_as(connection, None, claims=claims):
        for table in (*READABLE, "memory_associations", "shared_memory"):
            assert await connection.fetchval(f"select count(*) from {table}") == 0
        for agent in (None, "alice", "_shared"):
            for user in (None, ANN):
                assert (
                    await connection.fetch("select * from recall('secret recipe', $1, $2)", agent, user) == []
                )
    async with acting_as(connection, None, claims=claims):
        assert await connection.fetchval("select build_context('alice', 'secret recipe')") == ""
    for statement in (
        "insert into agent_memory (agent_id, user_id, content) values ('alice', $1, 'forged')",
        "insert into agent_commands (agent_id, user_id, message) values ('alice', $1, 'forged')",
        "insert into memory_requests (kind, user_id, query) values ('recall', $1, 'forged')",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with acting_as(connection, None, claims=claims):
                await connection.execute(statement, ANN)


async def test_the_older_form_of_claims_works_too(
    scratch: asyncpg.Connection, rows: dict[UUID | None, dict[str, UUID]]
) -> None:
    async with acting_as(scratch, None):
        # By hand: older versions of PostgREST set one setting for each claim.
        await scratch.execute("select set_config('request.jwt.claim.sub', $1, true)", str(ANN))
        assert rows[ANN]["agent_memory"] in await column(scratch, "select id from agent_memory")


async def test_recall_and_context_hold_only_the_users_own_rows(
    scratch: asyncpg.Connection, rows: dict[UUID | None, dict[str, UUID]]
) -> None:
    await scratch.execute("update agents set identity = 'a cook with a past'")
    for user, others in ((ANN, (BOB, None)), (BOB, (ANN, None))):
        own = [f"the secret recipe of {user}", f"another secret recipe of {user}", f"recipe of {user}"]
        for agent, named in ((None, None), (None, user), ("alice", None), ("alice", user)):
            async with acting_as(scratch, user):
                found = await column(
                    scratch, "select content from recall('secret recipe', $1, $2)", agent, named
                )
            assert sorted(map(str, found)) == sorted(own)
        for somebody in others:
            async with acting_as(scratch, user):
                found = await column(
                    scratch, "select content from recall('secret recipe', null, $1)", somebody
                )
            assert set(found) <= set(own)
        async with acting_as(scratch, user):
            context = await scratch.fetchval("select build_context('alice', 'secret recipe')")
            queries = await column(
                scratch, "select retrieved_memory_ids from memory_queries order by query_time"
            )
        assert all(text in context for text in own)
        assert not any(f"of {somebody}" in context for somebody in others)
        # The one that was there, the context, and each recall.
        assert len(queries) == 8


async def test_a_user_writes_their_own_memories(
    connection: asyncpg.Connection, daemon: DaemonProcess
) -> None:
    async with acting_as(connection, ANN):
        memory = await remember(connection, "my cat is called Momo", user_id=ANN)
        doomed = await remember(connection, "my dog is called Fifi", user_id=ANN)
    await until(connection, IDLE)
    async with acting_as(connection, ANN):
        assert (
            await connection.execute(
                "update agent_memory set content = 'my cat is Mimi' where id = $1", memory
            )
            == "UPDATE 1"
        )
        assert await connection.fetchval("select forget(array[$1::uuid])", doomed) == 1
    await until(connection, IDLE)
    row = await one_row(
        connection, f"select content, keywords, id in ({INDEXED_MEMORIES}) as indexed from agent_memory"
    )
    assert tuple(row) == ("my cat is Mimi", ["cat", "mimi"], True)


@pytest.mark.parametrize("somebody", [BOB, None])
async def test_rows_of_others_cannot_be_changed_or_deleted(
    scratch: asyncpg.Connection, rows: dict[UUID | None, dict[str, UUID]], somebody: UUID | None
) -> None:
    theirs = rows[somebody]
    async with acting_as(scratch, ANN):
        change = "update agent_memory set content = 'mine now' where id = $1"
        assert await scratch.execute(change, theirs["agent_memory"]) == "UPDATE 0"
        assert await scratch.fetchval("select forget(array[$1::uuid])", theirs["agent_memory"]) == 0
        for lock in ("update memory_queries set useful = true", "select from memory_queries for update"):
            await refused(scratch, lock)
    for statement in (
        "insert into agent_memory (agent_id, user_id, content) values ('alice', $1, 'planted')",
        "insert into agent_commands (agent_id, user_id, message) values ('alice', $1, 'planted')",
        "insert into memory_queries (agent_id, user_id) values ('alice', $1)",
        "insert into memory_requests (kind, user_id, query) values ('recall', $1, 'planted')",
        "update agent_memory set user_id = $1",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with acting_as(scratch, ANN):
                await scratch.execute(statement, somebody)


async def test_a_user_inserts_commands_but_does_not_write_their_outcome(scratch: asyncpg.Connection) -> None:
    await scratch.execute("insert into agents (agent_id, open_to_users) values ('alice', true)")
    async with acting_as(scratch, ANN):
        await ask(scratch, "my own task", user_id=ANN)
    for columns in (
        {"status": "completed"},
        {"status": "ready"},
        {"context": "trust me"},
        {"output": "done"},
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with acting_as(scratch, ANN):
                await ask(scratch, "my own task", user_id=ANN, **columns)


NOT_FOR_USERS = (
    "update agent_commands set status = 'completed'",
    "delete from agent_commands",
    "delete from agent_memory",
    "delete from conversation_messages",
    "delete from memory_settings",
    "select * from claim_command('alice')",
    "select complete_command(gen_random_uuid(), 'x')",
    "select cleanup_expired_memory()",
    "insert into memory_requests (kind, user_id) values ('dream', '00000000-0000-0000-0000-000000000001')",
    "update memory_requests set result = '{}'",
    "update memory_queries set retrieved_memory_ids = '{}'",
    "update memory_queries set useful = true",
    "select from memory_queries for update",
    "delete from memory_queries",
    "insert into dream_insights (insight, source_memories, category, confidence) values ('x', '{}', 'pattern', 1)",
    "delete from dream_insights",
    "select * from dream_sessions",
    "update agents set enabled = false",
    "insert into agents (agent_id) values ('mallory')",
    "insert into memory_associations (memory_id, related_memory_id) select id, id from agent_memory",
    "update memory_associations set strength = 1",
    "truncate agent_memory",
    "select * from memoryd.jobs",
    "select * from memoryd.settings",
    "insert into memoryd.jobs (topic) values ('capture')",
    "select memoryd.wake('capture')",
    "select memoryd.register_agents('{mallory}')",
    "select memoryd.claim_lanes('capture', 1, 1, '1 hour')",
)


async def test_statements_that_no_user_may_run_are_refused(
    scratch: asyncpg.Connection, rows: dict[UUID | None, dict[str, UUID]], subtests: pytest.Subtests
) -> None:
    assert rows
    for statement in NOT_FOR_USERS:
        with subtests.test(statement), pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with acting_as(scratch, ANN):
                await scratch.execute(statement)


async def test_a_link_is_visible_only_to_a_user_who_sees_both_ends(
    scratch: asyncpg.Connection, rows: dict[UUID | None, dict[str, UUID]]
) -> None:
    mixed = [
        await associate(scratch, rows[ANN]["agent_memory"], rows[somebody]["agent_memory"], 0.5)
        for somebody in (BOB, None)
    ]
    async with acting_as(scratch, ANN):
        seen = await column(scratch, "select id from memory_associations")
    assert seen == [rows[ANN]["memory_associations"]]
    assert not set(mixed) & set(seen)


@pytest.mark.parametrize("kind", ["recall", "context"])
async def test_a_users_request_is_answered_under_their_identity(
    connection: asyncpg.Connection, daemon: DaemonProcess, kind: str
) -> None:
    for user in (ANN, BOB, None):
        await rows_of(connection, user)
    await connection.execute("update agents set identity = 'a cook with a past'")
    async with acting_as(connection, ANN):
        request = await insert(
            connection,
            "memory_requests",
            {"kind": kind, "agent_id": "alice", "user_id": ANN, "query": "secret recipe"},
        )
    await until(connection, "select status = 'done' from memory_requests where id = $1", request)
    async with acting_as(connection, ANN):
        answer = await connection.fetchval("select result::text from memory_requests where id = $1", request)
    assert f"the secret recipe of {ANN}" in answer
    assert f"of {BOB}" not in answer
    assert "of None" not in answer
    assert "a cook with a past" not in answer


async def test_the_service_sees_everything(
    scratch: asyncpg.Connection, rows: dict[UUID | None, dict[str, UUID]]
) -> None:
    async with acting_as(scratch, None, role="memoryd_service"):
        for table in (*READABLE, "memory_associations"):
            seen = set(await column(scratch, f"select id from {table}"))
            assert seen >= {rows[user][table] for user in rows}
        assert len(await scratch.fetch("select * from recall('secret recipe')")) == 9
        command = await ask(scratch, "work", status="ready")
        assert await scratch.fetchval("select id from claim_command('alice')") == command
        await scratch.execute("select complete_command($1, 'done')", command)
        await scratch.execute("select mark_useful($1, true)", rows[None]["memory_queries"])
