"""A database that the seventeen migrations of before made is carried over once: no row is lost, and it is like a new one.

tests/data/first_edition.sql.gz is a dump of such a database, with rows in every table, some of them still waiting for a daemon:
pg_dump --no-owner --inserts --rows-per-insert=50, without the lines that psql or Postgres 18 only understand.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from daemon.db.migration_files import load_files
from daemon.db.migrator import migrate
from daemon.db.plan import MigrationError
from daemon.db.tokens import KEY
from tests.support.catalog import catalog
from tests.support.commands import Commands
from tests.support.daemons import Daemons
from tests.support.index import UNINDEXED, stale
from tests.support.rows import DIMENSIONS, column
from tests.support.schemas import EMBEDDER, apply, connected, lives
from tests.support.servers import Server
from tests.support.sources import TABLES as SOURCES
from tests.support.sources import found
from tests.support.statistics import miscounted
from tests.support.templates import copied, make_once
from tests.support.tokens import leave_tokens_out
from tests.support.transaction_pooler import TransactionPooler
from tests.support.waiting import IDLE, until

DUMP = Path(__file__).parents[2] / "data" / "first_edition.sql.gz"
TABLES = """
select c.oid::regclass::text from pg_class c
where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'memoryd'::regnamespace)
  and c.relname not in ('migrations', 'function_files', 'entries', 'spare_entries', 'unindexed', 'lexeme_statistics',
                        'lexeme_changes')
