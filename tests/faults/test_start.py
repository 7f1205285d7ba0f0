"""A start that cannot succeed is refused with one sentence that says what to do; ten daemons may start at once."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from daemon.db.migration_files import load_files
from daemon.db.migrator import migrate
from tests.faults.conftest import OWN_EMPTY, OwnPostgres
from tests.support.database.owners import as_role
from tests.support.database.schemas import EMBEDDER, connected
from tests.support.database.servers import Server
from tests.support.database.templates import BARE, copied
from tests.support.database.transaction_pooler import pump
from tests.support.processes.commands import Commands, memoryd
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.rows import DIMENSIONS, insert
from tests.support.waiting import beats, until

MANY = 3
OF_LISTENER = "datname = current_database() and application_name = 'memoryd listener'"
UNUSED_SINCE = """
select exists (
    select from pg_stat_activity a join memory_requests r on r.id = $1
    where a.datname = current_database() and a.application_name = 'memoryd'
      and (a.state_change between r.created_at and $2 or a.query = 'select 1'))
"""
"""A connection of the daemon has done something since this request, and since that time nothing but to be there."""
CLAIMED = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'memoryd' and query ~ 'claim_lanes|set visible_at'
"""


async def refuses(url: str, folder: Path, *arguments: str, **settings: object) -> str:
    """Starts a daemon that must not start; returns the sentence that it leaves with."""
    ended = await memoryd("run", *arguments, url=url, folder=folder, **{"start_seconds": 0, **settings})
    assert all(json.loads(line) for line in ended.err.splitlines()), ended.err
    assert ended.code not in (0, None)
    assert "Traceback" not in ended.err
    assert len(ended.sentences) == 1, ended.err
    assert "daemon_started" not in ended.err
    assert "hunter2" not in ended.err
    return ended.sentences[0]


async def test_other_dimensions_than_the_databases_are_refused(database_url: str, tmp_path: Path) -> None:
    for arguments in ((), ("--no-migrate",)):
        said = await refuses(database_url, tmp_path, *arguments, embedding_dimensions=128)
        assert "256 dimensions" in said
        assert "MEMORYD_EMBEDDING_DIMENSIONS" in said


async def test_a_missing_schema_is_refused_with_no_migrate(
    server: Server, empty: str, tmp_path: Path
) -> None:
    for source in (BARE, empty):
        async with copied(server, source) as url, connected(url) as connection:
            said = await refuses(url, tmp_path, "--no-migrate")
            assert "memoryd migrate" in said
            assert await connection.fetchval("select to_regnamespace('memoryd')") is None


async def test_an_older_schema_is_refused_with_no_migrate(empty_url: str, tmp_path: Path) -> None:
    connection = await asyncpg.connect(empty_url)
    # The functions of this memoryd may need what the last file makes.
    older = replace(load_files(), schema=load_files().schema[:-1], functions=())
    await migrate(connection, dimensions=DIMENSIONS, embedder=EMBEDDER, files=older)
    await connection.close()
    said = await refuses(empty_url, tmp_path, "--no-migrate")
    assert load_files().schema[-1].name in said
    assert "memoryd migrate" in said


