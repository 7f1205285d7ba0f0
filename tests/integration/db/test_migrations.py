"""Migrations: each file once and whole, refused with one sentence where they do not fit, wherever pgvector lives."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from daemon.db.errors import MigrationError
from daemon.db.migration_files import Migration, MigrationFiles, load_files
from daemon.db.migrator import migrate
from daemon.db.pool import quoted
from tests.support.access.acting import acting_as
from tests.support.content.index import UNINDEXED
from tests.support.database.schemas import EMBEDDER, apply, connected, lives
from tests.support.database.servers import Server
from tests.support.database.templates import BARE, copied
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import DIMENSIONS, column, remember
from tests.support.waiting import IDLE, until

VERSIONS = "select version from memoryd.migrations order by version"
OBJECTS = """
select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
union all select extname from pg_extension union all select nspname from pg_namespace order by 1
"""


def files(*more: Migration, without_last: bool = False) -> MigrationFiles:
    """The files of this memoryd, with more numbered ones, or without the last."""
    schema = load_files().schema
    return replace(load_files(), schema=(*(schema[:-1] if without_last else schema), *more))


def versions(schema: Sequence[Migration]) -> list[int]:
    """Their numbers."""
    return [migration.version for migration in schema]


# --- Which files are applied.


@pytest.mark.first_server
async def test_what_is_not_there_ends_an_upgrade_also_if_its_name_begins_like_that_of_a_role(
    empty_url: str,
) -> None:
    bad = Migration(9000, "gone", "drop trigger memoryd_gone on public.agent_memory", "c")
    async with asyncio.timeout(60):
        with pytest.raises(MigrationError, match=r"9000_gone.* failed: .*memoryd_gone"):
            await apply(empty_url, files=files(bad))


@pytest.mark.first_server
async def test_a_new_file_is_applied_on_top(empty_url: str) -> None:
    last = load_files().schema[-1]
    # The functions of this memoryd may need what the last file makes.
    await apply(empty_url, files=replace(files(without_last=True), functions=()))
    assert (await apply(empty_url)).schema == (last,)
    extra = Migration(9000, "extra", "create table public.extra (v vector(:dimensions))", "c")
    assert (await apply(empty_url, files=files(extra))).schema == (extra,)
    async with connected(empty_url) as connection:
        assert (
            await connection.fetchval(
                "select atttypmod from pg_attribute where attrelid = 'extra'::regclass and attname = 'v'"
            )
            == DIMENSIONS
        )


async def test_what_fails_leaves_nothing_and_of_several_at_once_one_applies_each_file_once(
    empty_url: str,
) -> None:
    expected = versions(load_files().schema)
    assert expected == list(range(1, len(expected) + 1))
    bad = Migration(
        9000, "half", "create table public.half (); select 1 / 0; create table public.other ()", "c"
    )
    async with connected(empty_url) as connection:
        before = await column(connection, OBJECTS)
        # End users may not create objects in the search path of the functions, as in databases of Postgres 14.
        await connection.execute("grant create on schema public to public")
        with pytest.raises(MigrationError, match="revoke create on schema public from public"):
            await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER)
        await connection.execute("revoke create on schema public from public")
        would = await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, dry_run=True)
        assert would.schema == load_files().schema
        assert would.functions == load_files().functions
        assert await column(connection, OBJECTS) == before
        # An upgrade is one transaction: the files before a bad one are undone too.
        with pytest.raises(MigrationError, match=re.escape("Migration 9000_half failed: division by zero")):
            await apply(empty_url, files=files(bad))
        assert await column(connection, OBJECTS) == before

        done = await asyncio.gather(*(apply(empty_url) for _ in range(4)))
        (one,) = [upgrade for upgrade in done if upgrade]
        assert one.schema == load_files().schema
        assert one.functions == load_files().functions
        assert await column(connection, VERSIONS) == expected
        before = await column(connection, OBJECTS)
        assert not await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, dry_run=True)
        assert await column(connection, OBJECTS) == before
    mended = replace(bad, sql="create table public.half ()")
    assert (await apply(empty_url, files=files(mended))).schema == (mended,)


FILL_SMALL_TABLES = """
insert into memoryd.ticks (name, scheduled_at, daemon_id)
select 'sweep', '2026-11-27T10:00:00Z'::timestamptz + n * interval '1 hour', gen_random_uuid() from generate_series(0, 2) n;
insert into memoryd.model_calls (hour, calls, tokens)
values ('2026-11-27T10:00:00Z', 9, 900), ('2026-11-27T11:00:00Z', 3, 700);
insert into memoryd.dense_indexes (source, index_name, lists, rows) values ('entries', 'entries_lists_100', 100, 60000);
insert into memoryd.daily_sizes (day, bytes, measured_at, source_rows)
values ('2026-11-26', 1, '2026-11-26T00:10:00Z', '{}'), ('2026-11-27', 2, '2026-11-27T00:10:00Z', '{"memory": 7}');
insert into memoryd.deleted_accounts (user_id) values ('00000000-0000-0000-0000-0000000000a1');
update memoryd.settings set value = 'false' where key = 'public_notifications';
"""


@pytest.mark.first_server
async def test_what_small_tables_had_is_kept_where_they_are_folded_together(empty_url: str) -> None:
    before = [file for file in load_files().schema if file.name != "fewer_tables"]
    await apply(empty_url, files=MigrationFiles(tuple(before), ()))
    async with connected(empty_url) as connection:
        await connection.execute(FILL_SMALL_TABLES)
        locks = await column(connection, "select name from memoryd.locks order by 1")
        await apply(empty_url)
        assert len(locks) > 600
        assert (
            await column(connection, "select lane from memoryd.lanes where topic = 'lock' order by 1")
            == locks
        )
        ticks = "select lane || to_char(not_before at time zone 'UTC', ' HH24') from memoryd.lanes where topic = 'tick'"
        assert await column(connection, ticks) == ["sweep 12"]
        rows = await connection.fetch("select key, value from memoryd.settings")
        kept = {row["key"]: row["value"] for row in rows}
        spent, index, sizes = (
            json.loads(kept[key]) for key in ("model_calls", "dense_index.entries", "sizes")
        )
        assert (spent["calls"], spent["tokens"]) == (3, 700)
        assert index == {"index_name": "entries_lists_100", "lists": 100, "rows": 60000}
        assert {day: size["bytes"] for day, size in sizes.items()} == {"2026-11-26": 1, "2026-11-27": 2}
        assert "deleted_account.00000000-0000-0000-0000-0000000000a1" in kept
        assert "public_notifications" not in kept


SIGNED = """
insert into memoryd.trail_keys (key_id, verifier) values ('\\x01', 'one'), ('\\x02', 'two');
insert into memoryd.trail_checkpoints (size, root, note, key_id)
select n, '\\x00', 'note ' || n, case when n < 3 then '\\x01' else '\\x02' end::bytea from generate_series(1, 4) n;
insert into memoryd.trail_ledgers (name, from_position, next_position, from_size)
values ('witness', 0, 0, 0), ('ipfs', 0, 0, 0);
insert into memoryd.trail_receipts (ledger, key, size, reference, final)
values ('witness', 'checkpoint/1', 1, 'cosigned', true), ('witness', 'checkpoint/2', 2, null, false),
       ('ipfs', 'checkpoint/2', 2, null, false);