order by 1
"""
RENAMED = {
    "memoryd.jobs": {
        "party": "tenant", "turn": "fair_at", "spared": "snoozes", "alone": "solo_attempts", "holder": "claimed_by",
    },
    "memoryd.lanes": {"holder": "leased_by"},
    "memoryd.daemons": {"doorbell": "wake_up"},
    "memoryd.answered_from": {"party": "tenant"},
}  # fmt: skip
INDEX = {"lexemes", "sparse_embedding", "prior", "says_when", "code"}
"""Columns that memoryd wrote beside the searched text, and which memoryd.entries replaces."""
GONE = {
    "agent_memory": INDEX | {"last_modified_human", "valid_from", "valid_to", "superseded_by"},
    # The embedding was that of the message and its neighbours.
    "conversation_messages": INDEX | {"embedding"},
    "memory_chunks": INDEX - {"sparse_embedding"} | {"headings", "situation"},
    "memory_associations": {"rested_at"},
    "dream_sessions": {"insights_judged", "insights_redrawn", "links_faded", "queries_until"},
    # New columns; and a document without content is complete: see test_documents_with_content_wait_to_be_cut_after_it.
    "documents": {"access_level", "visibility_tags", "chunked_at", "file_hash", "status"},
    # Their scope is another one now.
    "shared_knowledge": INDEX | {"scope", "last_modified_human", "said_again"},
    "dream_insights": INDEX
    | {
        "scope",
        "last_modified_human",
        "topic",
        "written_by",
        "sources_hash",
        "evidence_until",
        "judged_until",
        "resolved_at",
        "stale",
        "accessed_count",
        "last_accessed_at",
    },
    "memory_queries": {"patterns", "reason", "knowledge_ids", "knowledge_counted", "insight_ids"},
}
TO_INDEX = """
select s.source, s.id, s.scope from memoryd.searchable s
"""
WAITING = """
select u.source, u.id, u.scope from memoryd.unindexed u
join memoryd.jobs j on j.topic = 'index' and j.ref = u.id and j.payload->>'source' = u.source
"""


@pytest.fixture
async def old_url(server: Server, template: str) -> AsyncIterator[str]:
    """A database of the first edition. `template` made the roles of the server."""

    async def restore(opened: asyncpg.Connection) -> None:
        with gzip.open(DUMP, "rt", encoding="utf-8") as dump:
            await opened.execute(dump.read())
        await leave_tokens_out(opened)

    await make_once(server, f"{template}_first_edition", restore)
    async with copied(server, f"{template}_first_edition") as url:
        yield url


async def rows(connection: asyncpg.Connection) -> dict[str, list[str]]:
    """Every row of every table, its columns under their names of today."""
    all_rows = {}
    for table in await column(connection, TABLES):
        read = await connection.fetch(f"select to_jsonb(t)::text as row from {table} t")
        names = RENAMED.get(str(table), {})
        values: list[dict[str, Any]] = [json.loads(record["row"]) for record in read]
        gone = GONE.get(str(table), set())
        values = [{key: value for key, value in one.items() if key not in gone} for one in values]
        # All rows are indexed anew: see test_all_rows_wait_to_be_indexed_after_it.
        values = [
            one for one in values if table != "memoryd.jobs" or one["topic"] not in ("index", "document")
        ]
        renamed = [{names.get(key, key): value for key, value in one.items()} for one in values]
        name = str(table).replace("memoryd.dead_jobs", "memoryd.dead_letters")
        all_rows[name] = sorted(json.dumps(one, sort_keys=True) for one in renamed)
    return all_rows


async def test_no_row_is_lost_and_the_catalog_is_that_of_a_new_database(
    old_url: str, database_url: str
) -> None:
    async with connected(old_url) as connection:
        before = await rows(connection)
    assert {name for name, some in before.items() if not some} <= {
        "memoryd.daemons", "memoryd.executions", "memoryd.dense_indexes", "memoryd.erased_texts", "memoryd.logins",
        "memoryd.answered_from", "memoryd.ticks",
    }  # fmt: skip
    upgrade = await apply(old_url)
    assert upgrade.carried_over
    assert upgrade.functions == load_files().functions
    async with connected(old_url) as connection, connected(database_url) as new:
        after = await rows(connection)
        replica = {
            name: some
            for name, some in after.items()
            if name.startswith(("memoryd.replica", "memoryd.trail"))
        }
        assert {name for name, some in replica.items() if some} == {
            "memoryd.replica",
            "memoryd.trail",
            "memoryd.trail_leaves",
        }
        locks = [
            one for one in after.pop("memoryd.locks") if "superseding" not in one and "knowledge" not in one
        ]
        assert locks == before.pop("memoryd.locks")
        made: dict[str, list[str]] = {
            "memoryd.tokens": [],
            "chat_group_members": [],
            "memoryd.facts": [],
            "memoryd.fact_sources": [],
            "memoryd.names": [],
            "memoryd.memory_uses": [],
            "memoryd.model_calls": [],
            "memoryd.drop_folders": [],
            "memoryd.deleted_accounts": [],
        }
        assert after == before | replica | made
        assert await catalog(connection) == await catalog(new)
    assert not await apply(old_url)


async def test_documents_with_content_wait_to_be_cut_after_it(old_url: str) -> None:
    async with connected(old_url) as connection:
        await connection.execute(
            "insert into documents (title, content, status) values ('a', 'text', 'processing'), ('b', null, 'processing'), "
            "('c', 'text', 'deleted')"
        )
    await apply(old_url)
    async with connected(old_url) as connection:
        states = {
            r["title"]: r["status"]
            for r in await connection.fetch(
                "select title, status from documents where title in ('a', 'b', 'c')"
            )
        }
        assert states == {"a": "processing", "b": "active", "c": "deleted"}
        waiting = (
            "select d.title from memoryd.jobs j join documents d on d.id = j.ref where j.topic = 'document'"
        )
        assert "a" in await column(connection, waiting)
        assert {"b", "c"}.isdisjoint(await column(connection, waiting))


@pytest.mark.first_server
async def test_all_rows_wait_to_be_indexed_after_it(old_url: str, tmp_path: Path) -> None:
    """And each has a job; until then recall reads their text. A daemon then indexes them."""
    await apply(old_url)
    daemons = Daemons(old_url, tmp_path)
    async with connected(old_url) as connection:
        everything = {tuple(r) for r in await connection.fetch(TO_INDEX)}
        assert {source for source, _, _ in everything} == set(SOURCES)
        assert {tuple(r) for r in await connection.fetch(WAITING)} == everything
        assert await column(connection, "select count(*) from memoryd.jobs where topic = 'index'") == [
            len(everything)
        ]
        assert await column(connection, "select count(*) from memoryd.entries") == [0]
        waiting = await found(connection, "backup")
        assert any(waiting.values())
        try:
            await daemons.start()
            await until(connection, "select not exists (select from memoryd.unindexed)")
            await until(connection, IDLE)
        finally:
            await daemons.kill_all()
        assert await stale(connection) == []
        assert await miscounted(connection) == []
        assert await column(connection, UNINDEXED, None) == []
        for source, ids in waiting.items():
            assert ids <= (await found(connection, "backup"))[source]


@pytest.mark.first_server
async def test_an_embedding_of_a_message_and_its_neighbours_is_never_used_again(
    old_url: str, tmp_path: Path
) -> None:
    """It stands in the message's row from before. A change of the message does not bring it back, nor does a new index."""
    await apply(old_url)
    daemons = Daemons(old_url, tmp_path)
    async with connected(old_url) as connection:
        try:
            await daemons.start()
            await until(connection, IDLE)
            read = "select id, embedding::text from memoryd.entries where source = 'conversation' order by id"
            anew = [tuple(r) for r in await connection.fetch(read)]
            assert anew
            await connection.execute("update conversation_messages set metadata = metadata || '{\"a\": 1}'")
            await until(connection, IDLE)
            assert [tuple(r) for r in await connection.fetch(read)] == anew
            await connection.execute("update conversation_messages set speaker = 'Carol'")
            await until(connection, IDLE)
            assert [tuple(r) for r in await connection.fetch(read)] == anew
        finally:
            await daemons.kill_all()


