"""memoryd tenant: databases made from a template, listed, and moved to another server."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from daemon.db.errors import DATABASE_FAULTS
from daemon.embedded.server import EmbeddedPostgres
from daemon.tenants.closing import hidden_name
from daemon.tenants.look import AT_ONCE
from daemon.tenants.target import MARK
from daemon.tenants.template import HALF, TEMPLATE
from tests.support.content.finished import all_done
from tests.support.database.schemas import apply, connected
from tests.support.database.servers import Server
from tests.support.database.templates import EMPTY, copied, unless_in_use
from tests.support.folders import server_folder
from tests.support.processes.commands import Commands, Finished
from tests.support.processes.daemons import Daemons
from tests.support.processes.forks import Process
from tests.support.rows import remember
from tests.support.waiting import until

SECRET = "s3cret-of-tenants"
RESTORING = """
select exists (select from pg_stat_activity
               where application_name = 'pg_restore' and datname = current_database() and wait_event_type = 'Lock')
"""
ROWS = """
select (select json_agg(to_jsonb(m) - 'score' order by m.id)::text from agent_memory m)
    || (select count(*)::text from memoryd.entries)
"""


class Tenants:
    """The commands, with a file of tenants that need not be there yet."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.file = folder / "tenants"
        self._commands = Commands("", folder)
        self._prefix = f"t{uuid.uuid4().hex[:8]}"

    def name(self, what: str) -> str:
        """A name that no other test has."""
        return f"{self._prefix}-{what}"

    async def __call__(self, *arguments: str, stdin: bytes = b"", **settings: object) -> Finished:
        """`memoryd tenant` with these arguments, at its end."""
        given = {"database_urls": self.file} | settings
        done = await self._commands("tenant", *arguments, stdin=stdin, **given)
        assert SECRET not in done.out + done.err
        return done

    async def begin(self, *arguments: str) -> Process:
        """The same, running."""
        return await self._commands.start("tenant", *arguments, database_urls=self.file)

    async def add(self, what: str) -> str:
        """A new tenant on the server of the tests; its URL."""
        name = self.name(what)
        done = await self("add", name, "--server", self.server.admin_url)
        assert done.code == 0, done.err
        return self.urls()[name]

    async def listed(self) -> dict[str, dict[str, object]]:
        """What `tenant list` says, by name."""
        return {one["name"]: one for one in (await self("list", "--json")).json}

    def urls(self) -> dict[str, str]:
        """What the file has."""
        lines = self.file.read_text("utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    async def drop(self) -> None:
        """All databases of this test."""
        async with connected(self.server.admin_url) as admin:
            made = "select datname from pg_database where datname like '%' || $1 || '%'"
            for (name,) in await admin.fetch(made, self._prefix):
                await admin.execute(f'drop database "{name}" with (force)')


@pytest.fixture
async def tenants(server: Server, tmp_path: Path) -> AsyncIterator[Tenants]:
    """No tenant yet."""
    made = Tenants(server, tmp_path)
    yield made
    await made.drop()


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The URL of a second server, with a password in it."""
    with server_folder() as folder:
        postgres = EmbeddedPostgres(folder / "data")
        postgres.start()
        yield postgres.tcp_url
        postgres.stop("immediate")


@asynccontextmanager
async def role(admin: asyncpg.Connection, *, may: str) -> AsyncIterator[str]:
    """A login with a password."""
    name = f"role_{uuid.uuid4().hex[:8]}"
    await admin.execute(f"create role {name} login {may} password '{SECRET}'")
    try:
        yield name
    finally:
        await admin.execute(f"drop role {name}")


def named(url: str, database: str) -> str:
    """The same URL with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def as_role(url: str, name: str) -> str:
    """The same URL for a role of this test."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}:{SECRET}@{parts.netloc.rpartition('@')[2]}"))


async def rows_of(url: str) -> str:
    """What is remembered, as text."""
    async with connected(url) as opened:
        return str(await opened.fetchval(ROWS))


async def is_open(url: str) -> bool:
    """Whether a client gets in."""
    try:
        async with connected(url):
            return True
    except (asyncpg.InvalidCatalogNameError, asyncpg.ObjectNotInPrerequisiteStateError):
        return False


async def filled(url: str, folder: Path) -> None:
    """Three memories, indexed by a daemon."""
    async with connected(url) as opened:
        for text in ("the certificate is purple", "the staging server is in Oslo", "builds need wombats"):
            await remember(opened, text, agent_id="alice")
        daemons = Daemons(url, folder)
        try:
            await daemons.start()
            await all_done(opened)
        finally:
            await daemons.kill_all()


async def recalled(url: str, folder: Path) -> list[object]:
    """What a question finds."""
    done = await Commands(url, folder)("recall", "purple certificate of the server", "--json")
    assert done.code == 0, done.err
    return [(one["content"], one["score"]) for one in done.json]


# --- add


async def test_the_first_tenant_names_the_server_and_the_next_ones_need_not(tenants: Tenants) -> None:
    none = await tenants("list")
    assert (none.code, "no tenant yet" in none.out) == (0, True)
    refused = await tenants("add", tenants.name("one"))
    assert (refused.code, "--server" in refused.err) == (2, True)
    one, two = await tenants.add("one"), tenants.name("two")
    assert tenants.file.stat().st_mode & 0o777 == 0o600
    tenants.file.write_text(f"# ours\n{tenants.file.read_text()}\n# end\n")
    tenants.file.chmod(0o640)
    done = await tenants("add", two)
    assert done.code == 0, done.err
    assert (
        done.out
        == f"{two}: {urlsplit(one).query.partition('=')[2].partition('&')[0].replace('%2F', '/')}, database {two}\n"
    )
    assert "kill -HUP PID" in done.err
    assert tenants.file.read_text().startswith("# ours\n")
    assert tenants.file.stat().st_mode & 0o777 == 0o640
    assert tenants.urls() == {tenants.name("one"): one, two: named(one, two)}
    assert sorted(path.name for path in tenants.file.parent.glob("tenants*")) == ["tenants", "tenants.lock"]
    listed = await tenants.listed()
    assert [(each["reachable"], each["up_to_date"], each["schema_version"]) for each in listed.values()] == [
        (True, True, 15)
    ] * 2
    again = await tenants("add", two)
    assert (again.code, "already" in again.err) == (2, True)
    # Roles are of the whole server: one tenant's get into no other's database.
    async with connected(tenants.server.admin_url) as admin, role(admin, may="") as stranger:
        assert not await admin.fetchval("select has_database_privilege($1, $2, 'connect')", stranger, two)


async def test_a_new_tenant_works_at_once(tenants: Tenants, tmp_path: Path) -> None:
    url = await tenants.add("one")
    await filled(url, tmp_path)
    assert (await recalled(url, tmp_path))[0][0] == "the certificate is purple"  # type: ignore[index]
    checked = await Commands(url, tmp_path)("doctor", "--json")
    assert [one["name"] for one in checked.json if one["verdict"] == "problem"] == ["daemons"]


async def test_tenants_share_nothing_that_two_databases_have_each_for_itself(
    tenants: Tenants, server: Server
) -> None:
    async with copied(server, EMPTY) as one, copied(server, EMPTY) as other:
        await apply(one)
        await apply(other)
        first, second = await values_of(one), await values_of(other)
        own = {key for key in first if first[key] != second[key]}
    assert own == {"settings log_key", "trail id", "replica id"}
    first, second = await values_of(await tenants.add("one")), await values_of(await tenants.add("two"))
    assert {key for key in first if first[key] != second[key]} == own


async def values_of(url: str) -> dict[str, object]:
    """Each value of a database without rows of users, times left out."""
    found: dict[str, object] = {}
    async with connected(url) as opened:
        tables = "select tablename from pg_tables where schemaname = 'memoryd' and tablename <> 'tokens'"
        for (table,) in await opened.fetch(tables):
            for (text,) in await opened.fetch(f"select to_jsonb(t)::text from memoryd.{table} t"):
                row = {key: value for key, value in json.loads(text).items() if not key.endswith("_at")}
                if table in ("trail", "replica"):
                    found |= {f"{table} {key}": value for key, value in row.items()}
                elif row.get("key") != "tokens":
                    found[f"{table} {row.get('key', row)}"] = row
    return found


async def test_two_at_once_make_one_template_and_lose_nothing(tenants: Tenants) -> None:
    async with connected(tenants.server.admin_url) as admin:
        await unless_in_use(lambda: admin.execute(f"drop database if exists {TEMPLATE}"))
        names = [tenants.name(what) for what in ("one", "two", "same", "same")]
        done = await asyncio.gather(
            *(tenants("add", name, "--server", tenants.server.admin_url) for name in names)
        )
        assert [each.code for each in done[:2]] == [0, 0], [each.err for each in done]
        assert sorted(each.code for each in done[2:]) == [0, 1]
        assert set(tenants.urls()) == set(names)
        left = "select datname from pg_database where starts_with(datname, 'memoryd_template_half')"
        assert not await admin.fetch(left)
    assert all(one["up_to_date"] for one in (await tenants.listed()).values())


async def test_a_template_of_other_functions_is_made_again(tenants: Tenants) -> None:
    await tenants.add("one")
    oid = "select oid from pg_database where datname = $1"
    async with connected(tenants.server.admin_url) as admin:
        before = await admin.fetchval(oid, TEMPLATE)
        await admin.execute(f"comment on database {TEMPLATE} is 'memoryd template of another version'")
        url = await tenants.add("two")
        assert await admin.fetchval(oid, TEMPLATE) != before
        assert not await admin.fetchval("select datallowconn from pg_database where datname = $1", TEMPLATE)
    remote = "openai/text-embedding-3-small"
    done = await tenants("add", tenants.name("other"), embedder=remote, openai_api_key="none")
    assert done.code == 0, done.err
    ask = "select value #>> '{}' from memoryd.settings where key = 'embedder'"
    for each, model in (
        (url, "local/wordllama-256"),
        (named(url, tenants.name("other")), remote),
    ):
        async with connected(each) as opened:
            assert await opened.fetchval(ask) == model


@pytest.mark.parametrize("name", ['a"b', "a'b", "../x", "A b", "-x", "a=b", "memoryd_template"])
async def test_a_bad_name_makes_nothing(name: str, tenants: Tenants) -> None:
    done = await tenants("add", "--server", tenants.server.admin_url, "--", name)
    assert done.code == (1 if name == "memoryd_template" else 2)
    assert len(done.sentences) == 1
    assert not tenants.file.exists()


async def test_the_setting_must_name_a_file(tenants: Tenants) -> None:
    inline = f"one={tenants.server.admin_url}"
    for arguments in (("add", "two"), ("move", "one", tenants.server.admin_url), ("move", "one", "--undo")):
        done = await tenants(*arguments, database_urls=inline)
        assert (done.code, "into a file" in done.err) == (2, True), done.err
    # To list them needs no file.
    assert (await tenants("list", "--json", database_urls=inline)).json[0]["name"] == "one"


async def test_a_file_that_is_half_written_stays_as_it_is(tenants: Tenants) -> None:
    url = tenants.server.admin_url
    for half in (f"a={url}\nb=postgresql://u:{SECRET}@h/x", f"a={url}\nb\n", "a\0=\xff\n"):
        tenants.file.write_text(half, "latin-1")
        for arguments in (("add", tenants.name("one"), "--server", url), ("list",), ("move", "a", url)):
            done = await tenants(*arguments)
            assert done.code == 1, (half, arguments, done.err)
            assert len(done.sentences) == 1
        assert tenants.file.read_text("latin-1") == half
    async with connected(url) as admin:
        assert not await admin.fetchval(
            "select exists (select from pg_database where datname = $1)", tenants.name("one")
        )


async def test_what_is_wrong_with_the_server_is_one_sentence(tenants: Tenants) -> None:
    url, name = tenants.server.admin_url, tenants.name("one")
    async with connected(url) as admin, role(admin, may="nocreatedb") as stranger:
        done = await tenants("add", name, "--server", as_role(url, stranger))
        assert (done.code, f'alter role "{stranger}" createdb' in done.err) == (1, True), done.err
    for given, said in (
        (f"postgresql://u:{SECRET}@127.0.0.1:1", "cannot be reached"),
        (f"postgresql://u:{SECRET}/x@127.0.0.1:1/db", "cannot be read"),
        (f"mysql://u:{SECRET}@127.0.0.1:1/db", "cannot be read"),
        (f"postgresql://u:{SECRET}@127.0.0.1:1/a b?x= y", "white space"),
    ):
        done = await tenants("add", name, "--server", "-", stdin=f"{given}\n".encode())
        assert (done.code, said in done.err) == (1, True), (given, done.err)
        assert len(done.sentences) == 1
    assert not tenants.file.exists()


async def test_a_database_that_a_killed_add_left_is_taken_and_another_one_is_not(tenants: Tenants) -> None:
    first = await tenants.add("first")
    async with connected(tenants.server.admin_url) as admin:
        for what in ("left", "rows"):
            await admin.execute(f'create database "{tenants.name(what)}" template {TEMPLATE}')
        await admin.execute(f'create database "{tenants.name("empty")}" template template0')
        async with connected(named(first, tenants.name("left"))) as opened:
            copy_of = await opened.fetchval("select id from memoryd.trail")
        url = await tenants.add("left")
        async with connected(url) as opened:
            assert await opened.fetchval("select id from memoryd.trail") != copy_of
        async with connected(named(first, tenants.name("rows"))) as opened:
            await remember(opened, "one")
        before = tenants.file.read_text()
        for what, said in (("rows", "has rows"), ("empty", "no new one of memoryd")):
            done = await tenants("add", tenants.name(what))
            assert (done.code, said in done.err) == (1, True), done.err
        assert tenants.file.read_text() == before
    async with connected(named(first, tenants.name("rows"))) as opened:
        assert await opened.fetchval("select count(*) from agent_memory") == 1


# --- list


async def test_the_list_says_which_tenants_cannot_be_reached(tenants: Tenants) -> None:
    one = await tenants.add("one")
    gone = tenants.name("gone")
    with tenants.file.open("a") as file:
        file.write(f"{gone}={named(one, gone)}\nrefused=postgresql://u:{SECRET}@127.0.0.1:1/x\n")
    done = await tenants("list", "--json")
    assert done.code == 1
    found = {each["name"]: each for each in done.json}
    assert (found[gone]["reachable"], "--undo" in found[gone]["error"]) == (False, True)
    assert found["refused"]["host"] == "127.0.0.1:1"
    assert found[tenants.name("one")]["bytes"] > 1_000_000
    shown = await tenants("list")
    assert shown.code == 1
    assert len(shown.out.splitlines()) == 4


async def test_a_server_that_says_nothing_is_given_up_and_few_are_asked_at_once(tenants: Tenants) -> None:
    most = now = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await reader.read()
        now -= 1
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        lines = [f"t{n}=postgresql://u@127.0.0.1:{port}/d{n}?sslmode=disable\n" for n in range(AT_ONCE + 1)]
        tenants.file.write_text("".join(lines))
        done = await tenants("list", "--json")
    assert done.code == 1
    assert {one["error"] for one in done.json} == {"no answer within 5 s"}
    assert most == AT_ONCE


# --- move


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
        await fails(as_role(fresh, stranger), "pg_restore failed")
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
        assert (refused.code, HALF in refused.err, "create extension vector" in refused.err) == (
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