"""


@pytest.mark.first_server
async def test_checkpoints_keep_who_signed_and_what_a_witness_signed(empty_url: str) -> None:
    schema = load_files().schema
    before = schema[: next(n for n, file in enumerate(schema) if file.name == "trail" and n > 20)]
    await apply(empty_url, files=MigrationFiles(before, ()))
    async with connected(empty_url) as connection:
        await connection.execute(SIGNED)
        await apply(empty_url)
        signers = "select verifier from memoryd.trail_checkpoints order by size"
        assert await column(connection, signers) == ["one", "one", "two", "two"]
        left = "select ledger || ' ' || key from memoryd.trail_receipts order by 1"
        assert await column(connection, left) == ["ipfs checkpoint/2", "witness checkpoint/1"]


# --- Where they do not fit.


@pytest.mark.first_server
async def test_a_database_of_another_checkout_of_a_newer_one_and_of_other_dimensions_is_refused(
    database_url: str,
) -> None:
    """Also where that checkout had more files than this one."""
    schema = load_files().schema
    changed = tuple(replace(m, checksum="0" * 64) if m.version == 3 else m for m in schema[:-1])
    with pytest.raises(MigrationError) as raised:
        await apply(database_url, files=replace(load_files(), schema=changed))
    assert str(raised.value) == (
        f"The database was made by another checkout of memoryd, whose 0003_{schema[2].name} differs from this one's: "
        "use that checkout for it, or give this one a new database, to which `memoryd export` there and "
        "`memoryd import` here take each user's memories."
    )
    before_last, last = load_files().schema[-2:]
    with pytest.raises(MigrationError) as raised:
        await apply(database_url, files=files(without_last=True))
    assert str(raised.value) == (
        f"The database's schema is newer than this memoryd: it has migration {last}, "
        f"this code ends at {before_last.version:04d}. Upgrade memoryd."
    )
    with pytest.raises(MigrationError, match="has embeddings of 256 dimensions, the embedder gives 64"):
        await apply(database_url, dimensions=64)


@pytest.mark.first_server
async def test_a_daemon_refuses_to_start_on_a_schema_that_does_not_fit(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await connection.execute(
        "insert into memoryd.migrations (version, name, checksum) values (9000, 'later', 'c')"
    )
    newer = await daemons.start(wait=False)
    assert await newer.process.wait() == 1
    await newer.stop()
    assert "The database's schema is newer than this memoryd" in newer.text()
    assert "Traceback" not in newer.text()


# --- Where pgvector lives.


@pytest.mark.first_server
@pytest.mark.parametrize(
    ("schema", "there_already"),
    [
        ("extensions", False),
        ('Odd "schema"', True),
    ],
)
async def test_pgvector_may_live_in_a_schema_of_its_own(
    server: Server, tmp_path: Path, schema: str, there_already: bool
) -> None:
    """Who makes pgvector is a superuser: an administrator before, or the daemon's own role."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(copied(server, BARE))
        by_admin = server.admin_url_of(urlsplit(url).path[1:])
        async with connected(by_admin) as admin:
            await admin.execute(f"create schema {quoted(schema)} authorization {server.owner}")
            if there_already:
                await admin.execute(f"create extension vector with schema {quoted(schema)}")
        url = url if there_already else by_admin
        daemons = Daemons(url, tmp_path)
        stack.push_async_callback(daemons.kill_all)
        await daemons.start()
        async with connected(url) as connection:
            where = "select extnamespace::regnamespace::text from pg_extension where extname = 'vector'"
            assert await connection.fetchval(where) in (schema, quoted(schema))
            await lives(connection)
            user = uuid.uuid4()
            await remember(connection, "my own bicycle", user_id=user)
            await until(connection, IDLE)
            async with acting_as(connection, user):
                assert await column(connection, "select content from recall('bicycle')") == ["my own bicycle"]
                assert "my own bicycle" in await connection.fetchval(
                    "select build_context('alice', 'bicycle')"
                )
                await connection.execute("update agent_memory set content = 'my own tricycle'")
            await until(connection, IDLE)
            assert await column(connection, UNINDEXED, None) == []


