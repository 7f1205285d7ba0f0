"""Somebody else's plugin: the example of docs/plugins.md, installed and run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest

from tests.support.database.schemas import connected
from tests.support.processes.daemons import DaemonProcess, environment
from tests.support.repository import ROOT
from tests.support.waiting import until

EXAMPLE = ROOT / "examples" / "plugin"


@pytest.fixture
def told() -> Iterator[tuple[str, Queue[bytes]]]:
    """A server that keeps what it is told: its address, and that."""
    bodies: Queue[bytes] = Queue()

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_plugin_brings_a_setting_a_topic_a_command_and_a_check(
    database_url: str, tmp_path: Path, told: tuple[str, Queue[bytes]]
) -> None:
    url, bodies = told
    quick = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation")
    pip = (sys.executable, "-m", "pip", "install", *quick, "--target", str(tmp_path / "site"))
    installed = await asyncio.to_thread(
        subprocess.run, [*pip, str(EXAMPLE)], check=False, capture_output=True
    )
    assert installed.returncode == 0, installed.stderr.decode()
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path / "site")])}
    given = environment(database_url, {"bell_url": url}) | path

    async def memoryd(*arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "daemon", *arguments),
            env=given,
            cwd=tmp_path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def said(*arguments: str) -> str:
        out, err = await (await memoryd(*arguments)).communicate()
        return (out + err).decode()

    assert "It was told." in await said("bell", "hello")
    assert b"hello" in bodies.get_nowait()
    assert "Ring the bell once" in await said("--help")
    daemon = DaemonProcess(await memoryd("run"))
    try:
        await daemon.event("daemon_started")
        assert daemon.events("setting_unknown") == []
        assert "It is set." in await said("doctor")
        async with connected(database_url) as connection:
            command = await connection.fetchval(
                "insert into agent_commands (agent_id, message) values ('alice', 'deploy') returning id"
            )
            await until(connection, "select count(*) = 1 from claim_command('alice')")
            await connection.fetchval("select complete_command($1, 'no such host', 1)", command)
        body = await asyncio.to_thread(bodies.get, timeout=60)
        assert str(command).encode() in body
    finally:
        assert await daemon.stop() == 0
    assert bodies.empty()
