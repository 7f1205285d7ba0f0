"""A world for the demo: a temporary folder with a Postgres and a real daemon in it.

Promise: however the demo ends, short of kill -9, the daemon and the server are stopped and the folder is gone.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from daemon.cli.demo.script import EXECUTOR, make_workspace
from daemon.cli.failure import Failure
from daemon.embedded.server import EmbeddedPostgres

START_SECONDS = 30.0
STOP_SECONDS = 15.0
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class World:
    """What was started."""

    folder: Path
    url: str
    daemon_pid: int
    daemon_log: Path


@contextmanager
def demo_world() -> Iterator[World]:
    """A server and a daemon that run; both are removed afterwards. Raises Failure or EmbeddedPostgresError."""
    before = {number: signal.getsignal(number) for number in _ENDINGS}
    for number in _ENDINGS:
        signal.signal(number, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="memoryd-demo-")).resolve()
    server = EmbeddedPostgres(folder / "data")
    started = False
    try:
        server.start()
        started = True
        make_workspace(folder / "work")
        with _daemon(folder, server.socket_url) as (pid, log):
            yield World(folder, server.socket_url, pid, log)
    finally:
        # A second Ctrl-C must not leave a server behind.
        for number in _ENDINGS:
            signal.signal(number, signal.SIG_IGN)
        _clear(server, folder, started=started)
        for number, handler in before.items():
            signal.signal(number, handler)


def run_interruptibly(main: Coroutine[Any, Any, None]) -> None:
    """Runs it; a signal to stop cancels it in order, and raises KeyboardInterrupt.

    While the event loop comes up and goes down the signals wait, or they would tear it in the middle.
    """
    before = {number: signal.getsignal(number) for number in _ENDINGS}
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    try:
        asyncio.run(_cancelled_by_signals(main))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)


async def _cancelled_by_signals(main: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(main)
    for number in _ENDINGS:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    try:
        await task
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)


@contextmanager
def _daemon(folder: Path, url: str) -> Iterator[tuple[int, Path]]:
    log = folder / "memoryd.log"
    with log.open("wb") as out:
        # In a session of its own: Ctrl-C is for the demo, which then stops the daemon in good order.
        process = subprocess.Popen(
            [sys.executable, "-m", "daemon", "run"],
            cwd=folder / "work",
            env=_environment(url, folder),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while "daemon_started" not in log.read_text("utf-8", "replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"The daemon did not start: {tail(log)}")
            time.sleep(0.02)
        yield process.pid, log
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tail(log: Path) -> str:
    """The last lines of a log."""
    return " | ".join(log.read_text("utf-8", "replace").splitlines()[-3:]) or "it said nothing"


def _environment(url: str, folder: Path) -> dict[str, str]:
    """None of the caller's settings: the demo is the same everywhere."""
    ours = ("MEMORYD_", "OPENAI_", "PG", "GIT_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    package = str(Path(__file__).resolve().parents[3])
    return clean | {
        "DATABASE_URL": url,
        "MEMORYD_EXECUTOR_COMMAND": EXECUTOR,
        "MEMORYD_EXECUTOR_PARALLEL": "1",
        "MEMORYD_EXECUTOR_DIR": str(folder / "work"),
        "MEMORYD_EXECUTOR_ENVIRONMENT": "PYTHONDONTWRITEBYTECODE,GIT_CEILING_DIRECTORIES",
        # The demo's own commands are all that it runs.
        **({"MEMORYD_EXECUTOR_USER": "root"} if os.geteuid() == 0 else {}),
        "MEMORYD_LOG_FORMAT": "json",
        # No fact about an anchor comes between what is shown.
        "MEMORYD_TRAIL_SECONDS": "3600",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C",
        # A repository around the temporary folder would make `git status` succeed.
        "GIT_CEILING_DIRECTORIES": str(folder),
    }


def _clear(server: EmbeddedPostgres, folder: Path, *, started: bool) -> None:
    # Interrupted while it started, the server may yet appear.
    deadline = time.monotonic() + (0.0 if started else 1.0)
    while not server.is_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    sockets = _socket_folder(server)
    try:
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if sockets is not None and sockets.name.startswith("memoryd-"):
            shutil.rmtree(sockets, ignore_errors=True)


def _socket_folder(server: EmbeddedPostgres) -> Path | None:
    """Where the socket is, which may be outside the data folder."""
    from daemon.embedded.causes import EmbeddedPostgresError

    with suppress(EmbeddedPostgresError, KeyError):
        return Path(parse_qs(urlsplit(server.socket_url).query)["host"][0])
    return None
