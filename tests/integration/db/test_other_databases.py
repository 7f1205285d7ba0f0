"""Databases that somebody else has set up: with settings, names, encodings and neighbours of their own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.database.schemas import connected, lives
from tests.support.database.servers import Server
from tests.support.database.templates import BARE, PGVECTOR
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import Daemons
from tests.support.rows import ask, column, insert, remember, say
from tests.support.waiting import ANSWERED, IDLE, READY, until

ODD = {
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "Asia/Kathmandu",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "default_text_search_config": "pg_catalog.german",
    "search_path": "",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "statement_timeout": "200ms",
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "1s",
    "idle_session_timeout": "1s",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "work_mem": "64kB",
    "max_parallel_workers": "0",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "check_function_bodies": "off",
    "quote_all_identifiers": "on",
    "client_encoding": "LATIN1",
}
"""What the owner of a database may set for all who connect to it, and nobody who writes a program thinks of."""
OF_NEWER = {"transaction_timeout": "2s"}
"""The same, from Postgres 17 on."""
NEIGHBOURS = """
create table jobs (id integer); create table settings (key text); create table entries (id integer);
create schema app;
create function app.recall(text) returns integer language sql return 1;
create function app.lower(varchar) returns text language sql return 'lowered';
"""
"""Of an application in the same database."""
FOUND = "select content from recall($1)"
CLIENT = {"search_path": "public", "statement_timeout": "0", "idle_session_timeout": "0"}
"""What an application sets for its own connections there."""


@asynccontextmanager
async def database_of_others(server: Server, name: str, options: str = "") -> AsyncIterator[str]:
    """A new database that its administrator has made; the owner's URL of it."""
    admin = await asyncpg.connect(server.admin_url)
    quoted = '"' + name.replace('"', '""') + '"'
    try:
        await admin.execute(f"create database {quoted} template {BARE} owner {server.owner} {options}")
        await admin.execute(f"revoke connect on database {quoted} from public")
        parts = urlsplit(server.admin_url)._replace(path=f"/{quote(name, safe='')}")
        async with connected(urlunsplit(parts)) as inside:
            await inside.execute(
                "create publication everything for all tables; "
                f'create schema "Ext. ü%"; {PGVECTOR} with schema "Ext. ü%"; grant usage on schema "Ext. ü%" to public'
            )
        yield urlunsplit(urlsplit(server.url_of("x"))._replace(path=parts.path))
        await admin.execute(f"drop database {quoted} with (force)")
    finally:
        await admin.close()


async def set_for_all(url: str, settings: dict[str, str]) -> None:
    """Sets them for the database, as its owner."""
    async with connected(url) as owner:
        name = await owner.fetchval("select quote_ident(current_database())")
        for setting, value in settings.items():
            await owner.execute(f"alter database {name} set {setting} = '{value}'")


async def test_a_whole_life_among_the_settings_of_others(server: Server, tmp_path: Path) -> None:
    async with database_of_others(server, f'Ann\'s "Größe" a.b %41 {uuid4().hex[:8]}') as url:
        async with connected(url) as owner:
            await owner.execute(NEIGHBOURS)
            newer = owner.get_server_version().major >= 17
        settings = ODD | (OF_NEWER if newer else {})
        await set_for_all(url, settings)
        memoryd = Commands(url, tmp_path)
        migrated = await memoryd("migrate")
        assert migrated.code == 0, migrated.err
        daemons = Daemons(url, tmp_path)
        daemon = await daemons.start(heartbeat_seconds=0.2, cleanup_seconds=1)
        client = await asyncpg.connect(url, server_settings=CLIENT)
        try:
            await lives(client)
            await of_a_user(client)
            doctor = await memoryd("doctor", "--json")
            assert [one for one in doctor.json if one["verdict"] == "problem"] == []
            copy = tmp_path / "copy.memoryd"
            assert (await memoryd("backup", str(copy))).code == 0
            async with database_of_others(server, f"copy_{uuid4().hex[:8]}") as other:
                await set_for_all(other, settings)
                restored = await Commands(other, tmp_path)("restore", str(copy))
                assert restored.code == 0, restored.err
        finally:
            await client.close()
            code = await daemon.stop()
            await daemons.kill_all()
        assert code == 0
        assert [line for line in daemon.lines if line["level"] in ("warning", "error")] == []


async def of_a_user(client: asyncpg.Connection) -> None:
    """Rows of an end user: found under row-level security, expired, exported, erased; and a document."""
    session = uuid4()
    await remember(client, "the user likes red tulips", user_id=ANN)
    await say(client, session, "my sister Änne moved to Lisbon", user_id=ANN)
    await client.execute(
        "insert into documents (title, content) values ('Rules', E'# Flights\\n\\nAsk Ms Lindqvist for a seat.')"
    )
    await until(client, IDLE)
    assert any("a seat" in str(text) for text in await column(client, FOUND, "Lindqvist"))
    async with acting_as(client, ANN):
        assert "the user likes red tulips" in await column(client, FOUND, "red tulips")
        assert "my sister Änne moved to Lisbon" in await column(client, FOUND, "ÄNNE")
        assert len(await client.fetch("select * from load_context($1)", session)) == 1
    expired = await client.fetchval(
        "insert into agent_memory (agent_id, content, expires_at) "
        "values ('alice', 'short lived', now() + interval '0.2 s') returning id"
    )
    await until(client, "select not exists (select from agent_memory where id = $1)", expired)
    export = json.loads(await client.fetchval("select export_user_memory($1)", ANN))
    assert export["user_id"] == str(ANN)
    request = await insert(client, "memory_requests", {"kind": "erase", "user_id": ANN})
    await until(client, ANSWERED, request)
    assert await client.fetchval("select count(*) from agent_memory where user_id = $1", ANN) == 0


