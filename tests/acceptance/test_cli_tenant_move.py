"""memoryd tenant move: a tenant at another place, or, whatever goes wrong, where it was."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from daemon.db.errors import DATABASE_FAULTS
from daemon.tenants.closing import hidden_name
from daemon.tenants.target import MARK
from daemon.tenants.template import HALF
from tests.support.content.finished import all_done
from tests.support.database.schemas import connected
from tests.support.processes.daemons import Daemons
from tests.support.processes.forks import Process
from tests.support.processes.tenants import (
    SECRET,
    Tenants,
    as_role,
    filled,
    is_open,
    named,
    recalled,
    role,
    rows_of,
)
from tests.support.rows import remember
from tests.support.waiting import until

RESTORING = """
select exists (select from pg_stat_activity
               where application_name = 'pg_restore' and datname = current_database() and wait_event_type = 'Lock')
"""


async def test_a_tenant_that_is_moved_remembers_the_same(
    tenants: Tenants, elsewhere: str, tmp_path: Path
) -> None:
    old = await tenants.add("one")
    name, other = tenants.name("one"), await tenants.add("other")
    await filled(old, tmp_path)
    async with connected(tenants.server.admin_url) as admin:
        await admin.execute(f"alter database \"{name}\" set app.tenant to 'it''s'")
    before = (await recalled(old, tmp_path), await rows_of(old))
    new = named(elsewhere, "moved-here")
    client = await asyncpg.connect(old)
    done = await tenants("move", name, "-", stdin=f"{new}\n".encode())
    assert done.code == 0, done.err
    assert client.is_closed()
    assert str(urlsplit(elsewhere).password) not in done.out + done.err
    assert f'drop database "{name}"' in done.err
    assert tenants.urls() == {name: new, tenants.name("other"): other}
    assert (await recalled(new, tmp_path), await rows_of(new)) == before
    assert not await is_open(old)
    async with connected(new) as opened:
        assert await opened.fetchval("select current_setting('app.tenant')") == "it's"
        may = "select has_database_privilege('memoryd_user', current_database(), 'connect')"
        assert not await opened.fetchval(may)
    # What was left of the old one is closed, and can be dropped as the command says.
    assert sorted(path.name for path in tenants.file.parent.glob("tenants*")) == ["tenants", "tenants.lock"]
    async with connected(tenants.server.admin_url) as admin:
        await admin.execute(f'drop database "{name}"')
    assert all(one["up_to_date"] for one in (await tenants.listed()).values())


async def test_what_was_written_until_it_was_closed_is_there_after_it(tenants: Tenants) -> None:
    old, name = await tenants.add("one"), tenants.name("one")
    writers = [await asyncpg.connect(old) for _ in range(3)]
    begun = asyncio.Event()

    async def write(writer: asyncpg.Connection) -> int:
        """Until it is disconnected."""
        written = 0
        try:
            while True:
                await remember(writer, f"{id(writer)} {written}", agent_id="alice")
                written += 1
                begun.set()
        except DATABASE_FAULTS:
            return written

    writing = [asyncio.create_task(write(writer)) for writer in writers]
    await begun.wait()
    new = named(old, tenants.name("two"))
    done = await tenants("move", name, new)
    assert done.code == 0, done.err
    # What a client was told of is there; of the last statement of each it was perhaps not told.
    told = sum(await asyncio.gather(*writing))
    async with connected(new) as opened:
        assert told <= await opened.fetchval("select count(*) from agent_memory") <= told + len(writers)


@asynccontextmanager
async def held_up(
    tenants: Tenants, *, before: Callable[[str], Awaitable[object]] | None = None
) -> AsyncIterator[tuple[Process, str, str, str]]:
    """A move that waits in the restore: the process, the tenant's name, its old URL, its new one."""
    old, name, target = await tenants.add("one"), tenants.name("one"), tenants.name("two")
    if before is not None:
        await before(old)
    async with connected(old) as opened:
        await remember(opened, "wombat", agent_id="alice")
    new = named(old, target)
    async with connected(tenants.server.admin_url) as admin:
        await admin.execute(f'create database "{target}" template template0')
    async with connected(new) as blocker, connected(new) as watcher:
        blocks = blocker.transaction()
        await blocks.start()
        await blocker.execute("create schema memoryd")
        process = await tenants.begin("move", name, new)
        await until(watcher, RESTORING)
        assert not await is_open(old)
        yield process, name, old, new
        if not blocker.is_closed():
            await blocks.rollback()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_opens_the_old_one_again(number: int, code: int, tenants: Tenants) -> None:
    async with held_up(tenants) as (process, name, old, _):
        at_work = await tenants("move", name, named(old, "other"))
        assert (at_work.code, "at work" in at_work.err) == (1, True), at_work.err
        process.send_signal(number)
        _, err = await process.communicate()
        assert (process.returncode, b"Traceback" in err) == (code, False)
        assert "wombat" in await rows_of(old)
        assert tenants.urls() == {name: old}


