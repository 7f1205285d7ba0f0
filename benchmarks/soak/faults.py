"""The faults: daemons killed and frozen, connections cut, the server restarted or killed, transactions left open; and what an
operator does meanwhile: backups, upgrades."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import IO
from uuid import uuid4

import asyncpg

from benchmarks.soak.writers import BROKEN
from plugins.embedded.server import EmbeddedPostgres

LOCK = (
    "select from agent_commands order by random() limit 20 for update",
    "select from agent_memory order by random() limit 50 for update",
    "select from conversation_sessions order by random() limit 3 for update",
    "insert into agents (agent_id) values ('agent' || (random() * 20)::integer) on conflict do nothing",
)

ASK = "insert into agent_commands (id, agent_id, message) values ($1, 'prober', 'are you there?') on conflict do nothing"
ANSWERED = "select status <> 'pending' from agent_commands where id = $1"


class Daemons:
    """So many real daemons on one database, each started again after its end."""

    def __init__(self, url: str, log: IO[bytes], settings: dict[str, str]) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_") and k != "DATABASE_URL"}
        root = str(Path(__file__).parents[2])
        self._environment = kept | {
            "DATABASE_URL": url,
            "MEMORYD_LOG_FORMAT": "json",
            "PYTHONPATH": root,
            **{f"MEMORYD_{k.upper()}": v for k, v in settings.items()},
        }
        self._log = log
        self.running: list[subprocess.Popen[bytes]] = []

    async def command(self, *arguments: str) -> None:
        """Runs a command of memoryd beside them. Raises OSError where it fails."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "daemon", *arguments),
            env=self._environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=self._log,
        )
        if await process.wait():
            raise OSError(f"memoryd {arguments[0]} ended with {process.returncode}")

    def start(self, count: int) -> None:
        """Starts this number of further daemons."""
        for _ in range(count):
            self.running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "daemon", "run", "--no-migrate"],
                    env=self._environment,
                    stdout=self._log,
                    stderr=self._log,
                )
            )

    def replace_dead(self) -> int:
        """Starts one for each that has ended; returns how many."""
        dead = [p for p in self.running if p.poll() is not None]
        self.running = [p for p in self.running if p.poll() is None]
        self.start(len(dead))
        return len(dead)

    def stop(self) -> None:
        """SIGTERM to all, and waits."""
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


class Faults:
    """One after the other, by lot, until stopped."""

    def __init__(
        self, server: EmbeddedPostgres, url: str, daemons: Daemons, dice: Random, backups: Path
    ) -> None:
        self._server = server
        self._url = url
        self._backups = backups
        self._daemons = daemons
        self._dice = dice
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        """Backups and upgrades that another fault has stopped."""
        self.recovered: dict[str, float] = {}
        """By kind of fault the longest time from its beginning until a new command had its context."""

    async def run(self, stopping: asyncio.Event, pause: float) -> None:
        """A fault each time this number of seconds has passed."""
        kinds: list[Callable[[], Awaitable[None]]] = [
            *[self._kill_daemon] * 3,
            *[self._freeze_daemon] * 2,
            *[self._cut_connections] * 3,
            *[self._hold_rows] * 3,
            self._restart_server,
            self._kill_server,
            self._back_up,
            self._upgrade,
        ]
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause * self._dice.uniform(0.5, 1.5))
                return
            fault = self._dice.choice(kinds)
            kind, began = fault.__name__.strip("_"), time.perf_counter()
            answered = asyncio.create_task(self._answered())
            try:
                await fault()
            except BROKEN:
                self.failed[kind] += 1
            self.done[kind] += 1
            self._daemons.replace_dead()
            took = round(await answered - began, 1)
            self.recovered[kind] = max(took, self.recovered.get(kind, 0.0))

    async def _answered(self) -> float:
        """When a command that is asked for now has its context."""
        await asyncio.sleep(0.1)
        row = uuid4()
        while True:
            with contextlib.suppress(*BROKEN):
                connection = await asyncpg.connect(self._url, timeout=5, command_timeout=5)
                try:
                    await connection.execute(ASK, row)
                    while not await connection.fetchval(ANSWERED, row):
                        await asyncio.sleep(0.02)
                    return time.perf_counter()
                finally:
                    connection.terminate()
            await asyncio.sleep(0.1)

    async def _back_up(self) -> None:
        await self._daemons.command("backup", str(self._backups))

    async def _upgrade(self) -> None:
        """All functions, views, triggers and policies are made again, with every table locked."""
        await self._daemons.command("migrate", "--repair")

    async def _kill_daemon(self) -> None:
        self._dice.choice(self._daemons.running).kill()
        await asyncio.sleep(0.1)

    async def _freeze_daemon(self) -> None:
        process = self._dice.choice(self._daemons.running)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self._dice.uniform(1, 6))
        process.send_signal(signal.SIGCONT)

    async def _cut_connections(self) -> None:
        connection = await asyncpg.connect(self._server.socket_url, timeout=5)
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where backend_type = 'client backend' and pid <> pg_backend_pid() and random() < 0.4"
        )
        connection.terminate()

    async def _hold_rows(self) -> None:
        connection = await asyncpg.connect(self._url, timeout=5)
        try:
            await connection.execute("begin; set local lock_timeout = '2s'")
            await connection.execute(self._dice.choice(LOCK))
            await asyncio.sleep(self._dice.uniform(1, 4))
        finally:
            connection.terminate()

    async def _restart_server(self) -> None:
        await asyncio.to_thread(self._server.restart)

    async def _kill_server(self) -> None:
        if (pid := self._server.postmaster_pid()) is not None:
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(self._server.start)