REFUSED = {
    "standard_conforming_strings": ("off", r"alter database \S+ set standard_conforming_strings = on"),
    "row_security": ("off", r"alter database \S+ set row_security = on"),
    "default_transaction_read_only": ("on", r"make room first.* set default_transaction_read_only = off"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_setting_that_memoryd_cannot_work_with_is_named_with_what_to_do(
    empty_url: str, tmp_path: Path, name: str
) -> None:
    value, advice = REFUSED[name]
    await set_for_all(empty_url, {name: value})
    memoryd = Commands(empty_url, tmp_path)
    for command in (["migrate"], ["migrate", "--dry-run"], ["run"]):
        refused = await memoryd(*command)
        assert refused.code == 1
        assert re.search(
            f"{name} is {value} by default.*{advice}.*Nothing was changed", refused.sentences[-1]
        )
    doctor = await memoryd("doctor")
    assert doctor.code == 1
    assert re.search(advice, " ".join(doctor.out.split()))


async def test_a_database_in_another_encoding_is_refused_with_the_statement_for_another(
    server: Server, tmp_path: Path
) -> None:
    for encoding in ("LATIN1", "SQL_ASCII"):
        name = f"old_{uuid4().hex[:8]}"
        async with database_of_others(server, name, f"encoding '{encoding}' locale 'C'") as url:
            refused = await Commands(url, tmp_path)("migrate")
            assert refused.code == 1
            assert re.search(f"is {encoding}.* create database .* encoding 'UTF8'", refused.sentences[-1])
    async with database_of_others(server, f"old_{uuid4().hex[:8]}", "encoding 'UTF8' locale 'C'") as url:
        doctor = await Commands(url, tmp_path)("doctor")
        said = " ".join(doctor.out.split())
        assert re.search("warning postgres LC_CTYPE of this database is C.* locale 'C.UTF-8'", said)


async def test_an_older_pgvector_is_refused_before_anything_is_made(
    server: Server, empty_url: str, tmp_path: Path
) -> None:
    # Only a superuser may write a catalog: older files of the extension are in no package.
    async with connected(server.admin_url_of(urlsplit(empty_url).path[1:])) as admin:
        await admin.execute("update pg_extension set extversion = '0.7.4' where extname = 'vector'")
        refused = await Commands(empty_url, tmp_path)("migrate")
        assert refused.code == 1
        assert re.search(r"pgvector 0\.7\.4 is older .* alter extension vector update", refused.sentences[-1])
        assert await admin.fetchval("select to_regnamespace('memoryd')") is None


async def test_a_daemon_works_within_the_connections_that_it_is_given(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    name = urlsplit(daemons.url).path[1:]
    await connection.execute(f"alter database {name} connection limit 7")
    doctor = await Commands(daemons.url, tmp_path)("doctor")
    assert "allow 7 connections" in " ".join(doctor.out.split())
    daemon = await daemons.start()
    # So much at once that it uses all the connections that it may have.
    commands = [await ask(connection, f"deploy server {n}") for n in range(20)]
    await connection.execute(
        "insert into agent_memory (agent_id, content) select 'agent ' || n, 'note ' || n from generate_series(1, 500) n"
    )
    await until(connection, IDLE)
    for command in commands:
        assert await connection.fetchval(READY, command)
    others: list[asyncpg.Connection] = []
    with pytest.raises(asyncpg.TooManyConnectionsError):
        await take_the_rest(daemons.url, others)
    refused = await Commands(daemons.url, tmp_path)("status")
    assert refused.code == 1
    assert "MEMORYD_POOL_SIZE" in refused.sentences[-1]
    for other in others:
        await other.close()
    assert await daemon.stop() == 0
    assert [line for line in daemon.lines if line["level"] in ("warning", "error")] == []


async def take_the_rest(url: str, taken: list[asyncpg.Connection]) -> None:
    """Connects until the database refuses it."""
    while True:
        taken.append(await asyncpg.connect(url))


async def test_a_copy_without_rights_is_refused_until_it_is_repaired(
    server: Server, database_url: str, empty_url: str, tmp_path: Path
) -> None:
    # As a superuser, since the owner is held to the policies, and would be refused.
    source = server.admin_url_of(urlsplit(database_url).path[1:])
    programs, file = server.programs.bin, tmp_path / "copy.sql"
    await ends(programs / "pg_dump", "--no-owner", "--no-acl", f"--dbname={source}", f"--file={file}")
    await ends(programs / "psql", "--quiet", f"--dbname={empty_url}", f"--file={file}")
    memoryd = Commands(empty_url, tmp_path)
    for command in ("migrate", "run"):
        refused = await memoryd(command)
        assert refused.code == 1
        assert refused.sentences[-1].endswith("Run: memoryd migrate --repair")
    repaired = await memoryd("migrate", "--repair")
    assert repaired.code == 0, repaired.err
    assert (await memoryd("migrate")).out == "The schema is up to date.\n"


async def ends(program: Path, *arguments: str) -> None:
    """Runs a program of Postgres to its end. What it says of things that only a superuser may restore is left out."""
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(str(program), *arguments, stdout=quiet, stderr=quiet)
    assert await process.wait() == 0