@pytest.mark.parametrize("way", ["undo", "move"])
async def test_after_a_kill_the_old_one_is_brought_back(way: str, tenants: Tenants) -> None:
    async with held_up(tenants) as (process, name, old, new):
        process.kill()
        await process.communicate()
        assert tenants.urls() == {name: old}
        listed = await tenants("list")
        assert (listed.code, "--undo" in listed.out) == (1, True)
        if way == "undo":
            done = await tenants("move", name, "--undo")
            assert done.code == 0, done.err
            assert "wombat" in await rows_of(old)
            again = await tenants("move", name, "--undo")
            assert (again.code, "Nothing is to be undone" in again.out) == (0, True)
    if way == "move":
        async with connected(tenants.server.admin_url) as admin:
            target = urlsplit(new).path[1:]
            await admin.execute(f'drop database "{target}" with (force)')
            # As a kill leaves one that the move itself has made.
            await admin.execute(f'create database "{target}" template template0')
            await admin.execute(f"comment on database \"{target}\" is '{MARK}'")
            async with connected(new) as opened:
                await opened.execute("create schema memoryd")
        done = await tenants("move", name, new)
        assert done.code == 0, done.err
        assert "wombat" in await rows_of(new)
        assert tenants.urls() == {name: new}


async def test_a_kill_while_it_is_closed_is_undone(tenants: Tenants) -> None:
    """The states that a kill may leave between two statements, one after the other."""
    old, name = await tenants.add("one"), tenants.name("one")
    hidden = hidden_name(name)
    async with connected(tenants.server.admin_url) as admin:
        for statements in (
            [f'alter database "{name}" with allow_connections false'],
            [f'alter database "{name}" rename to "{hidden}"'],
            [
                f'alter database "{name}" rename to "{hidden}"',
                f'alter database "{hidden}" with allow_connections false',
            ],
        ):
            for statement in statements:
                await admin.execute(statement)
            assert not await is_open(old)
            done = await tenants("move", name, "--undo")
            assert done.code == 0, done.err
            assert await is_open(old)


async def test_a_move_that_fails_changes_nothing(tenants: Tenants) -> None:
    old, name = await tenants.add("one"), tenants.name("one")
    other = await tenants.add("other")
    async with connected(old) as opened:
        await remember(opened, "wombat", agent_id="alice")
        await opened.execute("create schema app; create table app.mine (id integer)")
    async with connected(tenants.server.admin_url) as admin, role(admin, may="nocreatedb") as stranger:
        for what in ("rows", "clash"):
            await admin.execute(f'create database "{tenants.name(what)}" template template0')
        async with connected(named(old, tenants.name("rows"))) as opened:
            await opened.execute("create table mine as select 1")
        async with connected(named(old, tenants.name("clash"))) as opened:
            await opened.execute("create view agents as select 1")
        before, fresh = tenants.file.read_text(), named(old, tenants.name("fresh"))

        async def fails(url: str, said: str) -> None:
            done = await tenants("move", name, url)
            assert (done.code, said in done.err) == (1, True), done.err
            assert len([one for one in done.sentences if "..." not in one]) >= 1
            assert tenants.file.read_text() == before
            assert "wombat" in await rows_of(old)

        await fails(fresh, "more than the schemas public and memoryd (app.mine)")
        async with connected(old) as opened:
            await opened.execute("drop schema app cascade")
        await fails(old, "is there already")
        await fails(other, "two names for one database")
        await fails(named(old, tenants.name("rows")), "has rows (public.mine)")
        await fails(named(old, tenants.name("clash")), "pg_restore failed, and nothing was restored")
        await fails(f"postgresql://u:{SECRET}@127.0.0.1:1/x", "cannot be reached")
        await fails(as_role(fresh, stranger), "may not create databases")
        await admin.execute(f"alter role {stranger} createdb")
        await fails(as_role(fresh, stranger), "create extension if not exists vector")
        # What the move made is gone.
        assert not await admin.fetchval(
            "select exists (select from pg_database where datname = $1)", tenants.name("fresh")
        )


async def test_only_who_may_close_a_database_moves_it(tenants: Tenants) -> None:
    old, name = await tenants.add("one"), tenants.name("one")
    async with connected(tenants.server.admin_url) as admin, role(admin, may="nocreatedb") as stranger:
        tenants.file.write_text(f"{name}={as_role(old, stranger)}\n")
        done = await tenants("move", name, named(old, tenants.name("two")))
        assert (done.code, "may not close the database" in done.err) == (1, True), done.err
    assert await is_open(old)
    missing = await tenants("move", "nobody", old)
    assert missing.code == 2


async def test_a_daemon_waits_for_a_database_whose_move_is_undone(tenants: Tenants, tmp_path: Path) -> None:
    daemons = Daemons("", tmp_path)
    try:
        async with held_up(tenants, before=lambda old: daemons.start(url=old)) as (process, _, old, _):
            process.send_signal(signal.SIGINT)
            await process.communicate()
            async with connected(old) as opened:
                await remember(opened, "after the move", agent_id="alice")
                await all_done(opened)
    finally:
        await daemons.kill_all()


async def test_no_superuser_is_needed_but_for_the_extension(tenants: Tenants, elsewhere: str) -> None:
    async with connected(elsewhere) as admin:
        await admin.execute(f"create role owner login createdb createrole password '{SECRET}'")
        server = as_role(elsewhere, "owner")
        refused = await tenants("add", "one", "--server", server)
        assert (
            refused.code,
            HALF in refused.err,
            "create extension if not exists vector" in refused.err,
        ) == (
            1,
            True,
            True,
        )
        await admin.execute("create database two owner owner template template0")
        for name in (HALF, "two"):
            async with connected(named(elsewhere, name)) as opened:
                await opened.execute("create extension vector")
    done = await tenants("add", "one", "--server", server)
    assert done.code == 0, done.err
    async with connected(named(server, "one")) as opened:
        await remember(opened, "wombat", agent_id="alice")
        done = await tenants("move", "one", named(server, "two"))
        assert done.code == 0, done.err
    assert "wombat" in await rows_of(named(server, "two"))
    assert not await is_open(named(server, "one"))