@pytest.mark.first_server
async def test_work_that_waited_is_done_after_it(old_url: str, tmp_path: Path) -> None:
    daemons = Daemons(old_url, tmp_path)
    try:
        daemon = await daemons.start()
        async with connected(old_url) as connection:
            await until(connection, IDLE)
            waiting = "select count(*) from memory_requests where status = 'pending'"
            assert await connection.fetchval(waiting) == 0
            assert (
                await connection.fetchval("select count(*) from agent_commands where status = 'pending'") == 0
            )
            assert "the backup runs at four" in str(
                await column(connection, "select content from recall('backup')")
            )
            await connection.execute("update agents set enabled = true")
            await connection.execute("delete from memoryd.dead_letters")
            await connection.execute("truncate agent_commands, memory_queries, memory_requests cascade")
            await connection.execute("delete from agent_memory")
            await until(connection, IDLE)
            await lives(connection)
        (applied,) = daemon.events("functions_applied")
        assert (applied["carried_over"], applied["files"]) == (True, len(load_files().functions))
    finally:
        await daemons.kill_all()


async def test_a_dry_run_says_so_and_changes_nothing(old_url: str, tmp_path: Path) -> None:
    said = await Commands(old_url, tmp_path)("migrate", "--dry-run")
    assert said.code == 0, said.err
    assert said.out.startswith("would apply first_edition/carry_over")
    async with connected(old_url) as connection:
        assert await connection.fetchval("select count(*) from memoryd.migrations") == 17
        assert await connection.fetchval("select to_regclass('memoryd.dead_jobs')") is not None


async def test_ten_at_once_carry_it_over_once(old_url: str) -> None:
    done = await asyncio.gather(*(apply(old_url) for _ in range(10)))
    assert [upgrade.carried_over for upgrade in done].count(True) == 1


@pytest.mark.first_server
async def test_it_is_carried_over_through_a_transaction_pooler(
    old_url: str, database_url: str, tmp_path: Path
) -> None:
    async with connected(old_url) as connection:
        # The tokens too.
        await connection.execute("delete from memoryd.settings where key = $1", KEY)
    async with TransactionPooler(old_url) as pooler:
        done = await Commands(pooler.url, tmp_path)("migrate")
    assert done.code == 0, done.err
    async with connected(old_url) as connection, connected(database_url) as new:
        assert await connection.fetchval("select exists (select from memoryd.tokens)")
        assert await catalog(connection) == await catalog(new)


@pytest.mark.first_server
async def test_a_kill_in_the_middle_leaves_all_as_it_was(old_url: str, tmp_path: Path) -> None:
    async with connected(old_url) as connection:
        before = await rows(connection)
        names = await column(connection, "select oid::regprocedure::text from pg_proc order by 1")
        # The upgrade makes policies late, and waits there until it is killed.
        await connection.execute(
            "create table public.gate as select true as closed; "
            "create function public.wait_at_the_gate() returns event_trigger language plpgsql as $$ begin "
            "while tg_tag = 'CREATE POLICY' and exists (select from public.gate) loop "
            "perform pg_sleep(0.02) /* at the gate */; end loop; end $$; "
            "create event trigger gate on ddl_command_end execute function wait_at_the_gate()"
        )
        process = await Commands(old_url, tmp_path).start("migrate")
        here = "select {} (select from pg_stat_activity where datname = current_database() and {})"
        await until(connection, here.format("exists", "wait_event = 'PgSleep'"))
        process.kill()
        await process.wait()
        await connection.execute("delete from public.gate")
        others = "backend_type = 'client backend' and pid <> pg_backend_pid()"
        await until(connection, here.format("not exists", others))
        await connection.execute("drop event trigger gate; drop function wait_at_the_gate; drop table gate")
        assert await rows(connection) == before
        assert await column(connection, "select oid::regprocedure::text from pg_proc order by 1") == names
    assert (await apply(old_url)).carried_over


async def test_one_that_was_not_finished_is_left_to_its_own_memoryd(old_url: str) -> None:
    async with connected(old_url) as connection:
        await connection.execute("delete from memoryd.migrations where version > 9")
        with pytest.raises(
            MigrationError, match=r"not finished.*It has 9 of 17\. Finish it with that memoryd"
        ):
            await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)


