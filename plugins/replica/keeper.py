"""The part of a daemon that keeps the replica: it waits for the lease, then synchronises changes.

Promise: one daemon at a time works on a replica; when it dies, another one takes it within seconds. Events of the file system
and of the database only say that a pass is due; every so often there is one without. What fails is tried again, after pauses
that grow, and the log says what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.ending import until_first_ends
from daemon.logs import describe
from plugins.replica.folder import Folder, FolderUnavailable
from plugins.replica.pass_state import Report
from plugins.replica.store.documents import LeaseLostError, Store
from plugins.replica.sync import Sync

RENEW_SECONDS = 2.0
SCAN_SECONDS = 60.0
"""Between two passes while nothing happens."""
SHARE = 0.05
"""The share of the time that such passes may take."""
LONGEST_REST_SECONDS = 10.0
"""After a pass."""
LAST_SECONDS = 60.0
"""The longest pause while the folder cannot be used or written. The first pause is a second, each next one twice as long."""
MAX_PASSES = 5
"""Passes in a row that left something to do, before a pause."""


class Keeper:
    """Keeps the replica in a folder, until cancelled."""

    def __init__(
        self, folder: Folder, *, database: Database, daemon_id: UUID, logger: FilteringBoundLogger
    ) -> None:
        self._folder = folder
        self._database = database
        self._log = logger
        self._store = Store(database, daemon_id)
        self._due = asyncio.Event()
        self._trouble: str | None = None
        self._failures, self._passes, self._stuck = 0, 0, 0
        self._available, self._unavailable = asyncio.Event(), asyncio.Event()
        self._told: tuple[int, ...] = (0, 0, 0, 0, 0)

    def wake(self) -> None:
        """Makes a pass due: something changed in the database or in the folder."""
        self._due.set()

    async def run(self) -> None:
        """Waits for the lease, and works while it lasts."""
        try:
            while True:
                try:
                    replica = await self._store.lease()
                    if replica is not None:
                        await self._keep(replica)
                except LeaseLostError:
                    self._log.warning("replica_lease_lost")
                except DATABASE_FAULTS as error:
                    if is_gone(error):
                        await self._database.recover(error)
                    elif not await self._database.reconnect_after_failover(error):
                        self._log.error("replica_failed", error=describe(error))
                await asyncio.sleep(RENEW_SECONDS)
        finally:
            self._folder.close()
            with contextlib.suppress(*DATABASE_FAULTS, asyncio.CancelledError):
                await asyncio.wait_for(self._store.give_back(), 2.0)

    async def _keep(self, replica: UUID) -> None:
        self._log.info("replica_taken", replica=str(replica))
        sync = Sync(store=self._store, folder=self._folder, settle_seconds=self._folder.settle_seconds)
        watch = self._folder.watch(self.wake, self._blind, self._available, self._unavailable)
        await until_first_ends(self._renew(), watch, self._work(sync, replica))

    def _blind(self, error: BaseException) -> None:
        self._log.warning("replica_not_watched", error=describe(error), scan_seconds=SCAN_SECONDS)

    async def _renew(self) -> None:
        """Ends when another daemon has the replica."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if await self._store.lease() is None:
                self._log.warning("replica_lease_lost")
                return

    async def _work(self, sync: Sync, replica: UUID) -> None:
        prepared = False
        while True:
            self._due.clear()
            began = time.perf_counter()
            try:
                if not prepared:
                    await sync.prepare(replica)
                    prepared = True
                    self._unavailable.clear()
                    self._available.set()
                report = await sync.run(replica)
            except FolderUnavailable as error:
                await self._note_trouble(str(error))
                wait, prepared = self._after_failure(), False
                self._available.clear()
                self._unavailable.set()
            else:
                took = time.perf_counter() - began
                self._log_pass(report, took)
                await self._note_trouble(None)
                wait = self._wait(report, took)
                # While documents arrive all the time, passes take half of the time at most.
                await asyncio.sleep(min(took, LONGEST_REST_SECONDS))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._due.wait()

    def _wait(self, report: Report, took: float) -> float:
        """Seconds until the next pass without an event: 0 while there is more to do, for a limited number of passes."""
        self._passes = self._passes + 1 if report.again else 0
        self._stuck = self._stuck + 1 if report.again and not any(report.counts.values()) else 0
        if report.error is not None:
            wait = self._after_failure()
            name = errno.errorcode.get(report.error.errno or 0, "?")
            self._log.warning("replica_write_failed", files=report.failures, error=name, again_seconds=wait)
            return wait
        self._failures = 0
        if report.again:
            # For example a file that can be listed but not read is tried less and less often.
            pause = min(report.pause * 2.0 ** min(self._stuck, 20), SCAN_SECONDS)
            return 0.0 if self._passes < MAX_PASSES else pause
        return report.pause if report.waits else max(SCAN_SECONDS, took / SHARE)

    def _after_failure(self) -> float:
        self._failures += 1
        return min(2.0 ** (self._failures - 1), LAST_SECONDS)

    def _log_pass(self, report: Report, took: float) -> None:
        """Logs the work of a pass, and what waits for a person, if it changed."""
        if counts := {name: count for name, count in report.counts.items() if count}:
            self._log.info("replica_synced", **counts, ms=round(took * 1000))
        told = report.asked, report.asked_entries, report.refused, report.not_text, report.copies
        if told[0] and told[0] != self._told[0]:
            self._log.warning("replica_deletions_wait", files=report.asked)
        if told[1] and told[1] != self._told[1]:
            self._log.warning("replica_entries_wait", entries=report.asked_entries)
        if any(told[2:]) and told[2:] != self._told[2:]:
            refused, not_text, copies = told[2:]
            self._log.warning("replica_files_left_out", refused=refused, not_text=not_text, copies=copies)
        self._told = told

    async def _note_trouble(self, trouble: str | None) -> None:
        await self._store.note_trouble(trouble)
        if trouble is not None and trouble != self._trouble:
            self._log.warning("replica_unavailable", reason=trouble)
        elif trouble is None and self._trouble is not None:
            self._log.info("replica_available")
        self._trouble = trouble
