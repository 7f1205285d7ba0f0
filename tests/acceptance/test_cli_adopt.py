"""memoryd adopt: databases that have an application's own tables, by the designs in docs/from/."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from daemon.db import apply, migrator
from daemon.db.errors import MigrationError
from plugins.move_in.adopt.adoption import Adoption
from tests.support.database.owners import as_role
from tests.support.database.schemas import EMBEDDER, connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.commands import Commands, Finished
from tests.support.rows import DIMENSIONS
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

APPLICATIONS = Path(__file__).parents[1] / "data" / "applications"
IN_PUBLIC = (
    "select count(*) from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')"
)


FORCED = "alter table agent_memory force row level security;"


async def build(connection: asyncpg.Connection, application: str) -> None:
    """The tables and rows of an application, whose owner forces row-level security on itself once the rows are there."""
    sql = (APPLICATIONS / f"{application}.sql").read_text()
    await connection.execute(sql.replace(FORCED, ""))
    if FORCED in sql:
        await connection.execute(FORCED)


async def adopt(connection: asyncpg.Connection, *also: str) -> Adoption:
    """What the command does, without a process."""
    adoption = Adoption("memoryd_adopted", also)
    await migrator.migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, adoption=adoption)
    return adoption


@dataclass(frozen=True, slots=True)
class Adopted:
    """A database before and after it was adopted, and what the commands said."""

    connection: asyncpg.Connection
    admin: asyncpg.Connection
    memoryd: Commands
    refused: Finished
    doctor: Finished
    planned: Finished
    before: tuple[int, int]
    """Relations of schema public before the first command, and before the last."""
    left: int
    """Rows of the application's memories that stood in their table after a kill -9 half-way."""
    done: Finished


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def adopted(
    server: Server, empty: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Adopted]:
    # The application's own policies hide its rows from their owner, too, until they are moved.
    async with (
        copied(server, empty) as url,
        connected(url) as connection,
        connected(server.admin_url_of(urlsplit(url).path[1:])) as admin,
    ):
        await build(connection, "assistant")
        memoryd = Commands(url, tmp_path_factory.mktemp("adopt"))
        tables = await connection.fetchval(IN_PUBLIC)
        refused, doctor, planned = await asyncio.gather(
            memoryd("migrate"), memoryd("doctor", "--json"), memoryd("adopt", "--dry-run")
        )
        tables_then = await connection.fetchval(IN_PUBLIC)
        killed = await memoryd.start("adopt")
        pid = await until(
            connection,
            "select max(pid) from pg_stat_activity where datname = current_database() and query ~ 'memoryd_adopting'"
            " and pid <> pg_backend_pid()",
        )
        killed.kill()
        await killed.wait()
        await until(connection, "select not exists (select from pg_stat_activity where pid = $1)", pid)
        left = await admin.fetchval("select count(*) from public.agent_memory")
        yield Adopted(
            connection,
            admin,
            memoryd,
            refused,
            doctor,
            planned,
            (tables, tables_then),
            left,
            await memoryd("adopt"),
        )


async def test_migrate_and_doctor_name_what_is_in_the_way_and_what_to_do(adopted: Adopted) -> None:
    (schema,) = [one for one in adopted.doctor.json if one["name"] == "schema"]
    assert (adopted.refused.code, adopted.doctor.code, schema["verdict"]) == (1, 1, "problem")
    for said in (adopted.refused.err, str(schema)):
        assert "agent_execution_logs, agent_memory" in said
        assert "memoryd adopt --dry-run" in said
    assert "already exists" not in adopted.refused.err


async def test_a_dry_run_changes_nothing_and_names_what_uses_the_tables(adopted: Adopted) -> None:
    assert adopted.planned.code == 0, adopted.planned.err
    assert adopted.before[0] == adopted.before[1]
    for said in (
        "would move table agent_memory",
        "would move function match_memory(",
        "favourites_memory_id_fkey of favourites",
        "the view brands reads agent_memory",
        "count_memories() names agent_memory",
    ):
        assert said in adopted.planned.out
    assert "update_updated_at_column" not in adopted.planned.out


async def test_killed_half_way_nothing_was_done(adopted: Adopted) -> None:
    assert adopted.left == 3006


