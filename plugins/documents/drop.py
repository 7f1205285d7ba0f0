"""The drop folder: a file that a person puts there becomes a document, and is moved away.

Regular scans find the files. Events of the folder only make this faster; network folders may send none. A file is taken when
nobody has it open for writing and it has not changed for a while.

Promise: no file is lost, and none is taken twice. A file is moved after its document is written; if the daemon is killed in
between, the next one finds the file known. Files that were taken are in `taken/`, files that cannot be read in `rejected/`,
each beside a file with the reason. One daemon at a time works on a folder.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pool import Database
from daemon.logs import describe
from plugins.documents.ingest import Ingest, Outcome, ParserError
from plugins.documents.ports import Parser
from plugins.documents.store import Ownership
from plugins.files.local import is_open_for_writing, walk, written
from plugins.files.watching import WatchError, changes

TAKEN, REJECTED = "taken", "rejected"
REASON = ".why.txt"
LOCK = ".memoryd.lock"
LOOK_AGAIN_SECONDS = 0.5
"""Seconds between scans while files are open or were just written; less if one will be ready sooner."""
SHORTEST_SECONDS = 0.05
TIDY_SECONDS = 3600.0
PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0
"""Seconds before the next attempt, if another daemon works on the folder, or folder or database are gone."""

Look = tuple[int, int]
P = ParamSpec("P")
Result = TypeVar("Result")


class DropFolder:
    """Takes files from one folder. `run` ends only by being cancelled."""

    def __init__(
        self,
        folder: Path,
        *,
        database: Database,
        parser: Parser,
        settle_seconds: float,
        scan_seconds: float,
        keep_days: float | None = None,
        logger: FilteringBoundLogger,
    ) -> None:
        """`settle_seconds`: a file is taken after this time without change. `scan_seconds`: between two scans without event.

        `keep_days`: how long files in `taken/` and `rejected/` are kept; None: for ever.
        """
        self._folder = Path(os.path.realpath(folder))
        self._parser = parser
        owned = Ownership(source="drop", root=written(os.fspath(self._folder)))
        self._ingest = Ingest(database=database, parser=parser, owned=owned)
        self._settle = settle_seconds
        self._scan_every = scan_seconds
        self._keep = None if keep_days is None else keep_days * 86_400
        self._tidied = 0.0
        self._log = logger
        self._seen: dict[Path, tuple[Look, float]] = {}
        self._lock = -1
        self._told: str | None = None
        self._pause = PAUSE_SECONDS

    async def run(self) -> None:
        """Takes files until cancelled. A failure is logged, and the attempt repeated."""
        try:
            while True:
                try:
                    await _on_disk(_make, self._folder)
                    async with self._alone():
                        await self._work()
                except DropFolderError as error:
                    if error.busy and self._is_new("busy"):
                        self._log.info("drop_folder_busy")
                    elif not error.busy and self._is_new(error.code):
                        self._log.warning("drop_folder_unavailable", error=error.code)
                except ParserError as error:
                    if self._is_new(f"parser {error.code}"):
                        self._log.warning("drop_waits_for_parser", error=error.code)
                except DATABASE_FAULTS as error:
                    if self._is_new("database"):
                        self._log.warning("drop_waits_for_database", error=type(error).__name__)
                await asyncio.sleep(self._pause)
                self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)
        finally:
            await self._parser.close()

    async def _work(self) -> None:
        self._log.info("drop_folder_watched", settle_seconds=self._settle, scan_seconds=self._scan_every)
        timeout = {"rust_timeout": round(self._scan_every * 1000), "yield_on_timeout": True}
        again, pause = await self._scan(), SHORTEST_SECONDS
        while True:
            try:
                async with aclosing(changes(self._folder, **timeout, debounce=200, step=50)) as events:
                    while True:
                        if again is None:
                            await anext(events)
                            pause = SHORTEST_SECONDS
                        else:
                            await asyncio.sleep(again)
                        again = await self._scan()
            except WatchError as error:
                # For example, a name is not UTF-8, or the system's limit of watched folders is reached. Scans go on.
                if pause < LOOK_AGAIN_SECONDS <= 2 * pause:
                    self._log.warning("drop_folder_not_watched", error=describe(error.__cause__ or error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._scan_every)
                again = await self._scan()

    async def _scan(self) -> float | None:
        """Takes the files that are ready. Returns when to scan for files that were not ready; None: there were none."""
        began = time.perf_counter()
        ready, again = await _on_disk(self._look)
        counts: Counter[str] = Counter()
        if ready:
            async for outcome in self._ingest.take(ready):
                counts[outcome.result] += 1
                await _on_disk(self._move, outcome)
            self._log.info("files_taken", counts=dict(counts), ms=round((time.perf_counter() - began) * 1000))
        if deleted := await _on_disk(self._tidy):
            self._log.info("dropped_files_deleted", files=deleted)
        self._told, self._pause = None, PAUSE_SECONDS
        return again

    def _require(self) -> None:
        """Checks that the folder is still the locked one, and makes memoryd's folders in it. No link is followed."""
        if not os.path.samestat(os.fstat(self._lock), (self._folder / LOCK).lstat()):
            raise FileNotFoundError(errno.ENOENT, "another folder is in its place", str(self._folder))
        os.scandir(self._folder).close()  # whether it can be read: a walk leaves out unreadable folders
        for name in (TAKEN, REJECTED):
            _make(self._folder / name)

    def _look(self) -> tuple[list[Path], float | None]:
        self._require()
        now = time.monotonic()
        found: dict[Path, tuple[Look, float]] = {}
        ready: list[Path] = []
        waits: list[float] = []
        apart = (self._folder / TAKEN, self._folder / REJECTED)
        for path in walk([self._folder], leave_out=apart):
            with suppress(OSError):
                status = path.lstat()
                look = _look_of(status)
                before = self._seen.get(path)
                since = before[1] if before is not None and before[0] == look else now
                found[path] = (look, since)
                # The file's own time counts, too: after a start an old file need not be watched first.
                still = max(now - since, min(time.time() - status.st_mtime, 2 * self._settle))
                if still < self._settle:
                    waits.append(min(LOOK_AGAIN_SECONDS, max(SHORTEST_SECONDS, self._settle - still)))
                elif stat.S_ISREG(status.st_mode) and _is_being_written(path):
                    waits.append(LOOK_AGAIN_SECONDS)
                else:
                    ready.append(path)
        self._seen = found
        return ready, min(waits, default=None)

    def _move(self, outcome: Outcome) -> None:
        """Moves the file away, and removes folders that are empty then. A file that has changed stays for the next scan."""
        self._require()
        seen = self._seen.pop(outcome.path, None)
        try:
            if seen is None or _look_of(outcome.path.lstat()) != seen[0]:
                return
        except FileNotFoundError:
            return
        rejected = outcome.result == "rejected"
        to = _free_name(self._folder / (REJECTED if rejected else TAKEN) / outcome.path.name)
        if rejected:
            # The name of a file may have 255 bytes.
            name = os.fsencode(to.name)[:240].decode("utf-8", "ignore") + REASON
            reason = to.with_name(name)
            reason.unlink(missing_ok=True)  # the note of an earlier file of this name, or somebody's link
            with reason.open("x", encoding="utf-8") as file:
                file.write(f"{outcome.reason}\n")
        outcome.path.rename(to)
        for folder in outcome.path.parents:
            if folder == self._folder:
                break
            with suppress(OSError):
                folder.rmdir()

    def _tidy(self) -> int:
        """Deletes old files of `taken/` and `rejected/`; returns how many. The move there is their last change."""
        now = time.time()
        if self._keep is None or now - self._tidied < min(TIDY_SECONDS, self._keep / 2):
            return 0
        self._require()
        self._tidied, deleted = now, 0
        for folder in (TAKEN, REJECTED):
            # Each folder is opened by itself, so that no link is followed, also one that appears meanwhile.
            for _, _, names, number in os.fwalk(self._folder / folder):
                for name in names:
                    with suppress(OSError):
                        status = os.stat(name, dir_fd=number, follow_symlinks=False)
                        if now - status.st_ctime > self._keep and not name.startswith("."):
                            os.unlink(name, dir_fd=number)
                            deleted += 1
        return deleted

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """The folder's lock. It ends with its process, however that ends."""
        self._lock = await _on_disk(
            os.open, self._folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            await _on_disk(fcntl.flock, self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(self._lock)

    def _is_new(self, condition: str) -> bool:
        """Whether the condition is new: each condition is logged once, not at each attempt."""
        before, self._told = self._told, condition
        return before != condition


class DropFolderError(Exception):
    """The folder cannot be used now. `code`: the system's name of the error. `busy`: another daemon has the lock."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.code = errno.errorcode.get(error.errno or 0, type(error).__name__)
        self.busy = isinstance(error, BlockingIOError)


async def _on_disk(work: Callable[P, Result], *args: P.args, **options: P.kwargs) -> Result:
    """Runs work on the folder in a thread. Raises DropFolderError."""
    try:
        return await asyncio.to_thread(work, *args, **options)
    except OSError as error:
        raise DropFolderError(error) from error


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "a link is in the place of a folder")


def _look_of(status: os.stat_result) -> Look:
    return status.st_size, status.st_mtime_ns


def _is_being_written(path: Path) -> bool:
    """Whether somebody has the file open for writing; False if the system cannot say."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_open_for_writing(number) is True
    finally:
        os.close(number)


def _free_name(path: Path) -> Path:
    """The path; if it is taken, a free one with a number."""
    number = 1
    free = path
    while os.path.lexists(free):
        number += 1
        stem, ending = (path.stem, path.suffix) if len(os.fsencode(path.name)) < 240 else (path.stem[:60], "")
        free = path.with_name(f"{stem} ({number}){ending}")
    return free
