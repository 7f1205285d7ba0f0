"""Executor: claims the commands of an agent, has a handler do them, and writes the outcomes.

Promise: a command that was claimed here is completed here, also after the database was away and when the executor is
stopped. What a process that was killed had claimed is run again, three times in all, once its lease has expired.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memoryd_client import _values as values
from memoryd_client._commands import LONGEST_LEASE, claim, complete, failure, outcome, renew
from memoryd_client._connected import DatabaseClient
from memoryd_client._database import LONGEST_LIMIT, AnyDatabase
from memoryd_client._errors import MemorydError, NotFound, OutcomeUnknown, Refused, TimedOut, Unavailable
from memoryd_client._identity import Rights, identity
from memoryd_client._types import Command

Outcome = str | None | tuple[str | None, int]
Handler = Callable[[str, str, Command], Outcome | Awaitable[Outcome]]

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
LAST_SECONDS = 5.0
"""For ending a claim that is being made, and then for writing the outcomes of what was cancelled."""

log = logging.getLogger("memoryd_client")


@dataclass
class _Run:
    """A command that runs here, and what its handler does."""

    command: Command
    handled: asyncio.Task[tuple[str, int]]
    lost: bool = False
    """Another executor has claimed it since, or nobody wants it any more."""


class Executor(DatabaseClient):
    """Runs an agent's commands by `handler(context, message, command)`, which returns the output, or (output, exit_code).

    An exit code of 0 is success. What the handler raises is a failure, whose output is the exception's type and words. A
    handler without async runs in a thread. At most `parallel` commands run at once here. `poll_seconds`: how often it looks for
    commands although none was announced. `lease_seconds`: how long after this process has died its commands are run again; None
    never runs them again, and they fail after MEMORYD_COMMAND_TIMEOUT_HOURS. `database` and `rights`: see Memory.

    `async with Executor(...)` runs it for the block; `await Executor(...).run()` until SIGTERM, SIGINT or stop().
    """

    def __init__(
        self,
        database: AnyDatabase | str | None,
        agent: str,
        handler: Handler,
        *,
        parallel: int = 1,
        poll_seconds: float = 5.0,
        lease_seconds: float | None = 60.0,
        rights: Rights = "service",
    ) -> None:
        super().__init__(database, identity(rights, agent))
        self._handler = handler
        self._parallel = values.number("parallel", parallel, 1, 1000)
        self._poll_seconds = values.seconds("poll_seconds", poll_seconds, 0.001, LONGEST_LIMIT)
        self._lease_seconds = (
            None
            if lease_seconds is None
            else values.seconds("lease_seconds", lease_seconds, 1, LONGEST_LEASE)
        )
        self._threads: ThreadPoolExecutor | None = None
        self._running: dict[asyncio.Task[None], _Run] = {}
        self._woken = asyncio.Event()
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Executor:
        if self._tasks:
            raise Refused("This executor runs already.")
        self._stopping = False
        self._woken = asyncio.Event()  # of this event loop
        self._threads = ThreadPoolExecutor(self._parallel, thread_name_prefix="memoryd-handler")
        self._tasks = [asyncio.create_task(self._claim_all())]
        if not self._database.transaction_pooler:
            self._tasks.append(asyncio.create_task(self._listen()))
        if self._lease_seconds is not None:
            self._tasks.append(asyncio.create_task(self._renew(self._lease_seconds)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def run(self) -> None:
        """Runs until SIGTERM, SIGINT (in the main thread), stop(), or an error that no waiting mends, which is raised."""
        loop = asyncio.get_running_loop()
        caught = []
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, ValueError, RuntimeError):
                loop.add_signal_handler(number, self.stop_soon)
                caught.append(number)
        try:
            async with self:
                await asyncio.shield(self._tasks[0])
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def stop_soon(self) -> None:
        """Claims nothing more; what runs is finished by stop()."""
        self._stopping = True
        self._woken.set()

    async def stop(self, timeout: float | None = None) -> None:
        """Claims nothing more, and returns once all that runs is finished and written.

        What still runs after `timeout` seconds is cancelled and completed as failed. A handler in a thread cannot be
        cancelled: it goes on without an effect, and Python ends only after it. Raises what ended the loop before, if
        something did.
        """
        self.stop_soon()
        if not self._tasks:
            return
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        claiming, *others = self._tasks
        await asyncio.wait([claiming], timeout=timeout)
        if not claiming.done():
            # A claim that is cut off may be committed all the same: a command that runs, and nobody does it.
            await asyncio.wait([claiming], timeout=LAST_SECONDS)
        claiming.cancel()  # if the database is away
        if self._running:
            await asyncio.wait(list(self._running), timeout=until and max(0.0, until - loop.time()))
        if self._running:
            for run in self._running.values():
                run.handled.cancel()
            await asyncio.wait(list(self._running), timeout=LAST_SECONDS)  # their outcomes are written
        for task in [*self._running, *others]:
            task.cancel()
        await asyncio.gather(*self._running, *others, claiming, return_exceptions=True)
        self._tasks = []
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        await self.close()
        if not claiming.cancelled():
            claiming.result()

    async def _claim_all(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping:
            self._woken.clear()
            if len(self._running) >= self._parallel:
                await self._woken.wait()
                continue
            try:
                command = await self._claim()
            except (Unavailable, TimedOut, OutcomeUnknown) as error:
                log.warning("No command could be claimed for %s: %s", self._who.agent, error)
                await self._rest(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
                continue
            pause = FIRST_PAUSE
            if command is None:
                await self._rest(self._poll_seconds)
                continue
            run = _Run(command, asyncio.create_task(self._handled(command)))
            task = asyncio.create_task(self._execute(run))
            self._running[task] = run
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._woken.set()

    async def _rest(self, seconds: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)

    async def _claim(self) -> Command | None:
        try:
            return await claim(self._database, self._who, self._lease_seconds)
        except Refused as error:
            if error.sqlstate != "22023":
                raise
        return None  # the agent is not known yet: it is from its first command on

    async def _renew(self, lease: float) -> None:
        """Renews the leases of what runs here. While the database is away nobody else can claim it either."""
        while True:
            await asyncio.sleep(lease / 3)
            if not (runs := [run for run in self._running.values() if not run.lost]):
                continue
            try:
                kept = await renew(self._database, self._who, [run.command for run in runs], lease)
            except MemorydError as error:
                log.warning("The leases of %d commands are not renewed: %s", len(runs), error)
                continue
            for run in runs:
                # Where the handler is done, its outcome is being written, and ends the lease.
                if run.command.id not in kept and not run.handled.done():
                    log.warning("Command %s runs elsewhere, or has ended.", run.command.id)
                    run.lost = True
                    run.handled.cancel()

    async def _execute(self, run: _Run) -> None:
        try:
            output, exit_code = await run.handled
        except asyncio.CancelledError as error:
            if run.lost:
                return
            stopped = "The executor was stopped before this was done."
            output, exit_code = stopped if self._stopping else failure(error), 1
        await self._complete(run.command, output, exit_code)

    async def _handled(self, command: Command) -> tuple[str, int]:
        """The outcome. Whatever a handler does is one."""
        try:
            if inspect.iscoroutinefunction(self._handler):
                returned: Any = await self._handler(command.context, command.message, command)
            else:
                call = asyncio.get_running_loop().run_in_executor(self._threads, self._called, command)
                returned, raised = await call
                if raised is not None:
                    return failure(raised), 1
                if inspect.isawaitable(returned):
                    returned = await returned
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the command failed, the executor did not
            return failure(error), 1
        return outcome(returned)

    def _called(self, command: Command) -> tuple[Any, BaseException | None]:
        """What a handler in a thread returned or raised. Not every exception could be carried over by a future."""
        try:
            return self._handler(command.context, command.message, command), None
        except BaseException as error:  # noqa: BLE001
            return None, error

    async def _complete(self, command: Command, output: str, exit_code: int) -> None:
        """Writes an outcome. The work is done: it is tried until the row has the outcome, or is gone."""
        pause = FIRST_PAUSE
        while True:
            try:
                await complete(self._database, self._who, command, output, exit_code)
                return
            except (Unavailable, TimedOut) as error:
                log.warning("The outcome of %s waits for the database: %s", command.id, error)
            except (Refused, NotFound) as error:
                # The command is deleted, was completed by a call whose answer was lost, or claimed by another executor.
                log.log(
                    logging.INFO if error.sqlstate == "55000" else logging.ERROR,
                    "Command %s is not running any more: %s",
                    command.id,
                    error,
                )
                return
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    async def _listen(self) -> None:
        """Wakes the loop when a command of the agent is announced. Without it the loop still polls."""
        pause = FIRST_PAUSE
        while True:
            lost = asyncio.Event()
            try:
                connection = await self._database.listen("command_ready", self._heard, lost.set)
            except MemorydError as error:
                log.debug("No connection listens for %s: %s", self._who.agent, error)
            else:
                pause = FIRST_PAUSE
                self._woken.set()  # what came while nobody listened
                try:
                    await lost.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _heard(self, payload: str) -> None:
        # Anybody can say anything there: it only means that it is worth asking.
        with suppress(ValueError, AttributeError):
            if json.loads(payload).get("agent_id") == self._who.agent:
                self._woken.set()
