"""A drop folder in Google Drive: a file that a person puts there becomes a document, and is moved away.

Promise: the same as for a local folder (drop). A file is moved after its document is written; if the daemon is killed in
between, the next one finds the file known. One daemon at a time works on the folder, by a lease in the database. If Drive
refuses a call, it is repeated with growing pauses, and the log says what to do.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections import Counter
from contextlib import suppress

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.lease import Lease
from daemon.db.pool import Database
from daemon.ending import until_first_ends
from plugins.documents.drive_files import DriveFiles, DroppedFile
from plugins.documents.ingest import Ingest, Outcome, ParserError
from plugins.documents.ports import Parser
from plugins.documents.store import Ownership
from plugins.replica.drive.client import DriveError

LEASE_SECONDS, RENEW_SECONDS = 30.0, 5.0
PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 60.0
"""Seconds before the next attempt, if another daemon works on the folder, or folder or database are gone."""
OPEN_SECONDS = 60.0
"""Seconds without a change before a document of Google is taken, since people write in it."""


class DriveDrop:
    """Takes files from one folder in Google Drive. `run` ends only by being cancelled."""

    def __init__(
        self,
        files: DriveFiles,
        *,
        database: Database,
        parser: Parser,
        settle_seconds: float,
        poll_seconds: float,
        logger: FilteringBoundLogger,
        pauses: tuple[float, float] = (PAUSE_SECONDS, MAX_PAUSE_SECONDS),
    ) -> None:
        """`settle_seconds`: a file is taken after this time without a change. `poll_seconds`: between two listings.

        `pauses`: the first and the longest pause before another attempt.
        """
        self._files = files
        self._database = database
        self._parser = parser
        self._leasing = Lease("drop folder", LEASE_SECONDS, files.id)
        self._token: int | None = None
        owned = Ownership(source="drop", root=f"gdrive:{files.id}")
        self._ingest = Ingest(database=database, parser=parser, owned=owned, source=files)
        self._settle = settle_seconds
        self._poll = poll_seconds
        self._log = logger
        self._seen: dict[str, tuple[int, float]] = {}
        self._is_watched = False
        self._told: str | None = None
        self._first, self._longest = pauses
        self._pause = self._first

    async def run(self) -> None:
        """Takes files until cancelled. A failure is logged, and the attempt repeated."""
        try:
            while True:
                try:
                    if await self._lease():
                        # Works while the lease lasts.
                        await until_first_ends(self._renew(), self._work())
                    elif self._is_new("busy"):
                        self._is_watched = False
                        self._log.info("drop_folder_busy")
                except DriveError as error:
                    self._tell_trouble(error)
                except ParserError as error:
                    if self._is_new(f"parser {error.code}"):
                        self._log.warning("drop_waits_for_parser", error=error.code)
                except DATABASE_FAULTS as error:
                    if self._is_new("database"):
                        self._log.warning("drop_waits_for_database", error=type(error).__name__)
                await asyncio.sleep(self._pause)
                self._pause = min(2 * self._pause, self._longest)
        finally:
            self._files.close()
            await self._parser.close()
            if self._token is not None:
                with suppress(TimeoutError, asyncio.CancelledError):
                    await asyncio.wait_for(self._leasing.give_back(self._database, self._token), 2.0)

    async def _lease(self) -> bool:
        if self._token is None or not await self._leasing.renew(self._database, self._token):
            self._token = await self._leasing.take(self._database)
        return self._token is not None

    async def _renew(self) -> None:
        """Ends when another daemon works on the folder."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not await self._lease():
                return

    async def _work(self) -> None:
        await asyncio.to_thread(self._files.check)
        if not self._is_watched:
            self._log.info("drop_folder_watched", settle_seconds=self._settle, scan_seconds=self._poll)
        self._is_watched = True
        while True:
            await self._scan()
            await asyncio.sleep(self._poll)

    async def _scan(self) -> None:
        """Takes the files that are ready. A file that fails waits for the next listing, and does not stop the others."""
        began = time.perf_counter()
        ready = await asyncio.to_thread(self._ready)
        counts: Counter[str] = Counter()
        failed: DriveError | None = None
        for one in ready:
            try:
                async for outcome in self._ingest.take([one.path]):
                    await asyncio.to_thread(self._files.take_away, one, why=_why(outcome))
                    counts[outcome.result] += 1
            except DriveError as error:
                if error.is_missing:
                    continue  # a person has taken it back
                failed = error
                if error.passes and error.errno != errno.ESTALE:
                    break  # the others would fail too
        if counts:
            self._log.info("files_taken", counts=dict(counts), ms=round((time.perf_counter() - began) * 1000))
        if failed is not None:
            raise failed
        self._told, self._pause = None, self._first

    def _ready(self) -> list[DroppedFile]:
        """The files that have not changed for a while."""
        now = time.monotonic()
        found = self._files.find()
        self._seen = {
            one.node.id: seen
            if (seen := self._seen.get(one.node.id)) is not None and seen[0] == one.node.version
            else (one.node.version, now)
            for one in found
        }
        return [one for one in found if self._is_still(one, now)]

    def _is_still(self, one: DroppedFile, now: float) -> bool:
        wanted = max(self._settle, OPEN_SECONDS) if one.is_googles else self._settle
        # The file's own time counts, too: after a start an old file need not be watched first.
        age = min(time.time() - one.node.modified.timestamp(), 2 * wanted)
        return max(now - self._seen[one.node.id][1], age) >= wanted

    def _tell_trouble(self, error: DriveError) -> None:
        name = errno.errorcode.get(error.errno or 0, "?")
        if self._is_new(f"{name} {error.reason}"):
            self._log.warning("drop_folder_unavailable", error=name, reason=error.reason)
        self._pause = max(self._pause, min(error.retry_after, self._longest))

    def _is_new(self, condition: str) -> bool:
        """Whether the condition is new: each condition is logged once, not at each attempt."""
        before, self._told = self._told, condition
        return before != condition


def _why(outcome: Outcome) -> str | None:
    """The note for the person whose file is rejected."""
    return outcome.reason if outcome.result == "rejected" else None
