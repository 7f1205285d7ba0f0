"""The process that serves many databases: it starts and ends a serving for each listed database, and ends all at a signal.

Promise: SIGHUP reads the list again; an unreadable list changes nothing. SIGTERM and SIGINT stop all daemons as they stop one;
a second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from structlog.typing import FilteringBoundLogger

from daemon.ending import heed_signals
from daemon.part import Running
from daemon.settings import Settings
from daemon.settings.databases import NamedDatabase
from plugins.tenants.databases.serving import Serving, ServingMeans

AT_ONCE = 8
"""Databases with a working daemon at the same time; others wait for their turn."""
STOP_SECONDS = 5.0
"""Added to the grace period of the daemons."""


class Process:
    """Serves the listed databases."""

    def __init__(
        self,
        read: Callable[[], Sequence[NamedDatabase]],
        means: ServingMeans,
        *,
        settings_of: Callable[[NamedDatabase], Settings],
        grace_seconds: float,
        logger: FilteringBoundLogger,
    ) -> None:
        """`read`: reads the list. `settings_of`: the settings of a database. Both raise ValueError."""
        self._read = read
        self._means = means
        self._settings_of = settings_of
        self._grace_seconds = grace_seconds
        self._log = logger
        self._servings: dict[str, Serving] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended: set[asyncio.Task[None]] = set()
        self._told_to_stop = asyncio.Event()
        self._reread = asyncio.Event()

    @property
    def servings(self) -> Mapping[str, Serving]:
        """By the name of the database."""
        return self._servings

    def is_stopping(self) -> bool:
        """Whether it has been told to end."""
        return self._told_to_stop.is_set()

    async def run(self, port: Running | None = None) -> None:
        """Serves until it is told to stop. `port`: answers probes and scrapes. Raises ValueError for a wrong list."""
        self._change_to(self._read())
        heed_signals(
            self._told_to_stop, reread=self._reread, grace_seconds=self._grace_seconds, logger=self._log
        )
        self._log.info("process_started", databases=len(self._servings))
        answering = None if port is None else asyncio.create_task(port.run())
        stop = asyncio.create_task(self._told_to_stop.wait())
        while not self._told_to_stop.is_set():
            reread = asyncio.create_task(self._reread.wait())
            await asyncio.wait([stop, reread], return_when=asyncio.FIRST_COMPLETED)
            reread.cancel()
            if self._reread.is_set():
                self._reread.clear()
                self._read_again()
        for name in list(self._servings):
            self._end(name)
        await self._until_ended()
        if answering is not None:
            answering.cancel()
            await asyncio.wait([answering])
        self._log.info("process_stopped")

    def _read_again(self) -> None:
        try:
            wanted = self._read()
            changed = self._change_to(wanted)
        except ValueError as error:
            self._log.error("databases_not_read", reason=str(error))
            return
        self._log.info("databases_read", databases=len(wanted), changed=changed)

    def _change_to(self, wanted: Sequence[NamedDatabase]) -> int:
        """Serves exactly these; returns how many were added, removed or moved. Raises ValueError before any change."""
        settings = {one.name: self._settings_of(one) for one in wanted}
        now = {name: serving.named for name, serving in self._servings.items()}
        gone = [name for name, named in now.items() if named not in wanted]
        new = [one for one in wanted if now.get(one.name) != one]
        before = {name: self._end(name, leave=True) for name in gone}
        for one in new:
            serving = Serving(one, settings[one.name], self._means, logger=self._log)
            self._servings[one.name] = serving
            self._tasks[one.name] = asyncio.create_task(self._serve(serving, before.get(one.name)))
        return len(set(gone) | {one.name for one in new})

    async def _serve(self, serving: Serving, before: asyncio.Task[None] | None) -> None:
        if before is not None:  # the same name: its jobs are handed back first
            await asyncio.wait([before])
        await serving.run()

    def _end(self, name: str, *, leave: bool = False) -> asyncio.Task[None]:
        serving, task = self._servings.pop(name), self._tasks.pop(name)
        serving.stop(leave=leave)
        self._ended.add(task)
        task.add_done_callback(self._ended.discard)
        return task

    async def _until_ended(self) -> None:
        left = set(self._ended)
        if left:
            _, left = await asyncio.wait(left, timeout=self._grace_seconds + STOP_SECONDS)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=STOP_SECONDS)
