"""The program that a message sets to work reaches neither the daemon's secrets nor its Postgres, and is not root."""

from __future__ import annotations

import asyncio
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from plugins.embedded.server import EmbeddedPostgres
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.repository import ROOT
from tests.support.waiting import until

IS_ROOT = os.geteuid() == 0
AS_ROOT = pytest.mark.skipif(not IS_ROOT, reason="only root can run programs as another user")
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
OUTPUT = "select '> ' || output from agent_commands where id = $1 and status in ('completed', 'failed')"
STRANGER = "nobody"
SECRET = "hunter2"

# What each finds is kept from the program, so what it says of itself must be all.
PROBE = """
import os, pathlib, socket, sys
def tried(what, do):
    try:
        do()
    except OSError as error:
        print(what, "closed")
    else:
        print(what, "OPEN")
data = pathlib.Path(sys.argv[1])
parent = pathlib.Path("/proc", str(os.getppid()))
tried("environ", (parent / "environ").read_bytes)
tried("memory", lambda: (parent / "mem").open("rb"))
tried("files", lambda: list((parent / "fd").iterdir()))
tried("settings", (data.parent / ".env").read_bytes)
tried("password", (data / "password").read_bytes)
tried("log", (data / "postgres.log").read_bytes)
tried("socket", lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[2]))
print("user", os.getuid(), os.getgid(), *os.getgroups())
print("home", os.environ["HOME"], os.environ["USER"])
"""

# As a program of the same user would find it, whatever user that is; forgetting root makes a process unreadable of itself.
SAME_USER = """
import asyncio, ctypes, os, sys
from plugins.executor.confinement import confine, seal
from plugins.executor.program import Output, run_program
def run(user):
    confinement = confine(user=user, folder=None, also=frozenset(), environment={"PATH": os.environ["PATH"]}, forbidden={})
    output = Output(10_000)
    script = 'cat "/proc/$PPID/environ" >/dev/null 2>&1 && echo OPEN || echo closed; grep NoNewPrivs /proc/self/status'
    asyncio.run(
        run_program(["sh", "-c", script], given="", environment={}, confinement=confinement, timeout_seconds=60, output=output)
    )
    return output.text()
if os.geteuid() == 0:
    run("root")  # whatever is imported late is imported now: another user may not reach it
    os.setgid(65534); os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[1] == "sealed":
    seal(privileges=False)
print(run(None))
"""


async def said(connection: asyncpg.Connection, agent: str = "alice") -> list[str]:
    """What the program says to one command, line by line."""
    command = await connection.fetchval(
        "insert into agent_commands (agent_id, message) values ($1, 'do it') returning id", agent
    )
    output: str = await until(connection, OUTPUT, command)
    return output.removeprefix("> ").splitlines()


@AS_ROOT
@LINUX
async def test_a_program_under_its_own_user_reads_no_secret_of_the_daemon(folder: Path, data: Path) -> None:
    """Neither the daemon's process, nor its settings, nor the embedded Postgres beside it."""
    probe = folder / "probe.py"
    probe.write_text(PROBE)
    os.chmod(folder, 0o755)  # noqa: PTH101
    dotenv = folder / ".env"
    dotenv.write_text(f"MEMORYD_OPENAI_API_KEY={SECRET}\n")
    dotenv.chmod(0o600)
    server = EmbeddedPostgres(data, options={"shared_buffers": "16MB"})
    server.start()
    host, port = server.socket_url.partition("host=")[2].split("&port=")
    probed = f"{sys.executable} -I {probe} {data} {host.replace('%2F', '/')}/.s.PGSQL.{port}"
    # The program is the system's own, since a virtual environment may lie where strangers do not get to.
    probed = probed.replace(sys.executable, "/usr/bin/env python3")
    process = await Commands(None, folder, whole=True).start(
        "run", executor_command=probed, executor_user=STRANGER
    )
    daemon = DaemonProcess(process)
    await daemon.event("daemon_started")
    connection = await asyncpg.connect(server.socket_url)
    lines = await said(connection)
    await connection.close()
    assert await daemon.stop() == 0
    nobody = pwd.getpwnam(STRANGER)
    assert lines == [
        *(
            f"{what} closed"
            for what in ("environ", "memory", "files", "settings", "password", "log", "socket")
        ),
        f"user {nobody.pw_uid} {nobody.pw_gid} {nobody.pw_gid}",
        f"home {nobody.pw_dir} {nobody.pw_name}",
    ]


@LINUX
@pytest.mark.parametrize(("state", "found"), [("sealed", ["closed", "1"]), ("open", ["OPEN", "0"])])
def test_a_program_under_the_same_user_cannot_read_the_daemons_process(state: str, found: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAME_USER, state],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd="/",
    )
    assert done.stdout.replace("NoNewPrivs:", "").split() == found


