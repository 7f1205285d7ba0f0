"""Commands that run in a stranger's checkout: neither its `.env` nor its code decides where a memory goes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from daemon.settings.databases import address_of
from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.commands import Finished
from tests.support.processes.daemons import environment
from tests.support.processes.forks import start
from tests.support.services.openai_server import OpenAIServer
from tests.support.services.otlp_collector import Collector
from tests.support.services.web_pages import served

MARK = "import os; open({path!r}, 'a').write(__name__)\n"
MODULES = (
    "daemon/__init__.py",
    "daemon/__main__.py",
    "sitecustomize.py",
    "usercustomize.py",
    "asyncpg.py",
    "typer.py",
    "json.py",
)
EVERYWHERE = "select count(*) from agent_memory where content like '%is one'"


@pytest.fixture
async def strangers_url(server: Server, template: str) -> AsyncIterator[str]:
    """The database of whoever made the checkout."""
    async with copied(server, template) as made:
        yield made


@pytest.fixture
def checkout(tmp_path: Path, strangers_url: str) -> Path:
    """A stranger's checkout: each variable names the stranger's database."""
    made = tmp_path / "checkout"
    made.mkdir()
    (made / ".env").write_text(
        f"DATABASE_URL={strangers_url}\nMEMORYD_DATABASE_URL={strangers_url}\nmemoryd_database_urls=a={strangers_url}\n"
        "MEMORYD_DATABASE=a\nMEMORYD_POOL_SIZE=wrong\n"
    )
    return made


async def ended(folder: Path, *arguments: str, **variables: str | None) -> Finished:
    """`memoryd` in this folder: of memoryd's variables it has only these."""
    given = {
        k: v for k, v in environment("", {}).items() if k not in {"DATABASE_URL", "PYTHONPATH"}
    } | variables
    process = await start(
        arguments,
        environment={name: value for name, value in given.items() if value is not None},
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


def variables(name: str, url: str) -> dict[str, str]:
    """The environment of a client whose configuration names the database by this variable."""
    if name == "MEMORYD_DATABASE_URLS":
        return {name: f"mine={url}", "MEMORYD_DATABASE": "mine"}
    return {name: url}


NAMES = ("DATABASE_URL", "MEMORYD_DATABASE_URL", "MEMORYD_DATABASE_URLS")


async def test_an_agent_remembers_where_its_client_says(
    checkout: Path,
    database_url: str,
    strangers_url: str,
    connection: asyncpg.Connection,
    tmp_path: Path,
) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "daemon", "mcp", "--agent", "coder"],
        env={k: v for k, v in environment("", {}).items() if k not in {"DATABASE_URL", "PYTHONPATH"}}
        | variables("MEMORYD_DATABASE_URLS", database_url),
        cwd=checkout,
    )
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            await client.call_tool("remember", {"text": "the production key is one"})
    assert await connection.fetchval(EVERYWHERE) == 1
    async with connected(strangers_url) as theirs:
        assert await theirs.fetchval(EVERYWHERE) == 0
    [began] = [
        line
        for line in map(json.loads, (tmp_path / "log").read_text().splitlines())
        if line["event"] == "mcp_started"
    ]
    assert began["database"] == address_of(database_url)
    assert "@" not in began["database"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "No database is named"),
        ({"MEMORYD_DATA_DIR": "data"}, "MEMORYD_DATA_DIR is 'data': give the whole path"),
        ({"MEMORYD_ENV_FILE": ".env"}, "MEMORYD_ENV_FILE is '.env': give the whole path"),
        (
            {"MEMORYD_DATABASE_URLS": "list", "MEMORYD_DATABASE": "a"},
            "MEMORYD_DATABASE_URLS is 'list': give the whole path",
        ),
    ],
)
async def test_mcp_takes_no_database_from_the_folder(
    given: dict[str, str], said: str, checkout: Path, strangers_url: str
) -> None:
    (checkout / "list").write_text(f"a={strangers_url}\n")
    (checkout / ".memoryd/pg").mkdir(parents=True)
    refused = await ended(checkout, "mcp", "--agent", "coder", **given)
    assert refused.code in (1, 2)
    assert said in refused.err
    assert "Traceback" not in refused.err


