"""A replica in a folder of this machine.

Promise: nothing outside the folder is read or written: each part of a path is opened by itself, and a link is never followed.
A file appears complete or not at all, and survives a power cut. Only memoryd's own account may read its files.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import struct
import time
import uuid
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from uuid import UUID

from watchfiles import Change

from plugins.files.local import is_local, is_open_for_writing, is_text
from plugins.files.watching import WatchError, changes
from plugins.replica.changed_files import SETTLE_SECONDS
from plugins.replica.folder import (
    Blind,
    Entry,
    FolderUnavailable,
    Listing,
    StaleFile,
    Wake,
    mark_of,
    marked,
    require_mark,
)
from plugins.replica.rules.paths import IDENTITY, folders_of_user, parts_of

TEMPORARY = ".memoryd-"
DEBOUNCE_MS = 50
AGAIN_SECONDS, LONGEST_SECONDS = 0.2, 60.0
"""The pause before a folder is watched again; twice as long each time that it fails before a change."""
BLIND_AFTER = 2
"""Failed attempts to watch a folder before a warning."""
_SIGNATURE = struct.Struct("<4Q")
_LONGEST = 2**64 - 1
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LocalFolder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.settle_seconds = SETTLE_SECONDS
        self._local_device: int | None = None
        """The device of the root, if only this machine can write to it."""
        self._checked: tuple[int, int] | None = None
        """Device and inode of the root whose mark was read last."""

    async def watch(
        self, wake: Wake, blind: Blind, available: asyncio.Event, unavailable: asyncio.Event
    ) -> None:
        """See `Folder`. A folder that was unavailable is watched again: it may be another one by now."""

        def is_seen(_change: Change, path: str) -> bool:
            return path == os.fspath(self.root) or not Path(path).name.startswith(".")

        options = {"debounce": DEBOUNCE_MS, "step": DEBOUNCE_MS, "stop_event": unavailable}
        failures = 0
        while True:
            await available.wait()
            # Wake as soon as it is watched: a pass may have missed changes since its listing.
            asyncio.get_running_loop().call_soon(wake)
            try:
                async with aclosing(changes(self.root, watch_filter=is_seen, **options)) as found:
                    async for _ in found:
                        failures = 0
                        wake()
            except WatchError as error:
                failures += 1
                if failures == BLIND_AFTER and not isinstance(error.__cause__, FileNotFoundError):
                    blind(error.__cause__ or error)
            if available.is_set():
                await asyncio.sleep(min(AGAIN_SECONDS * 2 ** min(failures, 20), LONGEST_SECONDS))

    def close(self) -> None:
        """See `Folder`."""

    def reach(self) -> None:
        if self.root.exists():
            self.list()
            if not os.access(self.root, os.W_OK):
                raise FolderUnavailable(
                    f"The folder {self.root} cannot be written. Give the daemon's account the right to."
                )

    def check(self, replica: UUID) -> None:
        require_mark(self._identity(), replica, where=f"The folder {self.root}")

    def identify(self, replica: UUID) -> None:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._identity() is None:
                self.write(IDENTITY, mark_of(replica), replaces=None)
        except OSError as error:
            raise _unavailable(self.root, error) from None
        self.check(replica)

    def list(self) -> Listing:
        listing = Listing()
        with self._opened_root() as root:
            self._local_device = os.fstat(root).st_dev if is_local(self.root) else None
            try:
                _list(root, "", listing)
            except OSError as error:
                raise _unavailable(self.root, error) from None
        return listing

    def read(self, path: str) -> bytes:
        with self._opened_parent(path) as (folder, name):
            return _read(folder, name)

    def is_open_for_writing(self, path: str) -> bool | None:
        """See `Folder`. Another machine's programs are not known."""
        if self._local_device is None:
            return None
        try:
            with self._opened_parent(path) as (folder, name), _opened(folder, name) as file:
                is_known = os.fstat(file.fileno()).st_dev == self._local_device
                return is_open_for_writing(file.fileno()) if is_known else None
        except OSError:
            return None

    def write(self, path: str, content: bytes, *, replaces: bytes | None) -> None:
        try:
            # Another folder may stand in the root's place: replacing a file must make nothing there.
            with self._opened_parent(path, make=replaces is None) as (folder, name):
                self._write(folder, name, content, replaces)
        except FileNotFoundError:
            raise StaleFile from None

    def _write(self, folder: int, name: str, content: bytes, replaces: bytes | None) -> None:
        temporary = f"{TEMPORARY}{uuid.uuid4().hex}"
        try:
            _create(folder, temporary, content)
            if replaces is None:
                _put_new(folder, temporary, name)
            else:
                _require(folder, name, replaces)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)

    def remove(self, path: str, *, replaces: bytes, for_good: bool = False) -> None:
        with self._opened_parent(path) as (folder, name):
            _require(folder, name, replaces)
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        self._remove_empty(path)

    def move(self, path: str, to: str, *, replaces: bytes) -> None:
        with self._opened_parent(path) as (folder, name), self._opened_parent(to, make=True) as (target, new):
            _require(folder, name, replaces)
            _require_none(target, new)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=target)
            os.fsync(target)
            os.fsync(folder)
        self._remove_empty(path)

    def clean(self) -> None:
        for folder, _, names in os.walk(self.root):
            for name in names:
                if name.startswith(TEMPORARY) and name != IDENTITY:
                    with contextlib.suppress(OSError):
                        (Path(folder) / name).unlink()

    def _identity(self) -> str | None:
        try:
            with self._opened_root() as root:
                self._checked = _place_of(root)
                return marked(_read(root, IDENTITY))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(self.root, error) from None

    def _remove_empty(self, path: str) -> None:
        for parent in folders_of_user(path):
            with self._opened_parent(parent) as (folder, name):
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError:
                    return

    @contextmanager
    def _opened_root(self) -> Iterator[int]:
        try:
            # The root itself may be a link, set by the person who configured it.
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _unavailable(self.root, error) from None
        try:
            yield root
        finally:
            os.close(root)

    @contextmanager
    def _opened_parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that a path is in, opened part by part, and the name in it."""
        parts = parts_of(path)
        with contextlib.ExitStack() as stack, self._opened_root() as root:
            if make and _place_of(root) != self._checked:
                raise StaleFile  # another folder stands in its place since the check
            folder = root
            for part in parts[:-1]:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, mode=0o700, dir_fd=folder)
                folder = os.open(part, _FOLDER, dir_fd=folder)
                stack.callback(os.close, folder)
            yield folder, parts[-1]


def _place_of(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def _list(folder: int, prefix: str, listing: Listing) -> None:
    with os.scandir(folder) as found:
        names = [one.name for one in found if not one.name.startswith(".")]
    for name in names:
        path = prefix + name
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                listing.folders.add(path)
                inner = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    _list(inner, f"{path}/", listing)
                finally:
                    os.close(inner)
            elif stat.S_ISREG(status.st_mode) and is_text(path):
                listing.files[path] = _entry(status)
            else:
                listing.unread.add(path)
        except FileNotFoundError:
            pass  # it was deleted meanwhile
        except OSError:
            listing.unread.add(path)


def _entry(found: os.stat_result) -> Entry:
    signature = _SIGNATURE.pack(
        found.st_size, found.st_mtime_ns & _LONGEST, found.st_ino & _LONGEST, found.st_ctime_ns & _LONGEST
    )
    # A time before 1970 or after now is wrong.
    return Entry(signature, max(0.0, min(found.st_mtime, time.time())))


@contextmanager
def _opened(folder: int, name: str) -> Iterator[BufferedReader]:
    with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        yield file


def _read(folder: int, name: str) -> bytes:
    with _opened(folder, name) as file:
        return file.read()


def _create(folder: int, name: str, content: bytes) -> None:
    made = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
    )
    with os.fdopen(made, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _put_new(folder: int, temporary: str, name: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise StaleFile from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without links.
        _require_none(folder, name)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _require_none(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        raise StaleFile


def _require(folder: int, name: str, content: bytes) -> None:
    try:
        found = sha256(_read(folder, name)).digest()
    except FileNotFoundError:
        raise StaleFile from None
    if found != content:
        raise StaleFile


def _unavailable(root: Path, error: OSError) -> FolderUnavailable:
    if error.errno == errno.ENOENT:
        return FolderUnavailable(
            f"The folder {root} is not there. Mount it, or correct MEMORYD_REPLICA; or, if its files are lost, run: memoryd "
            "replica --rewrite"
        )
    reason = error.strerror or type(error).__name__
    return FolderUnavailable(f"The folder {root} cannot be used: {reason}. Correct it, or MEMORYD_REPLICA.")
