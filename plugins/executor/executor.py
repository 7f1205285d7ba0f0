"""The built-in executor: runs ready commands by a program that the owner names, and completes them.

The program (MEMORYD_EXECUTOR_COMMAND) runs once for each command. It gets the context and the message on stdin, and
MEMORYD_COMMAND_ID, MEMORYD_AGENT_ID and MEMORYD_SESSION_ID in its environment. What it writes is the output, which is written
into the row while it runs. Its exit code decides between completed and failed. `plugins/executor/confinement.py` limits it.

Promise: all daemons together run at most N commands of an agent at once. The time limit ends the whole process group. Output
of any bytes and any size is kept (NUL and invalid UTF-8 replaced, the middle left out above the limit). A command whose daemon
died is run again by another, three times in all: effects outside happen at least once, its memory is written exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Sequence
from uuid import UUID

import asyncpg
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone, is_locked_out
from daemon.db.pool import Database
from daemon.logs import describe
from daemon.measures import Measures
from plugins.executor import commands
from plugins.executor.confinement import Confinement
from plugins.executor.program import Output, run_program
from plugins.executor.unframed import unframed

OUTPUT_BYTES = 16_000_000
"""The middle of a longer output is left out."""
OUT_OF_RESOURCES_SECONDS = 1.0
STREAM_SECONDS = 1.0
LAST_CLAIM_SECONDS = 2.0
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 5.0
"""Seconds between two attempts to write an outcome."""

CONTENDED = (
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InsufficientResourcesError,
)
"""Errors after which the same statement may succeed later: a deadlock, lock contention, a full disk."""


class Room:
    """Room for this number of programs at once: the limit of one process, for all its databases.

    Promise: a caller reserves room before it knows how many programs it needs, so there are never too many programs. Callers
    that found no room are woken in the order in which they came.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self, *, wake: Callable[[], None]) -> int:
        """Reserves half of the free room, since others may come before the need is known. After 0, `wake` is called later."""
        taken = (self._free + 1) // 2
        self._free -= taken
        if not taken:
            self._waiting[wake] = None
        return taken

    def give_back(self, number: int) -> None:
        """Gives back room that is not needed, or no longer needed."""
        self._free += number
        if number:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()


