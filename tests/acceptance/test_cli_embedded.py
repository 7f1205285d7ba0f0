"""The commands and memoryd's own Postgres: who starts it, who stops it, how to get in."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from plugins.embedded.server import EmbeddedPostgres
from tests.support.database.schemas import connected
from tests.support.folders import server_folder
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess
from tests.support.processes.paused import commit_held_up
from tests.support.waiting import until


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the commands run and have their data."""
    with server_folder() as path:
        yield path


@pytest.fixture
def postgres(folder: Path) -> Iterator[EmbeddedPostgres]:
    """The server of the test's data folder, not started; stopped at the end whatever happens."""
    server = EmbeddedPostgres(folder / "data", options={"shared_buffers": "16MB"})
    yield server
    server.stop("immediate")


@pytest.fixture
def memoryd(data: Path, postgres: EmbeddedPostgres) -> Commands:
    """Commands on a migrated database of memoryd's own, whose server does not run."""
    assert not postgres.is_running()
    return Commands(None, data.parent)


async def test_a_command_starts_the_server_and_stops_it_again(
    memoryd: Commands, postgres: EmbeddedPostgres
) -> None:
    shown = await memoryd("status")
    assert shown.code == 1
    assert "No daemon is running" in shown.out
    assert not postgres.is_running()


async def test_a_server_that_runs_is_left_running(memoryd: Commands, postgres: EmbeddedPostgres) -> None:
    postgres.start()
    pid = postgres.postmaster_pid()
    assert (await memoryd("dead")).code == 0
    assert postgres.postmaster_pid() == pid


async def test_the_last_process_that_uses_the_server_stops_it(
    memoryd: Commands, postgres: EmbeddedPostgres
) -> None:
    first = await memoryd.start("mcp", "--agent", "alice")  # starts the server, and waits for its input
    while not postgres.is_running():
        await asyncio.sleep(0.02)
    daemon = DaemonProcess(await memoryd.start("run"))
    await daemon.event("daemon_started")
    await first.communicate(b"")
    assert first.returncode == 0
    # Who started it has gone, but the daemon has not.
    assert (await memoryd("status", "--json")).json["daemons"][0]["pid"] == daemon.process.pid
    assert postgres.is_running()
    assert await daemon.stop(signal.SIGTERM) == 0
    assert not postgres.is_running()


async def test_a_server_of_a_killed_daemon_is_taken_over(
    memoryd: Commands, postgres: EmbeddedPostgres
) -> None:
    daemon = DaemonProcess(await memoryd.start("run"))
    await daemon.event("daemon_started")
    # Before it has said which server process listens for it, a daemon counts as alive for some seconds.
    async with connected(postgres.socket_url) as connection:
        await until(connection, "select backend is not null from memoryd.daemons")
    await daemon.kill()
    assert postgres.is_running()
    assert (await memoryd("status")).code == 1
    assert not postgres.is_running()


