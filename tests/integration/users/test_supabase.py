"""On a database as Supabase makes it: roles that do not inherit, everything granted to clients by default, pgvector in a schema
of its own, a publication; and memoryd's owner is no superuser.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB, acting_as
from tests.support.access.refusals import refused
from tests.support.access.users import found
from tests.support.content.index import UNINDEXED
from tests.support.database.schemas import apply, connected, lives
from tests.support.database.supabase import ACCOUNTS, PUBLICATION, WAITING, Project
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, column, embedding, insert, one_row, remember
from tests.support.waiting import IDLE, until

PUBLISHED = "select tablename::text from pg_publication_tables where pubname = 'supabase_realtime' order by 1"
WATCHED = [
    "agent_commands",
    "agent_execution_logs",
    "agent_memory",
    "agent_sessions",
    "conversation_messages",
    "memory_requests",
]

RELATIONS = """
select c.oid::regclass::text from pg_class c
where c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace) and c.relkind in ('r', 'p', 'v') order by 1
"""
FUNCTIONS = """
select p.oid::regprocedure::text from pg_proc p
where p.pronamespace in ('public'::regnamespace, 'memoryd'::regnamespace) order by 1
"""


async def rows_of(connection: asyncpg.Connection, user: UUID | None) -> dict[str, UUID]:
    """A row in each table that has users."""
    name = {ANN: "ann", BOB: "bob", None: "nobody"}[user]
    owner: dict[str, object] = {"user_id": user}
    session = uuid4()
    turn = owner | {"session_id": session, "role": "user", "content": f"the lighthouse of {name}"}
    message = await insert(connection, "conversation_messages", turn)
    document = await insert(connection, "documents", owner | {"title": name})
    chunk = {"document_id": document, "chunk_index": 0, "chunk_text": name}
    run = await insert(connection, "agent_sessions", owner)
    step = owner | {"session_id": run, "step_name": "plan", "action_type": "decision"}
    insight = owner | {"insight": name, "source_memories": [], "category": "summary", "confidence": 0.5}
    return {
        "agent_memory": await remember(
            connection, f"a lighthouse of {name}", **owner, embedding=embedding(1)
        ),
        "agent_commands": await insert(
            connection, "agent_commands", owner | {"agent_id": "a", "message": name, "status": "cancelled"}
        ),
        "memory_queries": await insert(connection, "memory_queries", owner),
        "memory_requests": await insert(
            connection, "memory_requests", owner | {"kind": "recall", "query": name, "status": "done"}
        ),
        "dream_insights": await insert(connection, "dream_insights", insight),
        "conversation_sessions": session,
        "conversation_messages": message,
        "documents": document,
        "memory_chunks": await insert(connection, "memory_chunks", chunk),
        "agent_sessions": run,
        "agent_execution_logs": await insert(connection, "agent_execution_logs", step),
    }


@pytest.fixture(scope="module")
def rows(project: Project) -> dict[UUID | None, dict[str, UUID]]:
    """Rows of two users, and rows without a user, written with the service key."""

    async def write() -> dict[UUID | None, dict[str, UUID]]:
        async with project.client("service_role") as service:
            return {user: await rows_of(service, user) for user in (ANN, BOB, None)}

    return asyncio.run(write())


# --- What the roles were given.


async def test_the_owner_was_no_superuser(project: Project) -> None:
    async with connected(project.url()) as owner:
        assert not await owner.fetchval("select rolsuper from pg_roles where rolname = current_user")
        schema = "select extnamespace::regnamespace::text from pg_extension where extname = 'vector'"
        assert await owner.fetchval(schema) == "extensions"
        own = "select distinct pg_get_userbyid(relowner)::text from pg_class where relnamespace = 'memoryd'::regnamespace"
        assert await column(owner, own) == ["project_owner"]


async def test_anon_has_no_right_to_anything(project: Project) -> None:
    async with connected(project.url()) as owner:
        relations, functions = await column(owner, RELATIONS), await column(owner, FUNCTIONS)
        assert {"agent_memory", "memoryd.jobs", "conversation_history"} <= set(relations)
        assert any(str(one).startswith("match_memory(") for one in functions)
        all_rights = "select, insert, update, delete, truncate, references, trigger"
        for relation in relations:
            assert not await owner.fetchval(
                "select has_table_privilege('anon', $1, $2)", relation, all_rights
            ), relation
            some = "select has_any_column_privilege('anon', $1, 'select, insert, update, references')"
            assert not await owner.fetchval(some, relation), relation
        for function in functions:
            assert not await owner.fetchval(
                "select has_function_privilege('anon', $1, 'execute')", function
            ), function
        sequences = (
            "select count(*) from pg_sequences where schemaname in ('public', 'memoryd') and has_sequence_privilege("
            "'anon', format('%I.%I', schemaname, sequencename), 'usage, select, update')"
        )
        assert await owner.fetchval(sequences) == 0
        assert not await owner.fetchval("select has_schema_privilege('anon', 'memoryd', 'usage, create')")


async def test_anon_is_refused_every_statement_and_function(
    project: Project, rows: dict[UUID | None, dict[str, UUID]]
) -> None:
    async with connected(project.url()) as owner:
        relations = await column(owner, RELATIONS)
    # A claim with a user id gives anon no rows.
    async with project.client("anon", {"sub": str(ANN)}) as anon:
        for relation in relations:
            for statement in ("select * from {}", "delete from {}", "truncate {}"):
                assert (await refused(anon, statement.format(relation)))[0] in ("42501", "42809")
        for call in (
            "recall('lighthouse')",
            "load_context(gen_random_uuid())",
            f"match_memory('{embedding(1)}', filter_user_id => '{ANN}')",
            f"search_shared_knowledge('{embedding(1)}')",
            "build_context('a', 'lighthouse')",
            "claim_command('a')",
            "cleanup_expired_memory()",
            f"export_user_memory('{ANN}')",
            f"erase_user_memory('{ANN}')",
            "memoryd.wake('index')",
            "memoryd.expire_conversations(1)",
        ):
            assert (await refused(anon, f"select * from {call}"))[0] == "42501", call
    assert rows[ANN]


async def test_authenticated_has_exactly_the_rights_of_memoryd_user(project: Project) -> None:
    async with connected(project.url()) as owner:
        for relation in await column(owner, RELATIONS):
            for right in ("select", "insert", "update", "delete", "truncate", "references", "trigger"):
                asked = "select has_table_privilege('authenticated', $1, $2), has_table_privilege('memoryd_user', $1, $2)"
                theirs, ours = await one_row(owner, asked, relation, right)
                assert theirs == ours, (relation, right)
                assert not (theirs and right in ("truncate", "references", "trigger")), (relation, right)
            columns = (
                "select a.attname::text from pg_attribute a where a.attrelid = $1::regclass and a.attnum > 0 and "
                "has_column_privilege('authenticated', a.attrelid, a.attnum, $2) "
                "<> has_column_privilege('memoryd_user', a.attrelid, a.attnum, $2)"
            )
            for right in ("select", "insert", "update", "references"):
                assert await column(owner, columns, relation, right) == [], (relation, right)
        for function in await column(owner, FUNCTIONS):
            asked = "select has_function_privilege($2, $1, 'execute')"
            theirs, ours = [
                await owner.fetchval(asked, function, role) for role in ("authenticated", "memoryd_user")
            ]
            assert theirs == ours, function


# --- What they see and do.


async def test_a_user_sees_their_own_rows_alone(
    project: Project, rows: dict[UUID | None, dict[str, UUID]]
) -> None:
    for user, others in ((ANN, (BOB, None)), (BOB, (ANN, None))):
        async with project.user(user) as client:
            assert await client.fetchval("select auth.uid()") == user
            for table, own in rows[user].items():
                seen = await column(client, f"select id from {table}")
                assert own in seen, table
                assert not {rows[other][table] for other in others} & set(seen), table
    async with project.client("authenticated") as nobody:
        for table in rows[ANN]:
            assert await column(nobody, f"select id from {table}") == []


async def test_a_user_calls_the_functions(project: Project, rows: dict[UUID | None, dict[str, UUID]]) -> None:
    async with project.user(ANN) as client:
        found = await column(client, f"select content from match_memory('{embedding(1)}')")
        assert found == ["a lighthouse of ann"]
        named = f"select content from match_memory('{embedding(1)}', filter_user_id => '{BOB}')"
        assert await column(client, named) == []
        session = rows[ANN]["conversation_sessions"]
        context = "select content from load_context($1)"
        assert await column(client, context, session) == ["the lighthouse of ann"]
        assert await column(client, context, rows[BOB]["conversation_sessions"]) == []
        turn = (
            "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'is it lit?')"
        )
        await client.execute(turn, session)
        assert await column(client, context, session) == ["the lighthouse of ann", "is it lit?"]
        assert (await refused(client, turn, rows[BOB]["conversation_sessions"]))[0] == "42501"
        assert (await refused(client, turn, uuid4()))[0] == "42501"
        # As supabase.rpc('forget', ...) would.
        memory = await remember(client, "a note", user_id=ANN)
        forget = "select forget(ids => $1, source => 'memory')"
        assert await client.fetchval(forget, [memory, rows[BOB]["agent_memory"]]) == 1
        for mode in ("row exclusive", "exclusive", "access exclusive"):
            assert (await refused(client, f"lock table agent_memory in {mode} mode"))[0] == "42501"
        assert "lighthouse of bob" not in str(await client.fetch("select * from recall('lighthouse')"))
        assert "ann" in await client.fetchval("select build_context('alice', 'the lighthouse')")
        for statement in (
            "truncate agent_memory",
            "select * from memoryd.jobs",
            "select * from memoryd.settings",
        ):
            assert (await refused(client, statement))[0] == "42501"


async def test_the_service_role_reads_and_calls_everything(
    project: Project, rows: dict[UUID | None, dict[str, UUID]]
) -> None:
    async with project.client("service_role") as service:
        for table in rows[ANN]:
            ours = {rows[user][table] for user in (ANN, BOB, None)}
            assert ours <= set(await column(service, f"select id from {table}")), table
        tables = await column(
            service,
            "select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')",
        )
        for name in tables:
            for right in ("select", "insert", "update", "delete"):
                asked = "select has_table_privilege('service_role', $1, $2)"
                assert await service.fetchval(asked, f"public.{name}", right), (name, right)
        functions = [one for one in await column(service, FUNCTIONS) if not str(one).startswith("memoryd.")]
        assert len(functions) > 12
        for function in functions:
            assert await service.fetchval(
                "select has_function_privilege('service_role', $1, 'execute')", function
            )
        command = await insert(
            service, "agent_commands", {"agent_id": "keeper", "message": "light it", "status": "ready"}
        )
        assert await service.fetchval("select id from claim_command('keeper')") == command
        await service.execute("select complete_command($1, 'lit')", command)
        knowledge: dict[str, object] = {
            "tier": "core",
            "category": "team",
            "title": "Keepers",
            "content": "three",
            "created_by": "keeper",
            "embedding": embedding(1),
        }
        entry = await insert(service, "shared_knowledge", knowledge)
        found = await column(service, f"select id from search_shared_knowledge('{embedding(1)}')")
        assert found == [entry]
        await service.execute("select touch_knowledge($1)", entry)
        assert await service.fetchval("select expire_low_confidence()") == 0
        matched = f"select content from match_memory('{embedding(1)}', filter_user_id => '{BOB}')"
        assert await column(service, matched) == ["a lighthouse of bob"]


async def test_a_daemon_serves_a_supabase_database_from_end_to_end(project: Project, tmp_path: Path) -> None:
    await project.make("whole", *PUBLICATION, *ACCOUNTS)
    await apply(project.url("whole"))
    gone, busy = uuid4(), uuid4()
    async with connected(project.url("whole")) as owner:
        await owner.execute("set search_path = public, extensions")
        # An account whose erasure was left to a daemon.
        await owner.execute("insert into auth.users (id) values ($1), ($2)", gone, busy)
        await remember(owner, "quokkazephyr", user_id=gone)
        async with owner.transaction(isolation="repeatable_read"):
            await owner.execute("delete from auth.users where id = $1", gone)
        assert await column(owner, WAITING) == [gone]
    daemons = Daemons(project.url("whole"), tmp_path)
    try:
        await daemons.start()
        async with connected(project.url("whole")) as owner:
            await owner.execute("set search_path = public, extensions")
            await lives(owner)
            async with acting_as(owner, ANN, role="authenticated"):
                memory = await remember(owner, "the ferry leaves at seven", user_id=ANN)
                talk = await owner.fetchval("insert into conversation_sessions default values returning id")
                turn = "insert into conversation_messages (session_id, role, content) values ($1, 'user', 'when is the ferry?')"
                await owner.execute(turn, talk)
                asked = {"kind": "recall", "query": "ferry", "user_id": ANN}
                request = await insert(owner, "memory_requests", asked)
            await until(owner, "select status = 'done' from memory_requests where id = $1", request)
            await until(owner, IDLE)
            vector = await owner.fetchval("select embedding::text from memoryd.entries where id = $1", memory)
            assert vector is not None
            assert await column(owner, UNINDEXED, None) == []
            async with acting_as(owner, ANN, role="authenticated"):
                matched = await column(owner, "select content from match_memory($1::text::vector)", vector)
                assert matched == ["the ferry leaves at seven"]
                texts = await column(
                    owner, "select content from recall('ferry', query_embedding => $1::text::vector)", vector
                )
                assert {"the ferry leaves at seven", "when is the ferry?"} <= set(texts)
                assert "seven" in await owner.fetchval(
                    "select result::text from memory_requests where id = $1", request
                )
            # What the daemon is just writing about somebody is not written after they are gone.
            await remember(owner, "quokkazephyr", user_id=busy)
            await owner.execute(
                "insert into conversation_messages (session_id, user_id, role, content) "
                "select gen_random_uuid(), $1, 'user', 'I like quokkazephyr ' || n from generate_series(1, 20) n",
                busy,
            )
            await ask(owner, "quokkazephyr", user_id=busy)
            await owner.execute("delete from auth.users where id = $1", busy)
            await until(owner, f"select not exists ({WAITING})")
            await until(owner, IDLE)
            assert await found(owner, "quokkazephyr") == {}
            assert await owner.fetchval("select count(*) from memoryd.dead_letters") == 0
    finally:
        await daemons.kill_all()


# --- The publication.


async def test_the_realtime_publication_has_the_tables_that_clients_watch(project: Project) -> None:
    async with connected(project.url()) as owner:
        assert await column(owner, PUBLISHED) == WATCHED


@pytest.mark.parametrize(
    ("name", "publication", "published"),
    [
        ("none", [], []),
        ("for_all", ["create publication supabase_realtime for all tables"], None),
        (
            "for_schema",
            ["create publication supabase_realtime for tables in schema public", *PUBLICATION[1:]],
            None,
        ),
        ("of_another", ["create publication supabase_realtime"], []),
        (
            "with_others",
            [
                "create table theirs (id int primary key)",
                "create publication supabase_realtime for table theirs",
                *PUBLICATION[1:],
            ],
            sorted([*WATCHED, "theirs"]),
        ),
    ],
)
async def test_a_publication_of_any_kind_does_not_stop_the_migration(
    project: Project, name: str, publication: list[str], published: list[str] | None
) -> None:
    await project.make(name, *publication)
    async with connected(project.url(name, "postgres")) as admin:
        assert await apply(project.url(name))
        found = await column(admin, PUBLISHED)
        assert set(WATCHED) <= set(found) if published is None else found == published