@LINUX
@pytest.mark.skipif(IS_ROOT, reason="of root nothing is hidden")
async def test_the_daemons_process_is_not_readable_by_others(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    program = tmp_path / "program.sh"
    program.write_text('cat "/proc/$PPID/environ" 2>&1\n')
    await daemons.start(whole=True, executor_command=f"sh {program}")
    (line,) = await said(connection)
    assert "denied" in line


@AS_ROOT
@LINUX
async def test_a_program_has_no_privileges_and_gains_none(
    daemons: Daemons, connection: asyncpg.Connection
) -> None:
    await daemons.start(
        whole=True,
        executor_command="grep -E '^(NoNewPrivs|CapEff|CapPrm):' /proc/self/status",
        executor_user=STRANGER,
    )
    assert [line.split() for line in await said(connection)] == [
        ["CapPrm:", "0" * 16],
        ["CapEff:", "0" * 16],
        ["NoNewPrivs:", "1"],
    ]


async def test_a_program_sees_only_listed_environment_variables(
    daemons: Daemons, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "database_url",
        "PGPASSWORD",
        "PGHOST",
        "pgpassfile",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
    ):
        monkeypatch.setenv(name, SECRET)
    for name in ("https_proxy", "HTTPS_PROXY", "memoryd_openai_api_key", "GITHUB_TOKEN", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-for-the-agent")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("TZ", "UTC")
    daemon = await daemons.start(
        whole=True, executor_command="env", executor_environment=" ANTHROPIC_API_KEY, MISSPELT_KEY,"
    )
    assert (await daemon.event("executor_variable_unset"))["variable"] == "MISSPELT_KEY"
    seen = dict(line.split("=", 1) for line in await said(connection))
    assert SECRET not in str(seen)
    assert seen.keys() <= {
        "PATH", "LANG", "LANGUAGE", "TZ", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR", "HOME", "USER", "LOGNAME", "SHELL",
        "MEMORYD_COMMAND_ID", "MEMORYD_AGENT_ID", "MEMORYD_SESSION_ID", "ANTHROPIC_API_KEY",
    } | {name for name in seen if name.startswith("LC_")}  # fmt: skip
    assert (seen["ANTHROPIC_API_KEY"], seen["LC_ALL"], seen["TZ"]) == ("sk-for-the-agent", "C", "UTC")
    assert seen["MEMORYD_AGENT_ID"] == "alice"
    assert seen["HOME"]
    assert seen["PATH"]


async def test_each_command_has_its_own_folder_which_is_deleted_afterwards(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text(f"MEMORYD_OPENAI_API_KEY={SECRET}\n")
    program = tmp_path / "program.sh"
    program.write_text(
        "pwd; stat -c %a . 2>/dev/null || echo 700; ls -A; mkdir -p work/deep; echo left > work/deep/file\n"
    )
    daemon = await daemons.start(executor_command=f"sh {program}")
    first, second = await said(connection), await said(connection, "bob")
    assert first[0] != second[0]
    assert first[1:] == second[1:] == ["700"]
    assert await daemon.stop() == 0
    assert not {first[0], second[0]} & {str(left) for left in Path(first[0]).parent.iterdir()}


async def test_a_configured_folder_is_kept(
    daemons: Daemons, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    await daemons.start(executor_command="touch made", executor_dir=tmp_path / "work")
    assert await said(connection) == []
    assert (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"executor_user": "no-such-user"}, "has no such user: useradd"),
        ({"executor_dir": "/no/such/folder"}, "MEMORYD_EXECUTOR_DIR is /no/such/folder"),
        pytest.param({"executor_user": ""}, "MEMORYD_EXECUTOR_USER=agent", marks=AS_ROOT),
        pytest.param(
            {"executor_user": "root"},
            "only root can",
            marks=pytest.mark.skipif(IS_ROOT, reason="this is root"),
        ),
    ],
)
async def test_an_unsafe_executor_setting_is_refused_with_advice(
    daemons: Daemons, settings: dict[str, Any], words: str
) -> None:
    daemon = await daemons.start(executor_command="cat", wait=False, **settings)
    assert await daemon.process.wait() == 1
    assert words in daemon.text()
    assert not daemon.events("daemon_started")


@AS_ROOT
async def test_the_program_does_not_run_as_the_databases_user(folder: Path) -> None:
    data = folder / "data" / "pg"
    data.mkdir(parents=True)
    os.chown(data, pwd.getpwnam(STRANGER).pw_uid, -1)
    ended = await Commands(None, folder)("run", executor_command="cat", executor_user=STRANGER)
    assert ended.code == 1
    assert "the embedded Postgres runs as that user" in ended.err


@LINUX
def _named(process: psutil.Process, name: str) -> bool:
    try:
        return process.name() == name
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return False


@pytest.mark.parametrize("user", [pytest.param(STRANGER, marks=AS_ROOT), None])
async def test_a_program_dies_with_the_daemon_that_started_it(
    connection: asyncpg.Connection, daemons: Daemons, user: str | None
) -> None:
    """Its command is run again by another daemon: two programs must not work on it at once."""
    settings: dict[str, Any] = {} if user is None else {"executor_user": user}
    daemon = await daemons.start(executor_command="sleep 600", **settings)
    await connection.execute("insert into agent_commands (agent_id, message) values ('alice', 'sleep')")
    await until(connection, "select exists (select from agent_commands where status = 'running')")
    parent = psutil.Process(daemon.process.pid)
    async with asyncio.timeout(30):
        while not (programs := [child for child in parent.children() if _named(child, "sleep")]):
            await asyncio.sleep(0.01)
    await daemon.kill()
    gone, left = await asyncio.to_thread(psutil.wait_procs, programs, timeout=30)
    assert (len(gone), left) == (1, [])