BOTH = (signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize("event", ["daemon_started", "daemon_stopped"])
async def test_signals_at_one_moment_are_one_and_no_server_is_left(
    memoryd: Commands, postgres: EmbeddedPostgres, event: str
) -> None:
    """As when Ctrl-C reaches a whole process group, whose leader then sends SIGTERM to each of its members."""
    daemon = DaemonProcess(await memoryd.start("run"))
    await daemon.event("daemon_started")
    if event == "daemon_stopped":  # the server is stopped now
        daemon.process.send_signal(signal.SIGTERM)
        await daemon.event(event)
    for number in BOTH:
        daemon.process.send_signal(number)
    assert await daemon.stop() == 0
    assert not daemon.events("stopping_at_once")
    assert daemon.lines[-1]["event"] == "daemon_stopped"
    assert not postgres.is_running()


async def test_a_second_signal_leaves_no_server_either(memoryd: Commands, postgres: EmbeddedPostgres) -> None:
    daemon = DaemonProcess(await memoryd.start("run", shutdown_seconds=3600))
    await daemon.event("daemon_started")
    connection = await asyncpg.connect(postgres.socket_url)
    async with commit_held_up(postgres.socket_url, connection):
        daemon.process.send_signal(signal.SIGTERM)
        await daemon.event("stopping")
        assert await daemon.stop_at_once(signal.SIGINT) == 128 + signal.SIGINT
    assert daemon.events("stopping_at_once")
    assert not postgres.is_running()


async def test_a_command_that_is_ended_stops_the_server_it_started(
    memoryd: Commands, postgres: EmbeddedPostgres
) -> None:
    in_use = postgres.log_path.parent / "in-use"
    for moment, number in ((0.0, signal.SIGTERM), (0.1, signal.SIGINT), (0.3, signal.SIGTERM)):
        in_use.unlink(missing_ok=True)
        starting = DaemonProcess(await memoryd.start("run"))
        while not in_use.exists():
            await asyncio.sleep(0.01)
        # The moment within the start is the point: no event marks it.
        await asyncio.sleep(moment)
        assert await starting.stop(number) in (0, 128 + number), starting.text()
        assert not postgres.is_running()


async def test_a_second_signal_during_the_start_leaves_no_server(
    memoryd: Commands, postgres: EmbeddedPostgres
) -> None:
    in_use = postgres.log_path.parent / "in-use"
    in_use.unlink(missing_ok=True)
    starting = DaemonProcess(await memoryd.start("run"))
    while not in_use.exists():
        await asyncio.sleep(0.002)
    starting.process.send_signal(signal.SIGTERM)
    while not postgres.is_running() and starting.process.returncode is None:
        await asyncio.sleep(0.002)
    assert await starting.stop(signal.SIGINT) == 128 + signal.SIGTERM
    assert not postgres.is_running()


@pytest.mark.parametrize("number", BOTH)
async def test_a_command_in_the_background_of_a_script_is_ended_in_order(
    memoryd: Commands, postgres: EmbeddedPostgres, number: signal.Signals
) -> None:
    # As a shell without job control does for what it starts with "&".
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        starting = DaemonProcess(await Commands(None, memoryd.folder, whole=True).start("run"))
    finally:
        signal.signal(signal.SIGINT, before)
    while not postgres.is_running():
        await asyncio.sleep(0.01)
    assert await starting.stop(number) == 128 + number
    assert not postgres.is_running()


@pytest.mark.parametrize("words", [("migrate",), ("doctor",)])
async def test_a_command_that_waits_for_a_lock_ends_with_the_code_of_its_signal(
    memoryd: Commands, postgres: EmbeddedPostgres, words: tuple[str, ...]
) -> None:
    postgres.start()
    connection = await asyncpg.connect(postgres.socket_url)
    for number in BOTH:
        async with connection.transaction():
            await connection.execute("lock table memoryd.migrations")
            process = await memoryd.start(*words)
            await until(connection, "select exists (select from pg_locks where not granted)")
            process.send_signal(number)
            _, err = await process.communicate()
        assert process.returncode == 128 + number
        assert err == b""
    await connection.close()


async def test_psql_needs_a_running_server_and_starts_none(
    memoryd: Commands, postgres: EmbeddedPostgres
) -> None:
    refused = await memoryd("psql", "-c", "select 1")
    assert refused.code == 1
    assert "make run" in refused.err
    assert not postgres.is_running()
    postgres.start()
    shown = await memoryd("psql", "--no-psqlrc", "-At", "-c", "select count(*) from agent_memory")
    assert (shown.code, shown.out, shown.err) == (0, "0\n", "")
    failed = await memoryd("psql", "--no-psqlrc", "-c", "select 1 from nowhere")
    assert failed.code == 1
    assert "nowhere" in failed.err
    assert postgres.is_running()


async def test_psql_with_a_url_keeps_the_password_off_the_command_line(
    memoryd: Commands, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    postgres.start()
    password = postgres.tcp_url.split(":")[2].split("@")[0]
    process = await Commands(postgres.tcp_url, tmp_path).start("psql", "--no-psqlrc", "-At")
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"\\warn :USER\n")
    assert await process.stderr.readline() == b"postgres\n"  # let in, so it has the password
    seen = " ".join(psutil.Process(process.pid).cmdline())
    await process.communicate(b"")
    assert "psql" in seen
    assert "127.0.0.1" in seen
    assert password not in seen
    assert memoryd.url is None


async def test_url_prints_the_address_for_other_programs(
    memoryd: Commands, postgres: EmbeddedPostgres
) -> None:
    stopped = await memoryd("url")
    assert stopped.code == 0
    assert "not running" in stopped.err
    postgres.start()
    running = await memoryd("url")
    assert (running.out, running.err) == (f"{postgres.socket_url}\n", "")
    assert (await memoryd("url", "--tcp")).out == f"{postgres.tcp_url}\n"


async def test_url_prints_the_given_database_url(tmp_path: Path) -> None:
    given = "postgresql://alice:s%40fe@db.example:5432/memories"
    assert (await Commands(given, tmp_path)("url")).out == f"{given}\n"
