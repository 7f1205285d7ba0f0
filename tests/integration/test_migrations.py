"""Migrations: each file once and whole, refused with one sentence where they do not fit; as superuser, owner or less."""

from __future__ import annotations

import asyncio
import re
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from daemon.embedded_postgres import EmbeddedPostgres
from daemon.migrator import Migration, MigrationError, load_migrations, migrate
from tests.conftest import DIMENSIONS, EMBEDDER
from tests.support.daemons import Daemons
from tests.support.rows import ask, column, insert, remember
from tests.support.waiting import IDLE, until

VERSIONS = "select version from memoryd.migrations order by version"
OBJECTS = """
select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
union all select extname from pg_extension union all select nspname from pg_namespace order by 1
"""
ROLES = "select rolname from pg_roles where rolname like 'memoryd%' order by 1"


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection for the block."""
    opened = await asyncpg.connect(url)
    try:
        yield opened
    finally:
        await opened.close()


async def apply(url: str, *, dimensions: int = DIMENSIONS, files: list[Migration] | None = None) -> list[int]:
    """Migrates; answers the versions applied."""
    async with connected(url) as connection:
        done = await migrate(connection, dimensions=dimensions, embedder=EMBEDDER, migrations=files)
    return [migration.version for migration in done]


async def lives(connection: asyncpg.Connection) -> None:
    """One command's whole way, as far as SQL can see it, and a dream."""
    command = await ask(connection, "deploy the staging server")
    await until(connection, "select status = 'ready' from agent_commands where id = $1", command)
    assert await connection.fetchval("select id from claim_command('alice')") == command
    await connection.execute("select complete_command($1, 'deployed build 512')", command)
    for text in ("staging server has 8 cores", "staging server is in Oslo"):
        await remember(connection, text, kind="fact", agent_id="_shared")
    await until(connection, IDLE)
    assert await connection.fetchval("select count(*) from agent_memory where embedding is not null") == 3
    assert await connection.fetchval("select count(*) from memory_associations") >= 1
    second = await ask(connection, "deploy the production server")
    await until(connection, "select context like '%build 512%' from agent_commands where id = $1", second)
    assert await connection.fetchval("select count(*) from recall('staging server')") == 3
    await connection.execute(
        "update agent_memory set content = 'staging server moved to Bergen' where content like '%Oslo'"
    )
    request = await insert(connection, "memory_requests", {"kind": "recall", "query": "Bergen"})
    dream = await insert(connection, "memory_requests", {"kind": "dream"})
    await until(
        connection,
        "select count(*) = 2 from memory_requests where id = any($1) and status = 'done'",
        [request, dream],
    )
    await connection.execute("select mark_useful(id, true) from memory_queries")
    await connection.execute("delete from agent_memory where agent_id = '_shared'")
    assert await connection.fetchval("select cleanup_expired_memory()") == 0
    assert await connection.fetchval("select count(*) from memoryd.dead_jobs") == 0


# --- Which files are applied.


async def test_each_file_is_applied_once_in_order(empty_url: str) -> None:
    versions = [migration.version for migration in load_migrations()]
    assert versions == list(range(1, len(versions) + 1))
    assert await apply(empty_url) == versions
    assert await apply(empty_url) == []
    async with connected(empty_url) as connection:
        assert await column(connection, VERSIONS) == versions


async def test_a_new_file_is_applied_on_top(empty_url: str) -> None:
    files = load_migrations()
    await apply(empty_url, files=files[:-1])
    assert await apply(empty_url) == [files[-1].version]
    extra = Migration(9000, "extra", "create table public.extra (v vector(:dimensions))", "c")
    assert await apply(empty_url, files=[*files, extra]) == [9000]
    async with connected(empty_url) as connection:
        assert (
            await connection.fetchval(
                "select atttypmod from pg_attribute where attrelid = 'extra'::regclass and attname = 'v'"
            )
            == DIMENSIONS
        )