async def test_what_was_taken_in_and_what_was_not_is_counted_by_reason(adopted: Adopted) -> None:
    assert adopted.done.code == 0, adopted.done.err
    for line in (
        "agent_memory: 2972 of 3,006 rows taken in",
        "left out: 30 (it has expired)",
        "left out: 2 (content is blank)",
        "left out: 1 (content has … characters)",
        "conversation_messages: 1000 of 1,001 rows taken in",
        "conversation_history: 400 of 400 rows taken in",
        "memory_chunks: 500 of 500 rows taken in",
        "user_memory_access: 2 of 3 rows taken in",
        "left out: 1 (unknown user_role …)",
        "shared_knowledge: 199 of 200 rows taken in",
        "left out: 1 (it holds a password or key)",
        "agent_execution_logs: 499 of 500 rows taken in",
    ):
        assert line in adopted.done.out
    assert "hunter2" not in adopted.done.out + adopted.done.err


async def test_rows_have_their_ids_times_and_owners(adopted: Adopted) -> None:
    wrong = """
        select count(*) from public.agent_memory n join memoryd_adopted.agent_memory o using (id)
        where (n.content, n.user_id, n.memory_type, n.created_at, n.updated_at, n.expires_at)
              is distinct from (o.content, o.user_id, o.memory_type, o.created_at, o.updated_at, o.expires_at)
           or n.metadata ->> 'mood' is distinct from o.mood or n.embedding is not null or n.ttl_hours is not null"""
    assert await adopted.connection.fetchval(wrong) == 0
    row = await adopted.connection.fetchrow(
        "select title, status, created_at::text from documents where id = md5('document 2')::uuid"
    )
    assert row is not None
    assert row["title"] == "Handbook 2"
    assert row["status"] == "active"
    runs = "select count(*) from agent_sessions where completed_at is null and updated_at = '2026-02-03 00:00+00'"
    assert await adopted.connection.fetchval(runs) == 20
    knowledge = (
        "select bool_and(accessed_count > 0 and created_at = '2026-01-02 00:00+00') from shared_knowledge"
    )
    assert await adopted.connection.fetchval(knowledge)


async def test_messages_keep_their_order(adopted: Adopted) -> None:
    wrong = """
        select count(*) from (
            select message_index, row_number() over (partition by session_id order by created_at) - 1 as nth
            from conversation_messages where session_id in (select md5('chat ' || n)::uuid from generate_series(0, 39) n)
        ) m where message_index <> nth"""
    assert await adopted.connection.fetchval(wrong) == 0
    # The design's index decides, and rows without one come last.
    turns = await adopted.connection.fetch(
        "select m.content, m.role, m.access_level, o.message_index from conversation_messages m"
        " join memoryd_adopted.conversation_history o using (id) where m.session_id = md5('talk 1')::uuid"
        " order by m.message_index"
    )
    given = [turn["message_index"] for turn in turns if turn["message_index"] is not None]
    assert given == sorted(given)
    assert [turn["content"] for turn in turns[-2:]] == ["Turn 1", "Turn 11"]
    assert {turn["role"] for turn in turns} == {"user"}
    levels = await adopted.connection.fetch(
        "select content, access_level, metadata from conversation_messages where content in ('Turn 7', 'Turn 9')"
        " order by content"
    )
    assert [row["access_level"] for row in levels] == [None, 2]
    assert "staff" in levels[0]["metadata"]


async def test_a_fitting_embedding_is_taken_another_is_made_anew(adopted: Adopted) -> None:
    given = await adopted.connection.fetch("select id from memory_chunks where dense_embedding is not null")
    assert len(given) == 1
    waiting = "select count(*) from memoryd.jobs where topic = 'index'"
    assert await adopted.connection.fetchval(waiting) == 2972 + 1400 - 1 + 500 + 199
    assert await adopted.connection.fetchval(
        "select tags.allowed_tags = '{plants}' from user_memory_access tags limit 1"
    )


async def test_old_rows_are_neither_logged_nor_read_for_facts_nor_anchored(adopted: Adopted) -> None:
    unwanted = """
        select (select count(*) from agent_execution_logs where action_type = 'memory_write')
             + (select count(*) from memoryd.jobs where topic not in ('index', 'lexicon', 'statistics'))
             + (select count(*) from memory_anchors)
             + (select count(*) from memoryd.settings where key = 'broadcast')"""
    assert await adopted.connection.fetchval(unwanted) == 0


