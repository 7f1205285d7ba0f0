"""The drop folder: a file that a person puts there becomes a document, and is moved away.

Regular scans find the files. A file is taken when nobody has it open for writing and it has not changed for a while.

Promise: no file is lost, and none is taken twice. A file is moved after its document is written; if the daemon is killed in
between, the next one finds the file known. A file that nobody may move holds up no other. Files that were taken are in
`taken/`, files that cannot be read in `rejected/`, each beside a file with the reason. One daemon at a time works on a folder.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS
from daemon.db.pool import Database
from plugins.documents.ingest import Ingest, Outcome, ParserError
from plugins.documents.ports import Parser
from plugins.documents.store import Ownership
from plugins.files.local import is_open_for_writing, walk, written

TAKEN, REJECTED = "taken", "rejected"
REASON = ".why.txt"
LOCK = ".memoryd.lock"
LOOK_AGAIN_SECONDS, SHORTEST_SECONDS = 0.5, 0.05
"""The longest and the shortest time between two scans while files are open or were just written."""
LOOK_SHARE = 20
TIDY_SECONDS = 3600.0
NOT_MOVED = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS, None)
"""What the system says of one file that may not be moved: of another account's folder, a mount of its own or one that is not
written to. None: no file, in another mount."""
PAUSES = (1.0, 30.0)
"""The first and the longest pause before the next attempt: another daemon has the folder, or folder or database are gone."""

P = ParamSpec("P")
Result = TypeVar("Result")


class DropFolderError(Exception):
    """The folder cannot be used now. `code`: the system's name of the error. `busy`: another daemon has the folder."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.code = errno.errorcode.get(error.errno or 0, type(error).__name__)
        self.reason = error.strerror
        self.busy = isinstance(error, BlockingIOError)


class Drop:
    """What all drop folders have in common. `run` ends only by being cancelled."""

    def __init__(
        self,
        *,
        parser: Parser,
        settle_seconds: float,
        scan_seconds: float,
        logger: FilteringBoundLogger,
        pauses: tuple[float, float] = PAUSES,
    ) -> None:
        """`settle_seconds`: a file is taken after this time without change. `scan_seconds`: between two scans."""
        self._parser = parser
        self._settle = settle_seconds
        self._scan_every = scan_seconds
        self._log = logger
        self._seen: dict[Path, tuple[object, float]] = {}
        self._is_watched = False
        self._told: str | None = None
        self._first, self._longest = pauses
        self._pause = self._first

    async def run(self) -> None:
        """Takes files until cancelled. A failure is logged, and the attempt repeated."""
        try:
            while True:
                try:
                    await self._work()
                except DropFolderError as error:
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
            await self._close()

    async def _work(self) -> None:
        """Calls `_watch` while no other daemon works on the folder. Raises DropFolderError."""
        raise NotImplementedError

    async def _take(self, counts: Counter[str]) -> float | None:
        """Takes the files that are ready. Returns when to look again at those that were not; None: there were none."""
        raise NotImplementedError

    async def _close(self) -> None:
        await self._parser.close()

    async def _watch(self) -> None:
        while True:
            began = time.perf_counter()
            counts: Counter[str] = Counter()
            try:
                again = await self._take(counts)
            finally:
                if counts:
                    ms = round((time.perf_counter() - began) * 1000)
                    self._log.info("files_taken", counts=dict(counts), ms=ms)
            self._told, self._pause = None, self._first
            if not self._is_watched:
                self._is_watched = True
                self._log.info(
                    "drop_folder_watched", settle_seconds=self._settle, scan_seconds=self._scan_every
                )
            # What stays in the folder, such as links, is gone through each time: for a twentieth of the time at most.
            pause = max(self._scan_every, 0 if counts else LOOK_SHARE * (time.perf_counter() - began))
            await asyncio.sleep(pause if again is None else min(again, pause))

    def _still(self, look: object, changed: float, seen: tuple[object, float] | None) -> tuple[float, float]:
        """Since when a file has looked like this, by the monotonic clock, and for how many seconds it has not changed.

        The file's own time (`changed`) counts, too: after a start an old file need not be watched first.
        """
        now = time.monotonic()
        since = seen[1] if seen is not None and seen[0] == look else now
        return since, max(now - since, time.time() - changed)

    def _tell_trouble(self, error: DropFolderError) -> None:
        if not self._is_new("busy" if error.busy else f"{error.code} {error.reason}"):
            return
        self._is_watched = False
        if error.busy:
            self._log.info("drop_folder_busy")
        else:
            self._log.warning("drop_folder_unavailable", error=error.code, reason=error.reason)

    def _is_new(self, condition: str) -> bool:
        """Whether the condition is new: each condition is logged once, not at each attempt."""
        before, self._told = self._told, condition
        return before != condition