async def test_ten_at_once_apply_each_file_once(empty_url: str) -> None:
    done = await asyncio.gather(*(apply(empty_url) for _ in range(10)))
    assert sorted(version for versions in done for version in versions) == [
        m.version for m in load_migrations()
    ]


async def test_daemons_that_start_at_once_on_an_empty_database_all_work(
    empty_url: str, tmp_path: Path
) -> None:
    daemons = Daemons(empty_url, tmp_path)
    try:
        await asyncio.gather(*(daemons.start() for _ in range(3)))
        async with connected(empty_url) as connection:
            await lives(connection)
    finally:
        await daemons.kill_all()


async def test_a_dry_run_changes_nothing(empty_url: str) -> None:
    async with connected(empty_url) as connection:
        before = await column(connection, OBJECTS)
        would = await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, dry_run=True)
        assert would == load_migrations()
        assert await column(connection, OBJECTS) == before
    await apply(empty_url)
    async with connected(empty_url) as connection:
        before = await column(connection, OBJECTS)
        assert await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, dry_run=True) == []
        assert await column(connection, OBJECTS) == before


async def test_a_file_that_fails_leaves_nothing_behind(empty_url: str) -> None:
    files = load_migrations()
    bad = Migration(
        9000, "half", "create table public.half (); select 1 / 0; create table public.other ()", "c"
    )
    with pytest.raises(MigrationError, match=re.escape("Migration 9000_half failed: division by zero")):
        await apply(empty_url, files=[*files, bad])
    async with connected(empty_url) as connection:
        assert await connection.fetchval("select to_regclass('public.half')") is None
        # Those before it stand, and the mended file goes on from there.
        assert await column(connection, VERSIONS) == [migration.version for migration in files]
    assert await apply(empty_url, files=[*files, replace(bad, sql="create table public.half ()")]) == [9000]


# --- Where they do not fit.


async def test_a_file_changed_after_it_was_applied_is_refused(database_url: str) -> None:
    files = load_migrations()
    changed = [replace(m, checksum="0" * 64) if m.version == 3 else m for m in files]
    expected = (
        f"Migration 0003_{files[2].name}.sql was changed after it was applied. "
        "Restore the file, and put the change into a new migration."
    )
    with pytest.raises(MigrationError) as raised:
        await apply(database_url, files=changed)
    assert str(raised.value) == expected


async def test_a_schema_newer_than_the_code_is_refused(database_url: str) -> None:
    files = load_migrations()
    with pytest.raises(MigrationError) as raised:
        await apply(database_url, files=files[:-1])
    assert str(raised.value) == (
        f"The database's schema is newer than this memoryd: it has migration {files[-1].version:04d}_{files[-1].name}, "
        f"this code ends at {files[-2].version:04d}. Upgrade memoryd."
    )


async def test_a_daemon_stops_at_a_schema_that_does_not_fit(
    connection: asyncpg.Connection, daemons: Daemons, empty_url: str
) -> None:
    await connection.execute(
        "insert into memoryd.migrations (version, name, checksum) values (9000, 'later', 'c')"
    )
    newer = await daemons.start(wait=False)
    assert await newer.process.wait() == 1
    await newer.stop()
    assert "The database's schema is newer than this memoryd" in newer.text()
    assert "Traceback" not in newer.text()


async def test_other_dimensions_are_refused(database_url: str) -> None:
    with pytest.raises(MigrationError, match="holds embeddings of 256 dimensions, the embedder gives 64"):
        await apply(database_url, dimensions=64)


# --- Where pgvector lives.