async def test_what_was_moved_is_whole_and_what_hangs_on_it_works(adopted: Adopted) -> None:
    connection = adopted.connection
    assert await adopted.admin.fetchval("select count(*) from memoryd_adopted.agent_memory") == 3006
    assert await connection.fetchval(
        "select relrowsecurity and relforcerowsecurity from pg_class"
        " where oid = 'memoryd_adopted.agent_memory'::regclass"
    )
    # Its own policies hold its owner, and so its views and triggers, too, as long as it forces them.
    await connection.execute("alter table memoryd_adopted.agent_memory no force row level security")
    assert await connection.fetchval("select count(*) from brands") == 1506
    await connection.execute(
        "update memoryd_adopted.agent_memory set mood = 'sad' where id = md5('memory 1')::uuid"
    )
    stamped = (
        "select updated_at > now() - interval '1 minute' from memoryd_adopted.agent_memory where mood = 'sad'"
    )
    assert await connection.fetchval(stamped)
    await connection.execute("delete from auth.users where id = md5('user 19')::uuid")
    gone = "select count(*) from memoryd_adopted.agent_memory where user_id = md5('user 19')::uuid"
    assert await connection.fetchval(gone) == 0


async def test_a_second_run_adds_nothing_and_says_so(adopted: Adopted) -> None:
    await adopted.connection.execute("delete from agent_memory where id = md5('memory 5')::uuid")
    again = await adopted.memoryd("adopt")
    assert (again.code, again.out.count("\n")) == (0, 1)
    assert "No object of an application is in memoryd's way" in again.out
    forgotten = "select count(*) from agent_memory where id = md5('memory 5')::uuid"
    assert await adopted.connection.fetchval(forgotten) == 0


async def test_an_owner_adopts_a_bridge_and_what_is_like_no_design_only_by_name(
    server: Server, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copied(server, empty) as url, connected(server.admin_url_of(urlsplit(url).path[1:])) as admin:
        parts = urlsplit(url)
        role = f"owner_of_{parts.path[-8:]}"
        await admin.execute(
            f"create role {role} login; grant memoryd_service to {role};"
            f'grant create on schema public to {role}; alter database "{parts.path[1:]}" owner to {role}'
        )
        try:
            async with connected(as_role(url, role)) as owner:
                await build(owner, "bridge")
                await owner.execute(
                    "alter table agent_memory enable row level security, force row level security"
                )
                await owner.execute("create table documents (id integer primary key, invoice text)")
                await owner.execute("insert into documents values (1, 'unpaid')")
                with pytest.raises(
                    MigrationError, match="like none of the designs that memoryd knows: table documents"
                ):
                    await adopt(owner)
                with pytest.raises(MigrationError, match="leave out --also agents"):
                    await adopt(owner, "agents")
                assert await owner.fetchval("select invoice from public.documents") == "unpaid"

                await owner.execute(
                    "create table bills (id integer); create index documents_hash on bills (id)"
                )
                with pytest.raises(MigrationError, match='rename to "documents_hash_of_ours"'):
                    await adopt(owner, "documents")
                await owner.execute("drop table bills")

                monkeypatch.setattr(apply, "PATIENCE_SECONDS", 0.0)
                async with admin.transaction():
                    await admin.execute("lock table public.dream_insights in access share mode")
                    with pytest.raises(MigrationError, match="in the way for 0 s"):
                        await adopt(owner, "documents")
                assert await owner.fetchval("select to_regnamespace('memoryd_adopted') is null")

                taken = {one.table: one for one in (await adopt(owner, "documents")).taken}
                assert "documents" not in taken
                assert await owner.fetchval("select invoice from memoryd_adopted.documents") == "unpaid"
                assert (taken["agent_memory"].rows, taken["agent_memory"].taken) == (8, 4)
                assert taken["agent_memory"].left_out.total() == 4
                assert (taken["memory_associations"].taken, taken["dream_insights"].taken) == (1, 1)
                kept = await owner.fetch(
                    "select id, ttl_hours, expires_at - created_at as life from agent_memory"
                )
                lives = {row["ttl_hours"]: row["life"] for row in kept}
                assert lives[None] is None
                assert lives[72].total_seconds() == 72 * 3600
                assert await owner.fetchval("select count(*) from shared_memory") == 1
        finally:
            await admin.execute(
                f"reassign owned by {role} to current_user; drop owned by {role}; drop role {role}"
            )
