"""Roles that memoryd may be installed and run as: superuser, an ordinary owner, less than that, beside Supabase's roles."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from plugins.embedded.server import EmbeddedPostgres
from tests.support.access.acting import ANN, BOB, CAT, acting_as
from tests.support.database.schemas import apply, connected, lives
from tests.support.database.servers import Server
from tests.support.folders import server_folder
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, remember

GIVEN = (
    "create role memoryd_service nologin", "create role memoryd_user nologin", "create role memoryd_admin nologin",
    "create role owner login", "grant memoryd_service to owner",
)  # fmt: skip
"""What an administrator has done for an owner who makes no roles."""
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


@pytest.mark.first_server
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
    statement = 'alter routine public.recall(integer) set schema "memoryd_adopted"'
    (wrong,) = [one for one in (await memoryd("doctor", "--json")).json if one["name"] == "overloads"]
    assert wrong["verdict"] == "problem"
    assert wrong["advice"].startswith("Their owner (other) or a superuser runs: ")
    assert wrong["advice"].endswith(statement)
    refused = await memoryd("migrate", "--repair")
    assert refused.code == 1
    assert statement in refused.err
    await lone.run("create schema if not exists memoryd_adopted", statement, database="app")
    assert (await memoryd("migrate", "--repair")).code == 0


@pytest.mark.parametrize("of", ["owner", "postgres"])
async def test_an_owner_who_makes_no_roles_erases_and_deletes_what_is_anchored(
    without_roles: Lone, of: str
) -> None:
    """Whether or not the database is its own."""
    lone = without_roles
    await lone.run(
        *GIVEN, "create role authenticated nologin", "grant memoryd_user to authenticated",
        f"create database app owner {of}",
    )  # fmt: skip
    await lone.run(
        "create extension vector", "grant create on database app to owner", "grant create on schema public to owner",
        database="app",
    )  # fmt: skip
    await apply(lone.url("app", "owner"))
    async with connected(lone.url("app", "owner")) as owner:
        anchored = [await remember(owner, "We decided for blue", user_id=user) for user in (ANN, BOB, CAT)]
        for memory in anchored:
            await owner.fetchval("select memoryd.anchor($1, 'decision')", memory)
        await owner.execute("select erase_user_memory($1)", ANN)
        await owner.execute("delete from agent_memory where id = $1", anchored[1])
        exported = await owner.fetchval("select export_user_memory($1)", CAT)
        await owner.execute("select erase_user_memory($1)", CAT)
        assert "We decided for blue" in exported
        sealed = (
            "select count(*) from memory_anchors where category is null and payload = '{\"erased\": true}'"
        )
        assert await owner.fetchval(sealed) == 3
        assert await owner.fetchval("select count(*) from agent_memory") == 0


async def test_an_owner_who_inherits_the_rights_of_end_users_is_held_to_none_of_their_rules(
    without_roles: Lone, tmp_path: Path
) -> None:
    """As it does who makes roles on a server that gives them to their maker (createrole_self_grant)."""
    lone = without_roles
    await lone.run(
        "create role owner login createrole", "alter role owner set createrole_self_grant = 'set, inherit'",
        "create database app owner owner",
    )  # fmt: skip
    await lone.run("create extension vector", database="app")
    url = lone.url("app", "owner")
    daemons = Daemons(url, tmp_path)
    try:
        await daemons.start()
        async with connected(url) as connection:
            assert await connection.fetchval("select pg_has_role('owner', 'memoryd_user', 'usage')")
            await lives(connection)
            memory = await remember(connection, "known to all", agent_id="_shared")
            await connection.execute("update agent_memory set session_id = $2 where id = $1", memory, ANN)
    finally:
        await daemons.kill_all()


# What an administrator did before, and what is in the block then.
NO_ROLES = ["create role owner login", "create database app owner owner"]
WITH_ROLES = [*GIVEN, "create database app owner owner"]
LEFT: dict[str, tuple[list[str], list[str], list[str]]] = {
    "nothing is there": (
        [*NO_ROLES[:1], "create database app"],
        [],
        [
            "create extension if not exists vector with schema public", "create role memoryd_service nologin",
            "create role memoryd_user nologin", "create role memoryd_admin nologin",
            "grant memoryd_service to owner with inherit true",
            "grant memoryd_user, memoryd_admin to owner with inherit false, set true",
            "grant create on database app to owner", "grant create on schema public to owner",
        ],
    ),
    "no extension, roles of its own": (
        ["create role owner login createrole", "create database app owner owner"],
        ["create schema extensions"],
        [
            "create extension if not exists vector with schema extensions",
            "grant usage on schema extensions to owner with grant option",
        ],
    ),
    "roles that may not use the extension": (
        [*WITH_ROLES, "grant memoryd_user, memoryd_admin to owner with inherit false, set true"],
        ["create schema extensions", "create extension vector with schema extensions"],
        [
            "grant usage on schema extensions to owner with grant option",
            "grant usage on schema extensions to memoryd_service, memoryd_user, memoryd_admin",
        ],
    ),
    "some roles": (
        [*NO_ROLES, "create role memoryd_service nologin", "create role memoryd_user nologin"],
        ["create extension vector"],
        [
            "create role memoryd_admin nologin", "grant memoryd_service to owner with inherit true",
            "grant memoryd_user, memoryd_admin to owner with inherit false, set true",
        ],
    ),
    "roles that another owner has made": (
        [*WITH_ROLES, "revoke memoryd_service from owner", "alter role owner createrole"],
        ["create extension vector"],
        [
            "grant memoryd_service to owner with inherit true",
            "grant memoryd_user, memoryd_admin to owner with inherit false, set true",
        ],
    ),
    "all but to become users and support": (
        WITH_ROLES,
        ["create extension vector"],
        ["grant memoryd_user, memoryd_admin to owner with inherit false, set true"],
    ),
}  # fmt: skip


def pasted(server: Server, url: str, block: str) -> subprocess.CompletedProcess[bytes]:
    """The block in psql."""
    psql = server.programs.bin / "psql"
    arguments = [str(psql), "--set=ON_ERROR_STOP=1", "--quiet", url]
    return subprocess.run(arguments, input=block.encode(), capture_output=True, check=False)


async def test_one_block_says_what_an_administrator_runs_and_then_all_works(
    without_roles: Lone, server: Server, tmp_path: Path
) -> None:
    await all_works_after_the_block(without_roles, server, tmp_path, "nothing is there")


@pytest.mark.first_server
@pytest.mark.parametrize("case", list(LEFT)[1:])
async def test_the_block_has_only_what_is_missing(
    without_roles: Lone, server: Server, tmp_path: Path, case: str
) -> None:
    await all_works_after_the_block(without_roles, server, tmp_path, case)


async def all_works_after_the_block(lone: Lone, server: Server, tmp_path: Path, case: str) -> None:
    before, inside, statements = LEFT[case]
    await lone.run(*before)
    await lone.run(*inside, database="app")
    url = lone.url("app", "owner")
    memoryd = Commands(url, tmp_path)
    block = "".join(f"{statement};\n" for statement in statements)

    async def looked_at() -> dict[str, dict[str, str]]:
        return {one["name"]: one for one in (await memoryd("doctor", "--json")).json}

    needed = any("memoryd_user, memoryd_admin to owner" not in statement for statement in statements)
    told = await memoryd("migrate")
    assert (told.code, block in told.out + told.err) == (int(needed), True), told.err
    shown = await memoryd("doctor")
    assert (shown.code, block in shown.out) == (1, True), shown.out
    assert "All is well" not in shown.out
    psql = await asyncio.to_thread(pasted, server, lone.url("app"), block)
    assert psql.returncode == 0, psql.stderr
    assert (await looked_at())["administrator"]["verdict"] == "ok"
    migrated = await memoryd("migrate")
    assert (migrated.code, "administrator" in migrated.out) == (0, False), migrated.err
    problems = {name for name, one in (await looked_at()).items() if one["verdict"] == "problem"}
    assert problems == {"daemons"}
    async with connected(url) as owner:
        # As `memoryd web` reads, and as the daemon answers a user.
        for role in ("memoryd_admin", "memoryd_user"):
            async with acting_as(owner, ANN, role=role):
                assert await owner.fetch("select * from agent_memory") == []
