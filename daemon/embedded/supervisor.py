"""Keeps the embedded Postgres of a daemon alive: notices that it is gone, says why, and starts it again.

Promise: however it ended, and whatever state the disk was in, the daemon goes on by itself as soon as a server can run. It
tries again with a growing pause, says each cause once, and never starts a second server beside a living one.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from structlog.typing import FilteringBoundLogger

from daemon.embedded.causes import ADVICE, Cause, EmbeddedPostgresError, killed_for_memory
from daemon.embedded.server import EmbeddedPostgres

WATCH_SECONDS = 0.5
TURN_LOG_SECONDS = 30.0
MIN_PAUSE, MAX_PAUSE = 0.5, 60.0
DAMAGED_PAUSE = 300.0
"""Pause between two starts with damaged files: they have to be repaired first."""
STEADY_SECONDS = 60.0
"""A server that lived so long did not die of its start: the next one is made without a pause."""

Result = TypeVar("Result")


class Supervisor:
    """Watches one server, which runs when it is built."""

    def __init__(self, server: EmbeddedPostgres, *, logger: FilteringBoundLogger) -> None:
        self._server = server
        self._log = logger
        self._pause = MIN_PAUSE
        self._started = 0.0

    async def run(self) -> None:
        """Watches until cancelled. Raises EmbeddedPostgresError when the server came back at another address."""
        url, turned = self._server.socket_url, time.monotonic()
        kills = killed_for_memory()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if await self._runs():
                kills = killed_for_memory()
                if time.monotonic() - turned > TURN_LOG_SECONDS:
                    turned = time.monotonic()
                    with suppress(EmbeddedPostgresError, OSError):
                        await _in_thread(self._server.turn_log)
                continue
            cause = self._server.why_gone()
            if cause == "killed" and killed_for_memory() > kills:
                cause = "out_of_memory"
            self._log.warning("postgres_lost", cause=cause, advice=ADVICE[cause])
            await self._bring_back()
            if self._server.socket_url != url:
                raise EmbeddedPostgresError(
                    "memoryd's Postgres now has another address. Start memoryd again."
                )

    async def _runs(self) -> bool:
        try:
            return await _in_thread(self._server.is_running)
        except (EmbeddedPostgresError, OSError):
            # It is unknown just now. A start finds a server that runs.
            return False

    async def _bring_back(self) -> None:
        began, attempts = time.monotonic(), 0
        told: Cause | None = None
        if began - self._started > STEADY_SECONDS:
            self._pause = MIN_PAUSE
        else:
            await self._wait()
        ours: bool | None = None
        while ours is None:
            attempts += 1
            try:
                ours = await _in_thread(lambda: self._server.start(same_port=True))
            except EmbeddedPostgresError as error:
                if error.cause != told:
                    self._log.error(
                        "postgres_not_started",
                        cause=error.cause,
                        advice=ADVICE[error.cause],
                        reason=str(error),
                    )
                    told = error.cause
                if error.cause == "corrupted":
                    self._pause = DAMAGED_PAUSE
                await self._wait()
        self._started = time.monotonic()
        self._log.info(
            "postgres_restarted", ours=ours, attempts=attempts, seconds=round(time.monotonic() - began, 2)
        )

    async def _wait(self) -> None:
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, max(MAX_PAUSE, self._pause))


async def _in_thread(work: Callable[[], Result]) -> Result:
    """In a thread that the end of the process does not wait for: a start may take minutes."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def deliver(result: Result | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, fault = None, None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            fault = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(deliver, result, fault)

    try:
        threading.Thread(target=run, daemon=True).start()
    except RuntimeError as error:
        raise EmbeddedPostgresError(f"No thread could be started: {error}.", "out_of_memory") from None
    return await done
