"""The part of a daemon that keeps the replica: it waits for the lease, then for changes, and has them synchronised.

Promise: one daemon at a time works on a replica; when it dies, another one takes it within seconds. Events of the file system
and of the database only say that a pass is due, and at which files it has to look; every so often there is one that looks at
all. What fails is tried again, after pauses that grow, and the log says what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import Collection
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone
from daemon.db.pool import Database
from daemon.first_to_end import until_first_ends
from daemon.logs import describe
from daemon.replica import location
from daemon.replica.folder import FolderUnavailable
from daemon.replica.location import Location
from daemon.replica.pass_state import Report
from daemon.replica.store.documents import LeaseLost, Store
from daemon.replica.sync import Sync
from daemon.replica.watch.agenda import Agenda
from daemon.replica.watch.pauses import Pauses

RENEW_SECONDS = 2.0
LONGEST_REST_SECONDS = 1.0
"""After a pass."""


class Replica:
    """Keeps the replica in a folder, until cancelled."""

    def __init__(
        self,
        place: Location,
        *,
        database: Database,
        daemon_id: UUID,
        logger: FilteringBoundLogger,
    ) -> None:
        self._place = place
        self._database = database
        self._log = logger
        self._store = Store(database, daemon_id)
        self._due = Agenda()
        self._trouble: str | None = None
        self._available, self._unavailable = asyncio.Event(), asyncio.Event()
        self._asked, self._asked_entries = 0, 0
        self._left_out = 0, 0, 0
        self._bookmark: str | None = None

    def wake(self) -> None:
        """Something changed in the database: a pass is due."""
        self._due.rows()

    async def run(self) -> None:
        """Waits for the lease, and works while it lasts."""
        try:
            while True:
                try:
                    replica = await self._store.lease()
                    if replica is not None:
                        await self._keep(replica)
                except LeaseLost:
                    self._log.warning("replica_lease_lost")
                except DATABASE_FAULTS as error:
                    if is_gone(error):
                        await self._database.recover(error)
                    elif not await self._database.reconnect_after_failover(error):
                        self._log.error("replica_failed", error=describe(error))
                await asyncio.sleep(RENEW_SECONDS)
        finally:
            self._place.close()
            with contextlib.suppress(*DATABASE_FAULTS, asyncio.CancelledError):
                await asyncio.wait_for(self._store.give_back(), 2.0)

    async def _keep(self, replica: UUID) -> None:
        self._log.info("replica_taken", replica=str(replica))
        sync = Sync(store=self._store, folder=self._place.folder, settle_seconds=self._place.settle_seconds)
        watch = self._place.watch(self._due.paths, self._blind, self._available, self._unavailable)
        await until_first_ends(self._renew(), watch, self._work(sync, replica))

    def _blind(self, error: BaseException) -> None:
        self._log.warning("replica_not_watched", error=describe(error), scan_seconds=location.SCAN_SECONDS)

    async def _renew(self) -> None:
        """Ends when the replica is another daemon's."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if await self._store.lease() is None:
                self._log.warning("replica_lease_lost")
                return

    async def _work(self, sync: Sync, replica: UUID) -> None:
        pauses, prepared = Pauses(location.SCAN_SECONDS), False
        self._due.everything()
        while True:
            changed, rows = self._due.take()
            waits = False
            try:
                if not prepared:
                    await self._resume()
                    await sync.prepare(replica)
                    prepared = True
                    self._unavailable.clear()
                    self._available.set()
                report, took = await self._pass(
                    sync, replica, changed if self._place.is_told() else None, rows=rows
                )
                await self._keep_bookmark()
            except FolderUnavailable as error:
                await self._tell(str(error))
                wait, prepared = pauses.unavailable(), False
                self._due.everything(after=wait)
                self._available.clear()
                self._unavailable.set()
            else:
                await self._tell(None)
                wait = pauses.after(report, took=took, is_told=self._place.is_told())
                waits = report.waits
                if report.is_whole:
                    self._due.everything(after=pauses.rest)
                if report.error is not None and wait:
                    name = errno.errorcode.get(report.error.errno or 0, "?")
                    self._log.warning(
                        "replica_write_failed", files=report.failures, error=name, again_seconds=wait
                    )
            if wait:
                await self._due.wait(wait, rows=not waits)

    async def _pass(
        self, sync: Sync, replica: UUID, changed: Collection[str] | None, *, rows: bool
    ) -> tuple[Report, float]:
        began = time.perf_counter()
        report = await sync.run(replica, changed, rows=rows)
        took = time.perf_counter() - began
        if any(report.counts.values()):
            counts = {name: count for name, count in report.counts.items() if count}
            self._log.info("replica_synced", **counts, ms=round(took * 1000))
        if report.asked and report.asked != self._asked:
            self._log.warning("replica_deletions_wait", files=report.asked)
        if report.asked_entries and report.asked_entries != self._asked_entries:
            self._log.warning("replica_entries_wait", entries=report.asked_entries)
        left_out = report.refused, report.not_text, report.copies
        if any(left_out) and left_out != self._left_out:
            self._log.warning(
                "replica_files_left_out",
                refused=report.refused,
                not_text=report.not_text,
                copies=report.copies,
            )
        self._asked, self._asked_entries, self._left_out = report.asked, report.asked_entries, left_out
        # While documents arrive all the time, passes take half of the time at most.
        await self._due.rest(min(took, LONGEST_REST_SECONDS))
        return report, took

    async def _tell(self, trouble: str | None) -> None:
        await self._store.tell(trouble)
        if trouble is not None and trouble != self._trouble:
            self._log.warning("replica_unavailable", reason=trouble)
        elif trouble is None and self._trouble is not None:
            self._log.info("replica_available")
        self._trouble = trouble

    async def _resume(self) -> None:
        """Where the folder tells of changes since a page token: goes on from the one that was kept."""
        if (pages := self._place.pages) is not None:
            pages.resume(await self._store.page_token(pages.name))

    async def _keep_bookmark(self) -> None:
        pages = self._place.pages
        if pages is not None and (token := pages.bookmark()) not in (None, self._bookmark):
            await self._store.keep_page_token(pages.name, token)
            self._bookmark = token
