"""Files of functions: applied again when one changed, what is gone from them dropped, and nothing else touched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import asyncpg
import pytest

from daemon.db import apply as applying
from daemon.db.errors import MigrationError
from daemon.db.migration_files import FunctionFile, Migration, MigrationFiles, checksum_of, load_files
from daemon.db.plan import is_newer
from daemon.queue.queue import COMPLETE
from tests.support.database.catalog import catalog
from tests.support.database.other_language import GermanWire
from tests.support.database.schemas import apply, connected
from tests.support.folders import server_folder
from tests.support.rows import DIMENSIONS, column
from tests.support.waiting import awaited

FUNCTIONS = (
    "select oid::regprocedure::text from pg_proc where pronamespace = 'memoryd'::regnamespace order by 1"
)
TRIGGERS = (
    "select tgname::text from pg_trigger where tgrelid = 'agents'::regclass and not tgisinternal order by 1"
)
POLICIES = "select polname::text from pg_policy where polrelid = 'agents'::regclass order by 1"
LEDGER = "select name, checksum, applied_at from memoryd.function_files order by name"

ONE = "create or replace function memoryd.one() returns integer language sql return 1;\n"
TWO = "create or replace function memoryd.two() returns integer language sql return memoryd.one() + 1;\n"


def with_files(**more: str) -> MigrationFiles:
    """This memoryd's files and these after them; `tables_x` is tables/x. Grants come last, as ever."""
    own = load_files().functions
    added = (
        FunctionFile(name.replace("tables_", "tables/"), sql, checksum_of(sql)) for name, sql in more.items()
    )
    return replace(load_files(), functions=(*own, *added))


async def test_functions_come_and_go_with_their_file_and_what_a_user_made_stays(
    database_url: str, connection: asyncpg.Connection
) -> None:
    before = await column(connection, FUNCTIONS)
    await connection.execute(
        "create function memoryd.mine() returns integer language sql return 7; "
        "create function public.mine() returns integer language sql return 8; "
        "create policy mine on agents for select to memoryd_user using (false); "
        "create view mine as select unnest(extract_keywords('the server')) as word; "
        # Of the names that ours have.
        "create table notes (secret boolean); alter table notes enable row level security; "
        "create policy own on notes as restrictive to memoryd_user using (not secret)"
    )
    await apply(database_url, files=with_files(numbers=ONE + TWO))
    assert await connection.fetchval("select memoryd.two()") == 2
    changed = with_files(numbers=ONE.replace("return 1", "return 11"))
    upgrade = await apply(database_url, files=changed)
    assert [file.name for file in upgrade.functions] == ["numbers"]
    assert upgrade.dropped == ("function memoryd.two()",)
    assert await connection.fetchval("select memoryd.one()") == 11
    assert not await apply(database_url, files=changed)
    upgrade = await apply(database_url)
    assert (upgrade.gone, upgrade.dropped) == (("numbers",), ("function memoryd.one()",))
    assert await column(connection, FUNCTIONS) == sorted([*map(str, before), "memoryd.mine()"])
    assert await connection.fetchval("select memoryd.mine() + public.mine()") == 15
    assert "mine" in await column(connection, POLICIES)
    assert await column(connection, "select word from mine") == ["server"]
    assert await column(connection, "select policyname from pg_policies where tablename = 'notes'") == ["own"]
    # A lost record of a file is made again.
    await connection.execute("delete from memoryd.function_files")
    assert await apply(database_url)
    assert await column(connection, FUNCTIONS) == sorted([*map(str, before), "memoryd.mine()"])
    assert not await apply(database_url)


async def test_an_overload_of_before_is_dropped_also_where_rights_are_given_after_it(
    database_url: str, connection: asyncpg.Connection
) -> None:
    """Rights to all functions are revoked in each upgrade, which writes also into functions that no file makes any more."""
    *own, grants = load_files().functions
    assert grants.name == "grants"

    def with_numbers(sql: str) -> MigrationFiles:
        numbers = FunctionFile("numbers", sql, checksum_of(sql))
        return replace(load_files(), functions=(*own, numbers, grants))

    await apply(database_url, files=with_numbers(ONE))
    await connection.execute("grant execute on function memoryd.one() to memoryd_user")
    more = ONE.replace("one()", "one(p_more integer default 0)")
    upgrade = await apply(database_url, files=with_numbers(more))
    assert upgrade.dropped == ("function memoryd.one()",)
    made = await column(connection, "select oid::regprocedure::text from pg_proc where proname = 'one'")
    assert made == ["memoryd.one(integer)"]
    assert await connection.fetchval("select memoryd.one()") == 1


