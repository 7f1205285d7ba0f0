"""Roles that memoryd may be installed and run as: superuser, an ordinary owner, less than that, beside Supabase's roles."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from daemon.db.migration_files import load_files
from daemon.db.plan import MigrationError
from daemon.embedded.server import EmbeddedPostgres
from tests.support.access.acting import acting_as
from tests.support.database.schemas import apply, connected, lives
from tests.support.database.servers import Server
from tests.support.folders import server_folder
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, remember

ROLES = "select rolname from pg_roles where rolname like 'memoryd%' order by 1"


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
def lone(server: Server) -> Iterator[Lone]:
    with server_folder() as folder:
        options = {"fsync": "off", "shared_buffers": "32MB"}
        postgres = EmbeddedPostgres(folder, options=options, programs=server.programs)
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
            assert await column(connection, ROLES) == ["memoryd_admin", "memoryd_service", "memoryd_user"]
            await lives(connection)
    finally:
        await daemons.kill_all()


async def test_a_function_of_another_role_is_left_to_its_owner(without_roles: Lone, tmp_path: Path) -> None:
    lone = without_roles
    await lone.run(
        "create role owner login createrole", "create role other", "create database app owner owner"
    )
    await lone.run("create extension vector", database="app")
    await apply(lone.url("app", "owner"))
    await lone.run(
        "create function recall(integer) returns integer language sql return 1",
        "alter function recall(integer) owner to other",
        database="app",
    )
    memoryd = Commands(lone.url("app", "owner"), tmp_path)
    statement = 'alter routine recall(integer) set schema "memoryd_adopted"'
    (wrong,) = [one for one in (await memoryd("doctor", "--json")).json if one["name"] == "overloads"]
    assert wrong["verdict"] == "problem"
    assert wrong["advice"].startswith("Their owner (other) or a superuser runs: ")
    assert wrong["advice"].endswith(statement)
    refused = await memoryd("migrate", "--repair")
    assert refused.code == 1
    assert statement in refused.err
    await lone.run("create schema if not exists memoryd_adopted", statement, database="app")
    assert (await memoryd("migrate", "--repair")).code == 0


async def test_existing_roles_are_used_unchanged(without_roles: Lone) -> None:
    lone = without_roles
    await lone.run(
        "create role memoryd_service nologin", "create role memoryd_user nologin",
        "create role memoryd_admin nologin", "create role authenticated nologin",
        "grant memoryd_user to authenticated", "create role owner login", "grant memoryd_service to owner",
        "create database app owner owner",
    )  # fmt: skip
    await lone.run("create extension vector", database="app")
    url = lone.url("app", "owner")
    assert (await apply(url)).schema == load_files().schema
    async with connected(url) as connection:
        await remember(connection, "kept by an ordinary owner")
        assert await connection.fetchval("select count(*) from agent_memory") == 1


async def test_an_owner_without_the_roles_is_refused_with_the_missing_statements(without_roles: Lone) -> None:
    lone = without_roles
    await lone.run("create role owner login", "create database app owner owner")
    await lone.run("create extension vector", database="app")
    with pytest.raises(MigrationError) as raised:
        await apply(lone.url("app", "owner"))
    assert "needs rights that this role lacks (permission denied to create role" in str(raised.value)
    assert "create role memoryd_service nologin" in str(raised.value)
    await lone.run(
        "create role memoryd_service nologin",
        "create role memoryd_user nologin",
        "create role memoryd_admin nologin",
    )
    with pytest.raises(MigrationError, match="grant memoryd_service to the owner"):
        await apply(lone.url("app", "owner"))
    await lone.run("grant memoryd_service to owner")
    assert (await apply(lone.url("app", "owner"))).schema == load_files().schema


async def test_a_role_that_may_not_create_the_extension_is_refused_with_advice(without_roles: Lone) -> None:
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
    assert [upgrade.schema for upgrade in done] == [load_files().schema] * 4


async def test_supabases_roles_get_exactly_the_rights_of_memoryds_roles(without_roles: Lone) -> None:
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
        usable = await column(connection, functions, "authenticated")
        assert "recall" in usable
        assert usable == await column(connection, functions, "memoryd_user")
        user, other = uuid.uuid4(), uuid.uuid4()
        async with acting_as(connection, None, role="service_role"):
            for owner in (user, other):
                await remember(connection, f"umbrella of {owner}", user_id=owner)
        async with acting_as(connection, user, role="authenticated"):
            assert await column(connection, "select content from recall('umbrella')") == [
                f"umbrella of {user}"
            ]
            assert await connection.fetchval("select count(*) from agent_memory") == 1
            assert f"of {other}" not in await connection.fetchval("select build_context('alice', 'umbrella')")