class DropFolder(Drop):
    def __init__(
        self,
        folder: Path,
        *,
        database: Database,
        parser: Parser,
        keep_days: float | None = None,
        **options: Any,
    ) -> None:
        """`keep_days`: how long files in `taken/` and `rejected/` are kept; None: for ever. `options`: see `Drop`."""
        super().__init__(parser=parser, **options)
        self._folder = Path(os.path.realpath(folder))
        owned = Ownership(source="drop", root=written(os.fspath(self._folder)))
        self._ingest = Ingest(database=database, parser=parser, owned=owned)
        self._keep = None if keep_days is None else keep_days * 86_400
        self._tidied = 0.0
        self._stays: dict[Path, tuple[int, int]] = {}
        self._lock = -1

    async def _work(self) -> None:
        await _on_disk(_make, self._folder)
        # The lock ends with its process, however that ends.
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        self._lock = await _on_disk(os.open, self._folder / LOCK, flags, 0o600)
        try:
            await _on_disk(fcntl.flock, self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            await self._watch()
        finally:
            os.close(self._lock)

    async def _take(self, counts: Counter[str]) -> float | None:
        ready, again = await _on_disk(self._look)
        async for outcome in self._ingest.take(ready):
            counts[outcome.result] += 1
            if code := await _on_disk(self._move, outcome):
                self._log.warning("dropped_file_stays", error=code, result=outcome.result)
        if deleted := await _on_disk(self._tidy):
            self._log.info("dropped_files_deleted", files=deleted)
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
        found: dict[Path, tuple[object, float]] = {}
        ready: list[Path] = []
        waits: list[float] = []
        apart = (self._folder / TAKEN, self._folder / REJECTED)
        for path in walk([self._folder], leave_out=apart):
            with suppress(OSError):
                status = path.lstat()
                look = _look_of(status)
                since, still = self._still(look, status.st_mtime, self._seen.get(path))
                found[path] = look, since
                if self._stays.get(path) == look:
                    continue
                if still < self._settle:
                    waits.append(min(LOOK_AGAIN_SECONDS, max(SHORTEST_SECONDS, self._settle - still)))
                elif stat.S_ISREG(status.st_mode) and _is_being_written(path):
                    waits.append(LOOK_AGAIN_SECONDS)
                else:
                    ready.append(path)
        self._seen = found
        self._stays = {path: look for path, look in self._stays.items() if path in found}
        return ready, min(waits, default=None)

    def _move(self, outcome: Outcome) -> str | None:
        """Moves the file away, and removes folders that are empty then. A file that has changed stays for the next scan.

        Returns the system's name of the error where the file may not be moved: it stays, and is left alone until it changes.
        """
        self._require()
        seen = self._seen.pop(outcome.path, None)
        try:
            look = _look_of(outcome.path.lstat())
        except FileNotFoundError:
            return None
        if seen is None or look != seen[0]:
            return None
        rejected = outcome.result == "rejected"
        to = _free_name(self._folder / (REJECTED if rejected else TAKEN) / outcome.path.name)
        # The name of a file may have 255 bytes.
        reason = to.with_name(os.fsencode(to.name)[:240].decode("utf-8", "ignore") + REASON)
        if rejected:
            reason.unlink(missing_ok=True)  # the note of an earlier file of this name, or somebody's link
            with reason.open("x", encoding="utf-8") as file:
                file.write(f"{outcome.reason}\n")
        try:
            _carry(outcome.path, to)
        except OSError as error:
            if rejected:
                reason.unlink(missing_ok=True)
            if error.errno not in NOT_MOVED:
                raise
            self._stays[outcome.path] = look
            return errno.errorcode.get(error.errno or 0, type(error).__name__)
        for folder in outcome.path.parents:
            if folder == self._folder:
                break
            with suppress(OSError):
                folder.rmdir()
        return None

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


async def _on_disk(work: Callable[P, Result], *args: P.args, **options: P.kwargs) -> Result:
    """Runs work on the folder in a thread. Raises DropFolderError."""
    try:
        return await asyncio.to_thread(work, *args, **options)
    except OSError as error:
        raise DropFolderError(error) from error


def _carry(path: Path, to: Path) -> None:
    """Moves a file, by a copy where another file system is mounted there. Where that fails, or the file changes, it stays."""
    try:
        path.rename(to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        look = _look_of(path.lstat())
        try:
            shutil.copy2(path, to, follow_symlinks=False)
            still = _look_of(path.lstat()) == look
            if still:
                path.unlink()
        except OSError:
            to.unlink(missing_ok=True)
            raise
        if not still:
            to.unlink()
            raise OSError(errno.EBUSY, "it changes") from None


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "a link is in the place of a folder")


def _look_of(status: os.stat_result) -> tuple[int, int]:
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