async def test_what_a_numbered_file_drops_is_made_again_with_its_rights(
    database_url: str, connection: asyncpg.Connection
) -> None:
    """Also where no file of functions has changed."""
    before = await catalog(connection)
    sql = "drop view memoryd.searchable_by_users, memoryd.source_memory cascade; drop policy own on agent_memory"
    extra = Migration(9000, "extra", sql, "c")
    files = replace(load_files(), schema=(*load_files().schema, extra))
    assert (await apply(database_url, files=files)).schema == (extra,)
    assert await catalog(connection) == sorted([*before, "migration 9000 extra c"])


USED = """
create or replace function memoryd.one(p_a integer) returns integer language sql return p_a;
create or replace function memoryd.fires() returns trigger language plpgsql as $$ begin return new; end $$;
comment on function memoryd.one is 'One.';
"""
USES = """
create or replace view memoryd.ones as select memoryd.one(1) as one;
comment on view memoryd.ones is 'Ones.';
create or replace trigger uses after insert on public.agents for each row when (memoryd.one(1) = 2)
    execute function memoryd.fires();
create policy uses on public.agents for select to memoryd_user using (memoryd.one(1) = 2);
"""
CHANGES = (
    ("p_a", "p_b"),
    ("returns integer language sql return p_a", "returns bigint language sql return p_a::bigint"),
    ("one(p_a integer)", "one(p_a integer, p_more integer default 0)"),
    ("one(p_a integer)", "one(p_a bigint)"),
)