async def test_mcp_reads_the_file_that_is_named(
    checkout: Path, database_url: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    (tmp_path / "mine.env").write_text(f"DATABASE_URL={database_url}\n")
    begun = await ended(checkout, "mcp", "--agent", "coder", MEMORYD_ENV_FILE=str(tmp_path / "mine.env"))
    assert begun.code == 0, begun.err
    assert address_of(database_url) in begun.err
    del connection


async def test_hooks_are_installed_for_no_database_of_the_folder(
    checkout: Path, database_url: str, tmp_path: Path
) -> None:
    config = tmp_path / "config/memoryd/hooks.json"
    home = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    install = ("hooks", "install", "claude-code", "--user")
    refused = await ended(checkout, *install, **home)
    assert (refused.code, config.exists(), (tmp_path / ".claude").exists()) == (1, False, False)
    assert "No .env was read" in refused.err
    for name in ("MEMORYD_DATABASE_URLS", "DATABASE_URL"):
        done = await ended(checkout, *install, **home, **variables(name, database_url))
        assert (done.code, json.loads(config.read_text())["url"]) == (0, database_url), done.err
        config.unlink()
    (tmp_path / "mine.env").write_text(f"DATABASE_URL={database_url}\n")
    done = await ended(checkout, *install, **home, MEMORYD_ENV_FILE=str(tmp_path / "mine.env"))
    assert (done.code, json.loads(config.read_text())["url"]) == (0, database_url), done.err
    # What they serve is theirs, whatever the host's environment says.
    others = {"MEMORYD_DATABASE_URL": "postgresql://x@127.0.0.1:1/y", "MEMORYD_ENV_FILE": ".env"}
    begun = await ended(checkout, "hooks", "mcp", **home, **others)
    assert begun.code == 0, begun.err
    assert address_of(database_url) in begun.err


async def test_what_a_person_runs_in_a_checkout_uses_the_database_of_the_environment(
    checkout: Path,
    database_url: str,
    strangers_url: str,
    connection: asyncpg.Connection,
    tmp_path: Path,
) -> None:
    (checkout / ".env").write_text((checkout / ".env").read_text().replace("MEMORYD_POOL_SIZE=wrong\n", ""))
    export = tmp_path / "export.json"
    said = "the production key is one"
    export.write_text(json.dumps({"results": [{"id": "1", "memory": said, "user_id": "mia"}]}))
    one, two, three = (variables(name, database_url) for name in NAMES)
    for given, *arguments in (
        (one, "import", str(export), "--from", "mem0"),
        (two, "recall", "production key"),
        (three, "context", "app", "production key"),
    ):
        done = await ended(checkout, *arguments, **given)
        assert done.code == 0, (arguments, done.err)
        assert (said in done.out) == (arguments[0] == "recall"), done.out
    assert await connection.fetchval(EVERYWHERE) == 1
    host, _, database = address_of(database_url).rpartition("/")
    assert f"Database {database} at {host}," in (await ended(checkout, "status", **one)).out
    for given in (two, three):
        told = json.loads((await ended(checkout, "status", "--json", **given)).out)
        assert told.get("status", told)["address"] == address_of(database_url)
    async with connected(strangers_url) as theirs:
        rows = "select (select count(*) from agent_memory) + (select count(*) from memory_queries)"
        assert await theirs.fetchval(rows) == 0


async def test_a_data_folder_in_the_environment_is_a_database_too(
    checkout: Path, strangers_url: str, tmp_path: Path
) -> None:
    (checkout / ".env").write_text(f"DATABASE_URL={strangers_url}\n")
    told = await ended(checkout, "url", MEMORYD_DATA_DIR=str(tmp_path / "data"))
    assert (told.code, told.out) == (1, "")
    assert f"There is no database in {tmp_path / 'data'}" in told.err
    # Where nothing is said, the file of a deployment counts.
    assert (await ended(checkout, "url")).out.strip() == strangers_url
    (checkout / "other.env").write_text("DATABASE_URL=postgresql://other/db\n")
    assert (await ended(checkout, "url", MEMORYD_ENV_FILE="other.env")).out == "postgresql://other/db\n"


@pytest.mark.parametrize(
    ("command", "key"),
    [("recall", "OPENAI_API_KEY"), ("doctor", "MEMORYD_OPENAI_API_KEY"), ("run", "OPENAI_API_KEY")],
)
async def test_a_key_of_the_environment_goes_to_no_address_of_the_folder(
    command: str, key: str, tmp_path: Path, database_url: str, connection: asyncpg.Connection
) -> None:
    with OpenAIServer(dimensions=8) as stranger:
        (tmp_path / ".env").write_text(
            f"MEMORYD_EMBEDDER=openai/x\nMEMORYD_OPENAI_BASE_URL={stranger.base_url}\n"
            f"{'MEMORYD_OPENAI_API_KEY' if key == 'OPENAI_API_KEY' else 'OPENAI_API_KEY'}=theirs\n"
        )
        mine = {key: "sk-mine", "DATABASE_URL": database_url}
        arguments = (command, "the production key") if command == "recall" else (command,)
        refused = await ended(tmp_path, *arguments, **mine)
        assert refused.code == 2
        assert f"{key} stands in the environment, and MEMORYD_OPENAI_BASE_URL in the file .env" in refused.err
        assert "sk-mine" not in refused.err
        assert stranger.requests == []
    del connection


async def test_a_password_of_the_environment_goes_to_no_server_of_the_folder(tmp_path: Path) -> None:
    met: list[bytes] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not TLS; the password in plain text.
        await reader.read(8)
        writer.write(b"N")
        await reader.read(1000)
        writer.write(b"R\0\0\0\x08\0\0\0\x03")
        met.append(await reader.read(1000))
        writer.close()

    async with await asyncio.start_server(meet, "127.0.0.1", 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        for line in (
            f"DATABASE_URL=postgresql://me@127.0.0.1:{port}/db",
            f"MEMORYD_DATABASE_URLS=a=postgresql://me:x@h/a b=postgresql://me@127.0.0.1:{port}/b",
            f"DATABASE_URL=postgresql://me:@127.0.0.1:{port}/db?password=",
            f"DATABASE_URL=postgresql://me@127.0.0.1:{port}/db?application_name=a://b:c@d",
            f"DATABASE_URL='postgresql://me@127.0.0.1:{port}/db#?password=x'",
            f"DATABASE_URL=postgresql://me@127.0.0.1:{port},[a:b@c]:1/db",
        ):
            (tmp_path / ".env").write_text(f"{line}\n")
            refused = await ended(tmp_path, "recall", "x", PGPASSWORD="hunter2", MEMORYD_POOLER="direct")
            assert refused.code == 2, line
            assert "PGPASSWORD stands in the environment" in refused.err
        (tmp_path / ".pg_service.conf").write_text("[mine]\nuser=me\npassword=hunter2\n")
        home = {"HOME": str(tmp_path), "MEMORYD_POOLER": "direct", "TOKEN": "hunter2"}
        lines: tuple[tuple[str, dict[str, str]], ...] = (
            (f"127.0.0.1:{port}/db?service=mine", {}),
            (f"127.0.0.1:{port}/db", {"PGSERVICE": "mine"}),
            (f"me:${{TOKEN}}@127.0.0.1:{port}/db", {}),
            (f"me:${{TOKEN:-x}}@127.0.0.1:{port}/db\nTOKEN=later", {}),
        )
        for line, given in lines:
            (tmp_path / ".env").write_text(f"DATABASE_URL=postgresql://{line}\n")
            refused = await ended(tmp_path, "recall", "x", **home, **given)
            assert (refused.code, met) == (2, []), line
        (tmp_path / ".env").write_text(f"DATABASE_URL=postgresql://me:theirs@127.0.0.1:{port}/db\n")
        await ended(tmp_path, "recall", "x", PGPASSWORD="hunter2", MEMORYD_POOLER="direct")
        assert met
        assert all(b"hunter2" not in said for said in met)


async def test_headers_for_a_collector_go_to_none_of_the_folder(
    tmp_path: Path, database_url: str, connection: asyncpg.Connection
) -> None:
    with Collector() as stranger, Collector() as mine:
        (tmp_path / ".env").write_text(f"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={stranger.url}/v1/traces\n")
        await connection.execute("insert into agent_memory (agent_id, content) values ('a', 'x')")
        secret = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=mine", "DATABASE_URL": database_url}
        for others in ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": mine.url}):
            assert (await ended(tmp_path, "run", "--once", **secret, **others)).code == 0
        assert stranger.requests == []


async def test_no_code_of_the_folder_is_run(
    tmp_path: Path, database_url: str, connection: asyncpg.Connection
) -> None:
    for name in MODULES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(MARK.format(path=str(tmp_path / "ran")))
    async with served(database_url, tmp_path) as reader:
        said = await reader.read_done("/", "doctor", lacks="It is looking …")
    assert "Postgres 1" in said
    assert not (tmp_path / "ran").exists()
    del connection