# --- While others use it, and when it ends in the middle.

GATE = """
create table public.gate as select true as closed;
create function public.wait_at_the_gate() returns event_trigger language plpgsql security definer as $$ begin
    while tg_tag = 'CREATE POLICY' and exists (select from public.gate) loop
        perform pg_sleep(0.02) /* at the gate */;
    end loop;
end $$;
create event trigger gate on ddl_command_end execute function wait_at_the_gate()
"""
NO_GATE = "drop event trigger gate; drop function wait_at_the_gate; drop table gate"
IN_THE_MIDDLE = """
select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep')
"""
ALONE = """
select not exists (select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
                   and application_name = 'memoryd')
"""
SHORT = """
alter table public.agents add constraint agents_short_check
    check (length(agent_id) < 5 or memoryd.refuse('agent_id is long', 'Give a shorter one.')) not valid
"""
WRITE = "insert into agent_memory (agent_id, content) values ($1, 'written during the upgrade')"


async def kill_in_the_middle(server: Server, url: str, folder: Path) -> None:
    """A `memoryd migrate`, when it makes policies. Only a superuser makes event triggers."""
    async with connected(server.admin_url_of(urlsplit(url).path[1:])) as admin:
        await admin.execute(GATE)
        process = await Commands(url, folder).start("migrate")
        await until(admin, IN_THE_MIDDLE)
        process.kill()
        await process.wait()
        await admin.execute("delete from public.gate")
        await until(admin, ALONE)
        await admin.execute(NO_GATE)