@pytest.mark.parametrize(
    ("schema", "there_already"), [("extensions", True), ("extensions", False), ("Odd schema", True)]
)
async def test_pgvector_may_live_in_a_schema_of_its_own(
    empty_url: str, tmp_path: Path, schema: str, there_already: bool
) -> None:
    async with connected(empty_url) as connection:
        await connection.execute(f'create schema "{schema}"')
        if there_already:
            await connection.execute(f'create extension vector with schema "{schema}"')
    daemons = Daemons(empty_url, tmp_path)
    try:
        await daemons.start()
        async with connected(empty_url) as connection:
            where = "select extnamespace::regnamespace::text from pg_extension where extname = 'vector'"
            assert (await connection.fetchval(where)).strip('"') == schema
            await lives(connection)
            user = uuid.uuid4()
            await remember(connection, "my own bicycle", user_id=user)
            await until(connection, IDLE)
            async with connection.transaction():
                await connection.execute("set local role memoryd_user")
                await connection.execute(
                    "select set_config('request.jwt.claims', $1, true)", f'{{"sub": "{user}"}}'
                )
                assert await column(connection, "select content from recall('bicycle')") == ["my own bicycle"]
                assert "my own bicycle" in await connection.fetchval(
                    "select build_context('alice', 'bicycle')"
                )
                await connection.execute("update agent_memory set content = 'my own tricycle'")
            await until(connection, IDLE)
            assert await connection.fetchval(
                "select embedding is not null from agent_memory where user_id = $1", user
            )
    finally:
        await daemons.kill_all()


# --- As whom: on a server of its own, where memoryd's roles do not exist yet.