async def test_a_function_that_triggers_policies_and_views_use_may_change_in_any_language(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await apply(database_url, files=with_files(used=USED, tables_uses=USES))
    with server_folder() as folder:
        async with GermanWire(database_url, str(folder)) as german:
            await change_each(connection, german.url, CHANGES[1:3])
    await change_each(connection, database_url, CHANGES)
    upgrade = await apply(database_url)
    assert sorted(upgrade.gone) == ["tables/uses", "used"]
    assert "uses" not in await column(connection, TRIGGERS)


async def change_each(connection: asyncpg.Connection, url: str, changes: Sequence[tuple[str, str]]) -> None:
    """Applies each of these changes to the files, one after the other."""
    for before, after in changes:
        await apply(url, files=with_files(used=USED.replace(before, after), tables_uses=USES))
        made = await column(connection, "select oid::regprocedure::text from pg_proc where proname = 'one'")
        assert len(made) == 1
        assert await connection.fetchval("select one = 1 from memoryd.ones")
        assert "uses" in await column(connection, TRIGGERS)
        assert "uses" in await column(connection, POLICIES)


async def test_what_a_user_built_on_a_dropped_function_and_what_a_newer_memoryd_made_stop_the_upgrade(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await apply(database_url, files=with_files(numbers=ONE))
    version = await connection.fetchval(
        "select applied_by from memoryd.function_files where name = 'numbers'"
    )
    by = "update memoryd.function_files set applied_by = $1 where name = 'numbers'"
    await connection.execute(by, "9.1.0")
    with pytest.raises(
        MigrationError, match=r"are of memoryd 9\.1\.0, newer than this one .*Upgrade memoryd"
    ):
        await apply(database_url)
    await connection.execute(by, version)
    await connection.execute("create view public.mine as select memoryd.one() as one")
    with pytest.raises(
        MigrationError,
        match=r"^Something uses what this version drops .*: view mine depends on function memoryd\.one",
    ):
        await apply(database_url)
    assert await connection.fetchval("select one from mine") == 1
    await connection.execute("drop view mine")
    assert (await apply(database_url)).dropped == ("function memoryd.one()",)


async def test_an_error_in_a_file_undoes_the_whole_upgrade(
    database_url: str, connection: asyncpg.Connection
) -> None:
    before = await connection.fetch(LEDGER)
    bad = "create or replace function memoryd.bad() returns integer language sql return nothing;\n"
    with pytest.raises(MigrationError, match=r'functions/worse\.sql failed: column "nothing" does not exist'):
        await apply(database_url, files=with_files(numbers=ONE, worse=bad))
    assert await connection.fetch(LEDGER) == before
    assert "memoryd.one()" not in await column(connection, FUNCTIONS)


# --- What hangs on tables.

HANGING = """
create or replace trigger nothing after insert on public.agents for each row execute function memoryd.agent_disabled();
create policy nothing on public.agents for select to memoryd_user using (false);
"""


async def test_triggers_and_policies_come_and_go_with_their_file(
    database_url: str, connection: asyncpg.Connection
) -> None:
    triggers, policies = await column(connection, TRIGGERS), await column(connection, POLICIES)
    await apply(database_url, files=with_files(tables_more=HANGING))
    assert await column(connection, TRIGGERS) == sorted([*map(str, triggers), "nothing"])
    assert await column(connection, POLICIES) == sorted([*map(str, policies), "nothing"])
    upgrade = await apply(database_url, files=with_files(tables_more=HANGING + "-- changed"))
    assert upgrade.dropped == ()
    upgrade = await apply(database_url)
    assert upgrade.dropped == ("policy nothing on public.agents", "trigger nothing on public.agents")
    assert await column(connection, TRIGGERS) == triggers
    assert await column(connection, POLICIES) == policies


async def test_functions_are_replaced_while_tables_are_in_use(
    database_url: str, connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """Only what hangs on tables locks them, and those files are not applied again unless they changed."""
    async with connection.transaction():
        await connection.execute("insert into agent_memory (agent_id, content) values ('alice', 'x')")
        await apply(database_url, files=with_files(numbers=ONE))
        assert await second.fetchval("select memoryd.one()") == 1


async def test_an_upgrade_that_cannot_lock_the_tables_lets_others_work_and_tries_again(
    database_url: str, connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    reading = connection.transaction()
    await reading.start()
    await connection.execute("select count(*) from agent_memory")
    upgrade = asyncio.create_task(apply(database_url, files=with_files(tables_more=HANGING)))
    # Transactions that come meanwhile wait for less than half a second, however long the reader stays.
    await second.execute("set lock_timeout = '500ms'")
    for number in range(20):
        await second.execute("insert into agent_memory (agent_id, content) values ('alice', $1)", str(number))
    assert not upgrade.done()
    await reading.rollback()
    assert [file.name for file in (await upgrade).functions] == ["tables/more"]


async def test_a_transaction_left_open_is_named_after_a_while(
    database_url: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(applying, "LOCK_TRIES", 3)
    async with connection.transaction():
        await connection.execute("select count(*) from agents")
        with pytest.raises(
            MigrationError, match=r"Nothing was changed\. End what stands open.*pg_stat_activity"
        ):
            await apply(database_url, files=with_files(tables_more=HANGING))
    async with connected(database_url) as later:
        assert "nothing" not in await column(later, TRIGGERS)


async def test_who_searches_waits_for_an_upgrade_before_locking_anything(
    connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection
) -> None:
    """An upgrade locks this table first. Who had locked another before would wait for it, and it for them."""
    for reads in (
        "select * from recall('anything')",
        f"select * from recall('anything', query_embedding => array_fill(1, array[{DIMENSIONS}])::vector)",
        "select * from explain_recall('anything')",
        "select * from match_memory(query => 'anything')",
        "select build_context('alice', 'anything')",
        COMPLETE,
    ):
        arguments = ([1], [1]) if reads == COMPLETE else ()
        await second.fetch(reads, *arguments)
        async with connection.transaction():
            await connection.execute("lock table memoryd.logins in access exclusive mode")
            reading = asyncio.create_task(second.fetch(reads, *arguments))
            locks = (
                "select granted from pg_locks where pid = $1 and locktype = 'relation' and relation >= 16384"
            )
            while not (held := await column(third, locks, second.get_server_pid())):
                await asyncio.sleep(0)
        await reading
        assert held == [False]


async def test_a_try_that_fails_costs_nothing(
    database_url: str, connection: asyncpg.Connection, second: asyncpg.Connection, third: asyncpg.Connection
) -> None:
    """A table is in use while the upgrade wants it, and free a moment later."""
    before = await column(connection, FUNCTIONS)
    tries = awaited("l.relation = 'agent_memory'::regclass")
    views = next(file for file in load_files().functions if file.name == "tables/replica_entries")
    changed = replace(views, sql=views.sql + "-- changed", checksum="changed")
    functions = tuple(changed if file is views else file for file in load_files().functions)
    async with second.transaction():
        await second.execute("lock table agent_memory in access share mode")
        upgrade = asyncio.create_task(apply(database_url, files=replace(load_files(), functions=functions)))
        for waits in (True, False, True):
            while await third.fetchval(tries) is not waits:
                await asyncio.sleep(0)
    assert await upgrade
    assert await column(connection, FUNCTIONS) == before
    assert await connection.fetchval("select count(*) from conversation_history") == 0


@pytest.mark.parametrize(
    ("mine", "other", "newer"),
    [("0.1.0", "0.2.0", True), ("0.2.0", "0.2.0rc1", False), ("1.0.0", "1.0", False), ("1.9", "1.10", True)],
)
def test_versions_are_compared_by_their_numbers(mine: str, other: str, newer: bool) -> None:
    assert is_newer(other, than=mine) is newer
