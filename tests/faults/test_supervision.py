"""The daemon keeps its own Postgres alive: killed, stopped or out of disk, work goes on without help."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import psutil
import pytest

from plugins.embedded.causes import EmbeddedPostgresError
from plugins.embedded.server import EmbeddedPostgres
from tests.support.content.finished import all_indexed
from tests.support.content.index import INDEXED_MEMORIES
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess
from tests.support.waiting import IDLE, until

LEARNT = f"select exists (select from agent_memory where content = $1 and id in ({INDEXED_MEMORIES}))"


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A data folder on a disk of its own, which a test can fill."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    mounted = ["mount", "-t", "tmpfs", "-o", "size=320m,mode=700", "memoryd-test", str(data)]
    if os.geteuid() != 0 or subprocess.run(mounted, check=False, capture_output=True).returncode != 0:
        pytest.skip("a disk to fill is a file system of its own, and only root may mount one")
    try:
        yield data
    finally:
        EmbeddedPostgres(data).stop("immediate")
        subprocess.run(["umount", str(data)], check=True)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[DaemonProcess]:
    """A daemon with memoryd's own Postgres."""
    daemon = DaemonProcess(await Commands(None, folder).start("run", poll_seconds=0.2))
    try:
        await daemon.event("daemon_started", timeout=120)
        yield daemon
    finally:
        await daemon.kill()


def kill(server: EmbeddedPostgres) -> None:
    """kill -9 of the main process; returns when it has gone."""
    pid = server.postmaster_pid()
    assert pid is not None
    postmaster = psutil.Process(pid)
    postmaster.kill()
    with suppress(psutil.NoSuchProcess):
        while postmaster.status() != psutil.STATUS_ZOMBIE:
            pass


def fill(path: Path) -> None:
    """Writes until the disk takes no more."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4_096):
            pass


async def learns(server: EmbeddedPostgres, content: str) -> None:
    """Whether a new memory is taken up."""
    connection = await asyncpg.connect(server.socket_url)
    try:
        await connection.execute("insert into agent_memory (agent_id, content) values ('alice', $1)", content)
        await until(connection, LEARNT, content)
        await until(connection, IDLE)
    finally:
        await connection.close()


async def test_a_killed_postgres_is_restarted_and_work_continues(folder: Path, data: Path) -> None:
    server = EmbeddedPostgres(data)
    async with running(folder) as daemon:
        await learns(server, "before")
        for n in range(2):
            seen, before = len(daemon.lines), server.postmaster_pid()
            kill(server)
            assert (await daemon.event("postgres_lost", after=seen))["level"] == "warning"
            await daemon.event("postgres_restarted", after=seen, timeout=60)
            # Only a question asked meanwhile is told that the database is away; the listener always is.
            await daemon.event("listener_back", after=seen)
            assert server.postmaster_pid() not in (None, before)
            await learns(server, f"after {n}")
        assert daemon.process.returncode is None
        # It is the daemon's as before: who started it stops it.
        assert await daemon.stop() == 0
    assert not server.is_running()


async def test_what_a_crash_takes_back_is_done_again_at_once(folder: Path, data: Path) -> None:
    server = EmbeddedPostgres(data)
    async with running(folder) as daemon:
        await learns(server, "before")
        connection = await asyncpg.connect(server.socket_url)
        # What does not wait for the disk is then nowhere but in the server's memory.
        await connection.execute("alter system set wal_writer_delay = '10s'")
        await connection.execute("select pg_reload_conf()")
        await connection.close()
        released: list[object] = []
        for n in range(8):
            seen = len(daemon.lines)
            await learns(server, f"heron {n}")
            kill(server)
            await daemon.event("postgres_restarted", after=seen, timeout=60)
            await daemon.event("listener_back", after=seen)
            await learns(server, f"crane {n}")
            if released := [
                line for line in daemon.events("claims_released") if line["jobs"] + line["lanes"]
            ]:
                break
        assert released
        connection = await asyncpg.connect(server.socket_url)
        await all_indexed(connection)
        await connection.close()


async def test_a_full_disk_is_reported_and_waited_for(folder: Path, small_disk: Path) -> None:
    server = EmbeddedPostgres(small_disk)
    async with running(folder) as daemon:
        await learns(server, "before")
        ballast = small_disk / "ballast"
        fill(ballast)
        kill(server)
        refused = await daemon.event("postgres_not_started", timeout=60)
        assert refused["level"] == "error"
        assert "Make room" in refused["reason"]
        for command in ("doctor", "status"):
            shown = await Commands(None, folder)(command)
            assert shown.code == 1
            assert "disk is full" in shown.out + shown.err or "No space left" in shown.out + shown.err
        # Each reason is said once, however often it is tried.
        assert len(daemon.events("postgres_not_started")) == 1
        ballast.unlink()
        await daemon.event("postgres_restarted", timeout=120)
        await learns(server, "after")


async def test_damaged_files_are_reported_with_advice_and_left_unchanged(folder: Path, data: Path) -> None:
    server = EmbeddedPostgres(data)
    async with running(folder) as daemon:
        kill(server)
        control = data / "pg" / "global" / "pg_control"
        await daemon.event("postgres_restarted", timeout=60)
        server.stop("immediate")
        os.truncate(control, 0)
        refused = await daemon.event("postgres_not_started", timeout=120)
        assert "restore a backup" in refused["reason"]
        shown = await Commands(None, folder)("doctor", "--json")
        assert shown.code == 1
        (check,) = [one for one in shown.json if one["name"] == "database"]
        assert check["verdict"] == "problem"
        assert "damaged" in f"{check['found']} {check['advice']}"
        assert control.stat().st_size == 0


def test_too_little_memory_is_reported(folder: Path) -> None:
    server = EmbeddedPostgres(folder / "data", options={"shared_buffers": "7TB", "huge_pages": "off"})
    with pytest.raises(EmbeddedPostgresError, match="short of memory"):
        server.start()


async def test_the_doctor_reports_the_free_space_on_the_disk(data: Path) -> None:
    shown = await Commands(None, data.parent)("doctor", "--json")
    (check,) = [one for one in shown.json if one["name"] == "disk"]
    assert "GB are free" in check["found"]
