"""Real `memoryd run` processes for tests: started, watched through their logs, stopped or killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.processes.constants import CONSTANTS, variable_of
from tests.support.processes.forks import Process, start
from tests.support.repository import ROOT

# A limit for what never comes. On a busy machine the imports take half a minute.
START_SECONDS = 120.0
STOP_SECONDS = 90.0
DEFAULTS: dict[str, object] = {}
"""Settings and constants of all daemons of the tests that run at this moment."""


class DaemonProcess:
    """One daemon. Its log lines are in `lines`, parsed."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def event(
        self, name: str, *, timeout: float = START_SECONDS, after: int = 0, **values: object
    ) -> dict[str, Any]:
        """Waits for a log line of this event with these values, among those from number `after` on."""

        def found() -> dict[str, Any] | None:
            for line in self.lines[after:]:
                if line.get("event") == name and all(line.get(k) == v for k, v in values.items()):
                    return line
            return None

        async with self._news:
            try:
                await asyncio.wait_for(self._news.wait_for(lambda: found() or self._reader.done()), timeout)
            except TimeoutError:
                raise AssertionError(f"no {name} {values} within {timeout} s in: {self.text()}") from None
            line = found()
        assert line is not None, f"the daemon ended without {name} {values}: {self.text()}"
        return line

    def events(self, name: str) -> list[dict[str, Any]]:
        """All lines of an event so far."""
        return [line for line in self.lines if line.get("event") == name]

    def text(self) -> str:
        """The log so far."""
        return "\n".join(json.dumps(line) for line in self.lines)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal and waits for the end; returns the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        code = await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        await self._reader
        return code

    async def stop_at_once(self, number: signal.Signals) -> int:
        """Sends a signal until it has ended, as one at the same moment as the first is no second one; returns the exit code."""
        while self.process.returncode is None:
            self.process.send_signal(number)
            await asyncio.sleep(0.1)
        return await self.stop()

    async def kill(self) -> None:
        """kill -9."""
        await self.stop(signal.SIGKILL)

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while raw := await self.process.stderr.readline():
            try:
                line = json.loads(raw)
            except ValueError:
                line = {"event": "not_json", "text": raw.decode("utf-8", "replace")}
            async with self._news:
                self.lines.append(line)
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()


class Daemons:
    """Starts daemons on one database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder
        self._all: list[DaemonProcess] = []

    async def start(
        self, *, wait: bool = True, url: str | None = None, whole: bool = False, **settings: object
    ) -> DaemonProcess:
        """A daemon with these settings (`poll_seconds=1` sets MEMORYD_POLL_SECONDS), ready to work when `wait`.

        A setting may also be the name of a constant (constants.py). `whole`: see forks.start().
        """
        process = await start(
            ["run"],
            environment=environment(url or self.url, DEFAULTS | settings),
            cwd=self._folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            whole=whole,
        )
        started = DaemonProcess(process)
        self._all.append(started)
        if wait:
            await started.event("daemon_started")
        return started

    async def kill_all(self) -> None:
        """Ends whatever still runs."""
        for one in self._all:
            await one.kill()


def environment(url: str, settings: Mapping[str, object]) -> dict[str, str]:
    """The environment of a memoryd process: none of the caller's own settings, these instead."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_") and k != "DATABASE_URL"}
    root = str(ROOT)
    return (
        clean
        # As root these tests mean it; what else a program may be is tests/security/test_executor_isolation.py's matter.
        | ({"MEMORYD_EXECUTOR_USER": "root"} if os.geteuid() == 0 else {})
        | {"DATABASE_URL": url, "MEMORYD_LOG_FORMAT": "json", "PYTHONPATH": root}
        | {f"MEMORYD_{k.upper()}": str(v) for k, v in settings.items() if k not in CONSTANTS}
        | variable_of(settings)
    )