class Executor:
    """Claims ready commands and runs them until stop()."""

    def __init__(  # noqa: PLR0913 - one setting each
        self,
        argv: Sequence[str],
        *,
        confinement: Confinement,
        database: Database,
        daemon_id: UUID,
        lease_seconds: float,
        parallel: int,
        room: Room,
        timeout_seconds: float,
        is_stopping: Callable[[], bool],
        measures: Measures,
        logger: FilteringBoundLogger,
    ) -> None:
        self._argv = argv
        self._confinement = confinement
        self._database = database
        self._daemon_id = daemon_id
        self._lease_seconds = lease_seconds
        self._parallel = parallel
        self._room = room
        self._timeout = timeout_seconds
        self._is_stopping = is_stopping
        self._measures = measures
        self._log = logger
        self._woken = asyncio.Event()
        self._running: dict[UUID, asyncio.Task[None]] = {}
        # Commands whose program has ended and whose outcome is being written: writing it ends the lease.
        self._finishing: set[UUID] = set()
        self._claiming = asyncio.Lock()
        self.begun = 0
        """The number of commands that began here."""
        self._stopping = False

    async def has_work(self) -> bool:
        """Whether a command runs here, or a command waits that may be claimed."""
        waits = await self._database.fetchval(commands.ANY_TO_CLAIM, self._parallel)
        # A command that is just being claimed neither waits nor runs.
        return bool(waits or self._running or self._claiming.locked() or self._woken.is_set())

    @property
    def runs(self) -> bool:
        """Whether a program runs or may just be beginning, or an outcome is being written."""
        return bool(self._running or self._claiming.locked())

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Claims commands whenever woken; run it beside `renew_leases`."""
        self._woken.set()
        while not self._stopping:
            await self._woken.wait()
            self._woken.clear()
            try:
                async with self._claiming:
                    await self._claim()
            except DATABASE_FAULTS as error:
                if not is_gone(error):
                    if not await self._database.reconnect_after_failover(error):
                        level = logging.INFO if is_locked_out(error) else logging.ERROR
                        self._log.log(level, "executor_claim_failed", error=describe(error))
                    await asyncio.sleep(1.0)
                await self._database.recover(error)
                self._woken.set()

    async def renew_leases(self) -> None:
        """Renews the leases of the commands that run here. Call it three times in the time of a lease."""
        if running := dict(self._running):
            rows = await self._database.fetch(
                commands.RENEW, self._daemon_id, self._lease_seconds, list(running)
            )
            kept = {row["command_id"] for row in rows}
            for command_id, task in running.items():
                # Another daemon took the command over, so this one must stop.
                if command_id not in kept and command_id not in self._finishing and not task.done():
                    self._log.warning("execution_lost", command=str(command_id))
                    task.cancel()

    async def stop(self, *, grace_seconds: float) -> None:
        """Starts no more programs, gives running ones `grace_seconds`, then ends them and hands their commands back."""
        self._stopping = True
        self._woken.set()
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        # A claim that has begun still starts programs, which would outlive the daemon.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._claiming.acquire(), max(grace_seconds, LAST_CLAIM_SECONDS))
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=max(0.0, until - loop.time()))
        left = dict(self._running)
        for task in left.values():
            task.cancel()
        if left:
            await asyncio.wait(list(left.values()))
            await self._database.execute(commands.HAND_BACK, self._daemon_id, list(left))
            self._log.info("commands_handed_back", commands=len(left))

    async def _claim(self) -> None:
        if self._stopping or self._is_stopping():
            return
        taken, begun = self._room.take(wake=self.wake), self.begun
        try:
            rows = await self._claimed(taken) if taken else []
            for r in rows:
                task = asyncio.create_task(self._execute(r))
                self._running[r["id"]] = task
                self.begun += 1
                task.add_done_callback(functools.partial(self._ended, r["id"]))
        finally:
            self._room.give_back(taken - (self.begun - begun))
        if taken and len(rows) == taken:
            self._woken.set()

    async def _claimed(self, most: int) -> list[asyncpg.Record]:
        async with self._database.transaction() as connection:
            await connection.execute(commands.LOCK)
            return await connection.fetch(
                commands.CLAIM, self._daemon_id, self._parallel, most, self._lease_seconds
            )

    def _ended(self, command_id: UUID, task: asyncio.Task[None]) -> None:
        self._room.give_back(1)
        if self._running.get(command_id) is task:
            del self._running[command_id]
        self._woken.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # The lease expires, and the command is run again.
            self._log.error("executor_failed", command=str(command_id), error=describe(error))

    async def _execute(self, row: asyncpg.Record) -> None:
        began = time.perf_counter()
        output = Output(OUTPUT_BYTES)
        try:
            exit_code, error = await self._run(row, output)
        except OSError as fault:
            # This machine cannot start another process now. Another daemon may be able to, or this one later.
            self._log.warning("executor_out_of_resources", command=str(row["id"]), error=describe(fault))
            await asyncio.sleep(OUT_OF_RESOURCES_SECONDS)
            # If the database is away too, the lease expires, and the command is run again.
            with contextlib.suppress(*DATABASE_FAULTS):
                await self._database.execute(commands.HAND_BACK, self._daemon_id, [row["id"]])
            return
        self._finishing.add(row["id"])
        try:
            await self._complete(row["id"], output.text(), exit_code, error)
        finally:
            self._finishing.discard(row["id"])
        self._log.info(
            "command_executed",
            command=str(row["id"]),
            agent=row["agent_id"],
            exit_code=exit_code,
            bytes=output.size,
            ms=round((time.perf_counter() - began) * 1000),
        )

    async def _complete(self, command_id: UUID, output: str, exit_code: int, error: str | None) -> None:
        """Writes the outcome; repeats the attempt until the row is completed or gone."""
        pause = MIN_PAUSE_SECONDS
        while True:
            try:
                await self._database.execute(
                    commands.COMPLETE, command_id, self._daemon_id, output, exit_code, error
                )
                return
            except DATABASE_FAULTS as fault:
                if is_gone(fault):
                    await self._database.recover(fault)
                elif not isinstance(fault, CONTENDED):
                    raise
                self._log.warning(
                    "outcome_delayed", command=str(command_id), error=describe(fault), retry_in=pause
                )
                await asyncio.sleep(pause)
                pause = min(MAX_PAUSE_SECONDS, 2 * pause)

    async def _run(self, row: asyncpg.Record, output: Output) -> tuple[int, str | None]:
        streaming = asyncio.create_task(self._stream(row["id"], output))
        try:
            return await run_program(
                self._argv,
                given="\n\n".join(part for part in (row["context"], unframed(row["message"])) if part) + "\n",
                environment={
                    "MEMORYD_COMMAND_ID": str(row["id"]),
                    "MEMORYD_AGENT_ID": row["agent_id"],
                    "MEMORYD_SESSION_ID": str(row["session_id"] or ""),
                    # The convention of OpenTelemetry for child processes.
                    **({"TRACEPARENT": row["traceparent"]} if row["traceparent"] else {}),
                },
                confinement=self._confinement,
                timeout_seconds=self._timeout,
                output=output,
            )
        finally:
            streaming.cancel()

    async def _stream(self, command_id: UUID, output: Output) -> None:
        written = 0
        pause = STREAM_SECONDS
        while True:
            await asyncio.sleep(pause)
            size = output.size
            if size == written:
                continue
            written = size
            with contextlib.suppress(*DATABASE_FAULTS):
                await self._database.execute(commands.STREAM, command_id, self._daemon_id, output.text())
            # Each time the whole text is written again, so a longer text has a longer pause.
            pause = max(STREAM_SECONDS, size / 1_000_000)
