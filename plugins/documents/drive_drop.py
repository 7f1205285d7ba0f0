"""A drop folder in Google Drive: a file that a person puts there becomes a document, and is moved away.

Promise: the same as for a local folder (drop). A file is moved after its document is written; if the daemon is killed in
between, the next one finds the file known. One daemon at a time works on the folder, by a lease in the database. If Drive
refuses a call, it is repeated with growing pauses, and the log says what to do.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from daemon.db.lease import Lease
from daemon.db.pool import Database
from daemon.ending import until_first_ends
from plugins.documents.drive_files import DriveFiles, DroppedFile
from plugins.documents.drop import Drop, DropFolderError
from plugins.documents.ingest import Ingest
from plugins.documents.ports import Parser
from plugins.documents.store import Ownership
from plugins.replica.drive.client import DriveError

LEASE_SECONDS, RENEW_SECONDS = 30.0, 5.0
PAUSES = (1.0, 60.0)
OPEN_SECONDS = 60.0
"""Seconds without a change before a document of Google is taken, since people write in it."""


class DriveDrop(Drop):
    def __init__(
        self,
        files: DriveFiles,
        *,
        database: Database,
        parser: Parser,
        pauses: tuple[float, float] = PAUSES,
        **options: Any,
    ) -> None:
        """`options`: see `Drop`."""
        super().__init__(parser=parser, pauses=pauses, **options)
        self._files = files
        self._database = database
        self._leasing = Lease("drop folder", LEASE_SECONDS, files.id)
        self._token: int | None = None
        owned = Ownership(source="drop", root=f"gdrive:{files.id}")
        self._ingest = Ingest(database=database, parser=parser, owned=owned, source=files)

    async def _work(self) -> None:
        if not await self._lease():
            raise DropFolderError(BlockingIOError())
        try:
            await asyncio.to_thread(self._files.check)
            await until_first_ends(self._renew(), self._watch())
        except DriveError as error:
            self._pause = max(self._pause, min(error.retry_after, self._longest))
            raise DropFolderError(error) from error

    async def _close(self) -> None:
        self._files.close()
        await super()._close()
        if self._token is not None:
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._leasing.give_back(self._database, self._token), 2.0)

    async def _lease(self) -> bool:
        if self._token is None or not await self._leasing.renew(self._database, self._token):
            self._token = await self._leasing.take(self._database)
        return self._token is not None

    async def _renew(self) -> None:
        """Ends when another daemon works on the folder."""
        while await self._lease():
            await asyncio.sleep(RENEW_SECONDS)

    async def _take(self, counts: Counter[str]) -> None:
        """A file that fails waits for the next listing, and does not stop the others."""
        failed: DriveError | None = None
        for one in await asyncio.to_thread(self._ready):
            try:
                async for outcome in self._ingest.take([one.path]):
                    why = outcome.reason if outcome.result == "rejected" else None
                    await asyncio.to_thread(self._files.take_away, one, why=why)
                    counts[outcome.result] += 1
            except DriveError as error:
                if error.is_missing:
                    continue  # a person has taken it back
                failed = error
                if error.passes and error.errno != errno.ESTALE:
                    break  # the others would fail too
        if failed is not None:
            raise failed

    def _ready(self) -> list[DroppedFile]:
        """The files that have not changed for a while."""
        found: dict[Path, tuple[object, float]] = {}
        ready = []
        for one in self._files.find():
            look = one.node.id, one.node.version
            since, still = self._still(look, one.node.modified.timestamp(), self._seen.get(one.path))
            found[one.path] = look, since
            if still >= (max(self._settle, OPEN_SECONDS) if one.is_googles else self._settle):
                ready.append(one)
        self._seen = found
        return ready