@pytest.mark.first_server
async def test_a_kill_in_the_middle_leaves_nothing_and_daemons_that_start_at_once_then_all_work(
    server: Server, empty_url: str, tmp_path: Path
) -> None:
    async with connected(empty_url) as connection:
        before = await column(connection, OBJECTS)
        await kill_in_the_middle(server, empty_url, tmp_path)
        assert await column(connection, OBJECTS) == before
        daemons = Daemons(empty_url, tmp_path)
        try:
            await asyncio.gather(*(daemons.start() for _ in range(3)))
            await lives(connection)
        finally:
            await daemons.kill_all()


@pytest.mark.first_server
async def test_an_upgrade_that_is_killed_in_the_middle_is_done_by_the_next_one(
    server: Server, database_url: str, tmp_path: Path
) -> None:
    ledger = "select name || ' ' || checksum from memoryd.function_files order by 1"
    policies = "select tablename || ' ' || policyname from pg_policies order by 1"
    async with connected(database_url) as connection:
        kept = await remember(connection, "the backup runs at four")
        expected = await column(connection, ledger), await column(connection, policies)
        await connection.execute("update memoryd.function_files set checksum = 'of before'")
        await connection.execute("drop policy own on agent_memory")
        before = await column(connection, ledger), await column(connection, policies)
        await kill_in_the_middle(server, database_url, tmp_path)
        assert (await column(connection, ledger), await column(connection, policies)) == before
        upgraded = await Commands(database_url, tmp_path)("migrate")
        assert upgraded.code == 0, upgraded.err
        assert (await column(connection, ledger), await column(connection, policies)) == expected
        assert await column(connection, "select id from agent_memory") == [kept]


async def test_a_row_that_breaks_a_new_check_is_named_and_the_upgrade_goes_on_once_it_is_mended(
    database_url: str,
) -> None:
    """The check holds for new rows at once; old ones are read while others work."""
    upgraded = files(Migration(9000, "short", SHORT, "c"))
    async with connected(database_url) as connection:
        await connection.execute("insert into agents (agent_id) values ('too long')")
        for _ in range(2):
            with pytest.raises(
                MigrationError, match="rows of agents break the check agents_short_check: agent_id is long"
            ):
                await apply(database_url, files=upgraded)
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("insert into agents (agent_id) values ('another long one')")
        await connection.execute("delete from agents where agent_id = 'too long'")
        assert not await apply(database_url, files=upgraded)
        assert await connection.fetchval(
            "select convalidated from pg_constraint where conname = 'agents_short_check'"
        )


async def test_writers_go_on_during_an_upgrade_and_no_row_is_forgotten(
    database_url: str, tmp_path: Path
) -> None:
    stop, written = asyncio.Event(), [0, 0, 0]

    async def write(number: int) -> None:
        async with connected(database_url) as connection:
            # A lock that stays makes this fail.
            await connection.execute("set lock_timeout = '30s'")
            while not stop.is_set():
                await connection.execute(WRITE, f"writer {number}")
                written[number] += 1
                await asyncio.sleep(0.05)  # else they keep the tables locked among themselves

    writers = [asyncio.create_task(write(number)) for number in range(len(written))]
    functions = load_files().functions
    touched = tuple(replace(f, sql=f.sql + "\n-- touched", checksum="touched") for f in functions)
    sql = "alter table agent_memory add column extra text; create index extra on agent_memory (extra)"
    async with connected(database_url) as connection:
        try:
            await until(connection, "select count(*) > 10 from agent_memory")
            done = await apply(
                database_url, files=replace(files(Migration(9000, "extra", sql, "c")), functions=touched)
            )
            assert (versions(done.schema), done.functions) == ([9000], touched)
            now = sum(written)
            await until(connection, "select count(*) > $1 from agent_memory", now + 10)
        finally:
            stop.set()
            await asyncio.gather(*writers)
        counted = "select count(*) from agent_memory where agent_id like 'writer %'"
        assert await connection.fetchval(counted) == sum(written)
        waiting = "select count(distinct ref) from memoryd.jobs where topic = 'index'"
        assert await connection.fetchval(waiting) == sum(written)