async def test_a_row_that_breaks_a_check_is_named_and_the_upgrade_goes_on_once_it_is_mended(
    old_url: str,
) -> None:
    async with connected(old_url) as connection:
        # As a superuser may have written it, years ago.
        await connection.execute("set session_replication_role = replica")
        await connection.execute("alter table agents drop constraint agents_agent_id_check1")
        await connection.execute("insert into agents (agent_id) values (e'two\\nlines')")
        await connection.execute(
            "alter table agents add constraint agents_agent_id_check1 check (true) not valid"
        )
        with pytest.raises(
            MigrationError, match="rows of agents break the check agents_agent_id_check: agent_id has"
        ):
            await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
        await connection.execute("delete from agents where agent_id like 'two%'")
        assert not await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
        assert await connection.fetchval(
            "select bool_and(convalidated) from pg_constraint where contype = 'c'"
        )


async def test_what_users_built_on_it_stays(old_url: str) -> None:
    async with connected(old_url) as connection:
        await connection.execute(
            "create role grafana; grant select on agent_memory to grafana; "
            "grant execute on function recall(text, text, uuid, vector, integer, text[], jsonb) to grafana; "
            "create view mine as select content from recall('server'); "
            "create policy mine on agents for select to grafana using (true); "
            # Of the names that ours have.
            "create table notes (secret boolean); alter table notes enable row level security; "
            "create policy own on notes as restrictive to memoryd_user using (not secret); "
            "create function memoryd.mine() returns integer language sql return 7"
        )
        try:
            await apply(old_url)
            assert await column(connection, "select content from mine")
            assert await connection.fetchval(
                "select has_table_privilege('grafana', 'agent_memory', 'select')"
            )
            assert await connection.fetchval(
                "select has_function_privilege('grafana', "
                "'recall(text, text, uuid, vector, integer, text[], jsonb)', 'execute')"
            )
            assert await connection.fetchval("select count(*) from pg_policy where polname = 'mine'") == 1
            policies = "select polname from pg_policy where polrelid = 'notes'::regclass"
            assert await column(connection, policies) == ["own"]
            assert await connection.fetchval("select memoryd.mine()") == 7
        finally:
            await connection.execute("drop owned by grafana; drop role grafana")


async def test_what_users_built_on_a_function_of_ours_stops_it(old_url: str) -> None:
    async with connected(old_url) as connection:
        before = await rows(connection)
        await connection.execute(
            "create table notes (updated_at timestamptz); create trigger mine before update on notes "
            "for each row execute function memoryd.stamp_updated_at()"
        )
        with pytest.raises(
            MigrationError, match=r"^Something uses what this version .*trigger mine on table notes"
        ):
            await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
        assert await rows(connection) == before | {"notes": []}


async def test_writers_go_on_during_the_upgrade_and_lose_no_event(old_url: str, tmp_path: Path) -> None:
    stop = asyncio.Event()
    commands, memories = 0, 0

    async def write(number: int) -> None:
        nonlocal commands, memories
        async with connected(old_url) as connection:
            # A lock that stays makes this fail.
            await connection.execute("set lock_timeout = '3s'")
            while not stop.is_set():
                await connection.execute(
                    "insert into agent_memory (agent_id, content) values ($1, 'written during the upgrade')",
                    f"w{number}",
                )
                memories += 1
                await connection.execute(
                    "insert into agent_commands (agent_id, message) values ($1, 'work during the upgrade')",
                    f"w{number}",
                )
                commands += 1
                # All that is written is indexed at the end: the longer the upgrade takes, the more that is.
                await asyncio.sleep(0.05)

    writers = [asyncio.create_task(write(number)) for number in range(3)]
    try:
        async with connected(old_url) as connection:
            await until(connection, "select count(*) > 30 from agent_commands")
            upgraded = await apply(old_url)
            assert upgraded.carried_over
            # And a second one, of functions, triggers and policies, while they write.
            tables = [f for f in load_files().functions if f.hangs_on_tables]
            changed = [replace(f, sql=f.sql + "\n-- changed", checksum="changed") for f in tables]
            kept = [f for f in load_files().functions if not f.hangs_on_tables]
            await apply(old_url, files=replace(load_files(), functions=(*changed[:1], *kept, *changed[1:])))
            await apply(old_url)
            now = commands
            await until(connection, "select count(*) > $1 from agent_commands", now + 30)
    finally:
        stop.set()
        await asyncio.gather(*writers)
    daemons = Daemons(old_url, tmp_path)
    try:
        async with connected(old_url) as connection:
            ours = "agent_id like 'w%'"
            assert await connection.fetchval(f"select count(*) from agent_memory where {ours}") == memories
            assert await connection.fetchval(f"select count(*) from agent_commands where {ours}") == commands
            await daemons.start()
            await until(connection, IDLE)
            assert await column(connection, UNINDEXED, None) == []
            assert await connection.fetchval(
                f"select bool_and(status = 'ready') from agent_commands where {ours}"
            )
            assert (
                await connection.fetchval("select count(*) from memoryd.dead_letters where id <> 900000") == 0
            )
    finally:
        await daemons.kill_all()