class Lone:
    """A server with databases and roles of these tests' making."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self.admin_url = postgres.socket_url

    def url(self, database: str, user: str = "postgres") -> str:
        parts = urlsplit(self.admin_url)
        return urlunsplit(parts._replace(netloc=f"{user}@", path=f"/{database}"))

    async def run(self, *statements: str, database: str = "memoryd") -> None:
        """Runs statements as the superuser, each in its own transaction."""
        async with connected(self.url(database)) as connection:
            for statement in statements:
                await connection.execute(statement)


@pytest.fixture(scope="module")
def lone() -> Iterator[Lone]:
    # pytest's own folders are too long for a socket, and it closes them to other users with each new session.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        postgres = EmbeddedPostgres(Path(folder) / "data", options={"fsync": "off", "shared_buffers": "32MB"})
        postgres.start()
        try:
            yield Lone(postgres)
        finally:
            postgres.stop()


@pytest.fixture
async def without_roles(lone: Lone) -> AsyncIterator[Lone]:
    """The server before memoryd ever came; whatever a test makes of it is gone at the end."""
    yield lone
    async with connected(lone.admin_url) as connection:
        ours = "datname not in ('postgres', 'template0', 'template1', 'memoryd')"
        for name in await column(connection, f"select datname from pg_database where {ours}"):
            await connection.execute(f'drop database "{name}" with (force)')
        for role in await column(
            connection, "select rolname from pg_roles where rolname !~ '^(pg_|postgres$)'"
        ):
            await connection.execute(f'drop owned by "{role}" cascade; drop role "{role}"')


async def test_an_owner_that_may_create_roles_needs_no_superuser(without_roles: Lone, tmp_path: Path) -> None:
    lone = without_roles
    await lone.run("create role owner login createrole", "create database app owner owner")
    await lone.run("create extension if not exists vector", database="app")
    url = lone.url("app", "owner")
    daemons = Daemons(url, tmp_path)
    try:
        await daemons.start()
        async with connected(url) as connection:
            assert not await connection.fetchval("select rolsuper from pg_roles where rolname = current_user")
            assert await column(connection, ROLES) == ["memoryd_service", "memoryd_user"]
            await lives(connection)
    finally:
        await daemons.kill_all()


async def test_roles_that_exist_already_are_taken_as_they_are(without_roles: Lone) -> None:
    lone = without_roles
    await lone.run(
        "create role memoryd_service nologin", "create role memoryd_user nologin", "create role authenticated nologin",
        "grant memoryd_user to authenticated", "create role owner login", "grant memoryd_service to owner",
        "create database app owner owner",
    )  # fmt: skip
    await lone.run("create extension vector", database="app")
    url = lone.url("app", "owner")
    assert len(await apply(url)) == len(load_migrations())
    async with connected(url) as connection:
        await remember(connection, "kept by an ordinary owner")
        assert await connection.fetchval("select count(*) from agent_memory") == 1


async def test_an_owner_that_may_not_have_the_roles_is_told_what_is_missing(without_roles: Lone) -> None:
    lone = without_roles
    await lone.run("create role owner login", "create database app owner owner")
    await lone.run("create extension vector", database="app")
    with pytest.raises(MigrationError) as raised:
        await apply(lone.url("app", "owner"))
    assert "needs rights that this role lacks (permission denied to create role" in str(raised.value)
    assert "create role memoryd_service nologin" in str(raised.value)
    await lone.run("create role memoryd_service nologin", "create role memoryd_user nologin")
    with pytest.raises(MigrationError, match="grant memoryd_service to the owner"):
        await apply(lone.url("app", "owner"))
    await lone.run("grant memoryd_service to owner")
    assert await apply(lone.url("app", "owner")) == [m.version for m in load_migrations()][1:]


async def test_a_role_that_may_not_create_the_extension_is_told_what_to_ask_for(without_roles: Lone) -> None:
    lone = without_roles
    await lone.run("create role guest login", "create database app")
    with pytest.raises(MigrationError) as raised:
        await apply(lone.url("app", "guest"))
    assert str(raised.value) == (
        'The role "guest" may not create extension vector. Ask an administrator to run once, in this database: '
        "create extension vector with schema public"
    )
    await lone.run("create schema extensions", database="app")
    with pytest.raises(MigrationError, match="create extension vector with schema extensions"):
        await apply(lone.url("app", "guest"))
    await lone.run("create extension vector", database="app")
    with pytest.raises(
        MigrationError, match=r"needs rights that this role lacks .*permission denied for database app"
    ):
        await apply(lone.url("app", "guest"))


async def test_two_databases_of_a_new_server_may_be_migrated_at_once(without_roles: Lone) -> None:
    names = [f"app_{n}" for n in range(4)]
    await without_roles.run(*(f"create database {name}" for name in names))
    done = await asyncio.gather(*(apply(without_roles.url(name)) for name in names))
    assert done == [[m.version for m in load_migrations()]] * 4


async def test_supabases_roles_get_what_ours_have_and_no_more(without_roles: Lone) -> None:
    lone = without_roles
    await lone.run(
        "create role anon nologin", "create role authenticated nologin", "create role service_role nologin",
        "create database app",
    )  # fmt: skip
    await lone.run(
        "create schema extensions",
        *(
            f"alter default privileges in schema public grant all on {kind} to anon, authenticated, service_role"
            for kind in ("tables", "functions", "sequences")
        ),
        database="app",
    )
    await apply(lone.url("app"))
    async with connected(lone.url("app")) as connection:
        tables = (
            "select c.relname from pg_class c "
            "where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v') and {}"
        )
        for right in ("truncate", "references", "trigger"):
            assert (
                await column(
                    connection, tables.format(f"has_table_privilege('authenticated', c.oid, '{right}')")
                )
                == []
            )
        nothing = "has_table_privilege('anon', c.oid, 'select, insert, update, delete, truncate')"
        assert await column(connection, tables.format(nothing)) == []
        functions = (
            "select p.proname::text from pg_proc p where p.pronamespace = 'public'::regnamespace "
            "and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e') "
            "and has_function_privilege($1, p.oid, 'execute') order by 1"
        )
        assert await column(connection, functions, "anon") == []
        assert await column(connection, functions, "authenticated") == [
            "build_context",
            "extract_keywords",
            "recall",
        ]
        user, other = uuid.uuid4(), uuid.uuid4()
        await connection.execute("set role service_role")
        for owner in (user, other):
            await remember(connection, f"umbrella of {owner}", user_id=owner)
        await connection.execute("reset role")
        async with connection.transaction():
            await connection.execute("set local role authenticated")
            await connection.execute(
                "select set_config('request.jwt.claims', $1, true)", f'{{"sub": "{user}"}}'
            )
            assert await column(connection, "select content from recall('umbrella')") == [
                f"umbrella of {user}"
            ]
            assert await connection.fetchval("select count(*) from agent_memory") == 1
            assert f"of {other}" not in await connection.fetchval("select build_context('alice', 'umbrella')")
