"""While a database of the first edition is carried over much may happen: it is carried over once and whole, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.db.migration_files import load_files
from daemon.db.migrator import migrate
from daemon.db.plan import MigrationError
from daemon.db.tokens import KEY
from tests.support.catalog import catalog
from tests.support.commands import Commands
from tests.support.daemons import Daemons
from tests.support.first_edition import rows
from tests.support.index import UNINDEXED
from tests.support.rows import DIMENSIONS, column
from tests.support.schemas import EMBEDDER, apply, connected
from tests.support.transaction_pooler import TransactionPooler
from tests.support.waiting import IDLE, until


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
            "grant execute on function extract_keywords(text) to grafana; "
            "create view mine as select unnest(extract_keywords('the server')) as word; "
            "create policy mine on agents for select to grafana using (true); "
            # Of the names that ours have.
            "create table notes (secret boolean); alter table notes enable row level security; "
            "create policy own on notes as restrictive to memoryd_user using (not secret); "
            "create function memoryd.mine() returns integer language sql return 7"
        )
        try:
            await apply(old_url)
            assert await column(connection, "select word from mine")
            assert await connection.fetchval(
                "select has_table_privilege('grafana', 'agent_memory', 'select')"
            )
            assert await connection.fetchval(
                "select has_function_privilege('grafana', 'extract_keywords(text)', 'execute')"
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