async def test_a_newer_schema_is_refused(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    await connection.execute(
        "insert into memoryd.migrations (version, name, checksum) values (9999, 'from_the_future', 'abc')"
    )
    for arguments in ((), ("--no-migrate",)):
        said = await refuses(database_url, tmp_path, *arguments)
        assert "9999_from_the_future" in said
        assert "newer" in said


async def test_a_migration_that_was_changed_after_it_was_applied_is_refused(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    await connection.execute("update memoryd.migrations set checksum = 'abc' where version = 2")
    assert "0002" in await refuses(database_url, tmp_path)


async def test_a_port_where_no_server_listens_is_refused_with_advice(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = await refuses(f"postgresql://postgres:hunter2@127.0.0.1:{port}/memoryd", tmp_path)
    assert "DATABASE_URL" in said


@pytest.mark.parametrize("arguments", [(), ("--no-migrate",)])
async def test_a_start_that_waits_for_its_database_can_be_ended(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    commands = Commands(f"postgresql://127.0.0.1:{port}/memoryd", tmp_path)
    waiting = DaemonProcess(await commands.start("run", *arguments, start_seconds=20))
    await waiting.event("database_awaited")
    # Not 1, as when it has waited in vain.
    assert await waiting.stop(signal.SIGINT) == 130
    assert not waiting.events("stopping")


async def test_a_database_that_comes_up_is_waited_for(own_postgres: OwnPostgres, daemons: Daemons) -> None:
    await asyncio.to_thread(own_postgres.server.stop)
    daemon = await daemons.start(url=own_postgres.url, start_seconds=60, wait=False)
    await daemon.event("database_awaited")
    await asyncio.to_thread(own_postgres.server.start)
    await daemon.event("daemon_started")
    assert len(daemon.events("database_awaited")) == 1
    assert await daemon.stop() == 0


async def test_a_daemon_without_work_asks_once_for_all_topics(
    database_url: str, connection: asyncpg.Connection, daemons: Daemons
) -> None:
    """Workers that asked for their topics at the start would open a connection each, on a server that may have few."""
    await daemons.start(heartbeat_seconds=1)
    await beats(connection, times=2)
    assert await connection.fetchval(CLAIMED) == 0
    # What is written is found nevertheless, and what was written while nobody listened.
    assert await connection.fetchval(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where " + OF_LISTENER
    )
    memory = await connection.fetchval(
        "insert into agent_memory (agent_id, kind, content) values ('a', 'fact', 'owls') returning id"
    )
    assert await until(connection, "select exists (select from memoryd.entries where id = $1)", memory)


async def test_the_connection_that_has_answered_is_kept_for_answers(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    """What a connection answers first takes several times as long as what follows."""
    await daemons.start(heartbeat_seconds=1)
    await beats(connection, times=2)
    request = await insert(connection, "memory_requests", {"kind": "recall", "query": "owls"})
    await until(connection, "select status = 'done' from memory_requests where id = $1", request)
    await beats(connection, times=1)
    then = await connection.fetchval("select clock_timestamp()")
    await beats(connection, times=2)
    assert await connection.fetchval(UNUSED_SINCE, request, then)


async def test_a_database_that_hangs_up_while_it_comes_up_is_waited_for(
    database_url: str, daemons: Daemons
) -> None:
    """As Postgres does when it is restarted in the middle of a handshake."""
    parts = urlsplit(database_url)
    query = parse_qs(parts.query)
    socket_path = f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}" if "host" in query else None
    met = 0

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal met
        met += 1
        if met <= 3:
            # Before a word, after the greeting, in the middle of an answer.
            if met > 1:
                await reader.read(1)
                writer.write(b"R" if met == 3 else b"")
                await writer.drain()
            writer.close()
            return
        if socket_path is not None:
            there, back = await asyncio.open_unix_connection(socket_path)
        else:
            there, back = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async with await asyncio.start_server(meet, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        name = parts.netloc.rpartition("@")[0] or "postgres"
        daemon = await daemons.start(
            whole=True,
            url=f"postgresql://{name}@127.0.0.1:{port}{parts.path}?sslmode=disable",
            start_seconds=30,
        )
        assert await daemon.stop() == 0
    assert met > 3
    assert daemon.events("not_json") == []


async def test_a_server_that_is_not_postgres_is_refused_with_advice(tmp_path: Path) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        assert "DATABASE_URL" in await refuses(
            f"postgresql://postgres:hunter2@127.0.0.1:{port}/memoryd", tmp_path
        )


async def test_an_unknown_host_is_refused_with_advice(tmp_path: Path) -> None:
    assert "DATABASE_URL" in await refuses(
        "postgresql://postgres:hunter2@no-such-host.invalid/memoryd", tmp_path
    )


async def test_an_unknown_database_is_refused_with_advice(database_url: str, tmp_path: Path) -> None:
    name = database_url.partition("?")[0].rpartition("/")[2]
    said = await refuses(database_url.replace(name, "no_such_database"), tmp_path)
    assert "no_such_database" in said


@pytest.mark.parametrize(
    "url",
    [
        "mysql://root:hunter2@localhost/memoryd",
        "postgresql://postgres:hunter2/rest@localhost/memoryd",
        "postgresql://postgres:hunter2#rest@localhost/memoryd",
    ],
)
async def test_an_unreadable_url_is_refused_with_advice(tmp_path: Path, url: str) -> None:
    assert "DATABASE_URL" in await refuses(url, tmp_path)


@pytest.mark.parametrize("command", ["sh -c 'echo", "   "])
async def test_an_executor_command_that_cannot_be_parsed_is_refused(
    database_url: str, tmp_path: Path, command: str
) -> None:
    said = await refuses(database_url, tmp_path, executor_command=command)
    assert "MEMORYD_EXECUTOR_COMMAND" in said


@pytest.mark.parametrize(
    ("name", "value"), [("poll_seconds", "soon"), ("embedder", "openai/test"), ("embedder", "word2vec")]
)
async def test_an_invalid_setting_is_refused(
    database_url: str, tmp_path: Path, name: str, value: str
) -> None:
    said = await refuses(database_url, tmp_path, **{name: value})
    assert "MEMORYD_" in said


async def test_daemons_that_start_at_once_migrate_an_empty_database_once(
    empty_url: str, tmp_path: Path
) -> None:
    daemons = Daemons(empty_url, tmp_path)
    try:
        started = await asyncio.gather(
            *(daemons.start(heartbeat_seconds=1, pool_size=3) for _ in range(MANY))
        )
        connection = await asyncpg.connect(empty_url)
        ledger = await connection.fetch(
            "select version, name, checksum from memoryd.migrations order by version"
        )
        assert [tuple(r) for r in ledger] == [(m.version, m.name, m.checksum) for m in load_files().schema]
        await until(connection, "select count(*) = $1 from memoryd.daemons", MANY)
        assert await asyncio.gather(*(daemon.stop() for daemon in started)) == [0] * MANY
        assert await connection.fetchval("select count(*) from memoryd.daemons") == 0
        await connection.close()
        for daemon in started:
            assert not [line for line in daemon.lines if line.get("level", "error") != "info"], daemon.text()
    finally:
        await daemons.kill_all()


async def test_the_databases_of_one_server_can_be_migrated_at_once(
    server: Server, own_postgres: OwnPostgres
) -> None:
    """Roles belong to the server, not to the database: here all want to make them first."""
    url = own_postgres.server.socket_url
    admin = await asyncpg.connect(url)
    for (name,) in await admin.fetch("select datname from pg_database where datname like 'memoryd_test_%'"):
        await admin.execute(f"drop database {name} with (force)")
    await admin.execute("drop role memoryd_service, memoryd_user, memoryd_admin")
    names = [f"memoryd_test_at_once_{n}" for n in range(3)]
    for name in names:
        await admin.execute(f"create database {name} template {OWN_EMPTY} owner {server.owner}")
    await admin.close()

    async def make(name: str) -> int:
        connection = await asyncpg.connect(as_role(url.replace("/memoryd?", f"/{name}?"), server.owner))
        try:
            return len((await migrate(connection, dimensions=8, embedder="openai/test")).schema)
        finally:
            await connection.close()

    assert await asyncio.gather(*(make(name) for name in names)) == [len(load_files().schema)] * len(names)
