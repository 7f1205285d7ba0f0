"""The files of a data folder, opened so that no link can lead memoryd elsewhere.

Promise: a file that is opened, given to a user or removed here lies in the opened folder, is of the expected kind (a plain file
with one name, or a folder) and belongs to a user who may own it; else EmbeddedPostgresError says what to do. Ownership is
changed by an open descriptor, never by a path. This matters most for root, who can write everywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from plugins.embedded.causes import EmbeddedPostgresError

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder. Its functions take names of entries directly in it."""

    path: Path
    handle: int
    owners: frozenset[int]
    """The users that may own its files."""

    @property
    def owner(self) -> tuple[int, int]:
        status = os.fstat(self.handle)
        return status.st_uid, status.st_gid

    @contextmanager
    def within(self, name: str) -> Iterator[Folder]:
        """A folder in it. Raises FileNotFoundError if there is none."""
        handle = _open_folder(self.path / name, name, self.handle)
        try:
            _check_owner(self.path / name, os.fstat(handle), self.owners)
            yield Folder(self.path / name, handle, self.owners)
        finally:
            os.close(handle)

    def give(self, uid: int, gid: int) -> None:
        os.fchown(self.handle, uid, gid)

    def read(self, name: str) -> str | None:
        """The text of a file in it; None if there is none."""
        try:
            handle = self._open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read().decode("utf-8", "replace")

    def open_own(self, name: str, *, owner: tuple[int, int] | None = None, append: bool = False) -> int:
        """A descriptor to read and write a file that only its owner may read; the file is made if missing.

        `owner` None: the folder's own user. Only root can name another.
        """
        handle = self._open(name, os.O_RDWR | os.O_CREAT | (os.O_APPEND if append else 0))
        try:
            os.fchmod(handle, 0o600)
            if os.geteuid() == 0:
                os.fchown(handle, *(owner or self.owner))
        except BaseException:
            os.close(handle)
            raise
        return handle

    def write(self, name: str, text: str, *, owner: tuple[int, int] | None = None) -> None:
        """Replaces a whole file, readable only by its owner, and returns when it is on disk."""
        new = f"{name}.new"
        self.remove(new)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
        handle = os.open(new, flags, 0o600, dir_fd=self.handle)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            if os.geteuid() == 0:
                os.fchown(handle, *(owner or self.owner))
            file.write(text)
            file.flush()
            os.fsync(handle)
        self.rename(new, name)

    def rename(self, name: str, new: str) -> None:
        """Returns when its changes are on disk."""
        os.rename(name, new, src_dir_fd=self.handle, dst_dir_fd=self.handle)
        os.fsync(self.handle)

    def remove(self, name: str) -> None:
        """Removes a file or link, if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.handle)

    def names(self) -> list[str]:
        return os.listdir(self.handle)  # noqa: PTH208 - of the open folder

    def _open(self, name: str, flags: int) -> int:
        path = self.path / name
        try:
            handle = os.open(name, flags | _SAFE, 0o600, dir_fd=self.handle)
        except OSError as error:
            if error.errno in _LINK:
                raise _strange(path) from None
            raise
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(handle)
            raise _strange(path)
        try:
            _check_owner(path, status, self.owners)
        except BaseException:
            os.close(handle)
            raise
        return handle


@contextmanager
def open_folder(path: Path, *, server: int | None = None) -> Iterator[Folder]:
    """The folder at `path`, if it belongs to this user, to root or to the server's account `server`.

    Raises OSError, and EmbeddedPostgresError if it is a link or belongs to another user.
    """
    owners = frozenset({os.geteuid(), 0} | ({server} if server is not None else set()))
    handle = _open_folder(path, str(path), None)
    try:
        status = os.fstat(handle)
        if os.geteuid() == 0:
            # The server then runs as that user: see account_for.
            owners |= {status.st_uid}
        _check_owner(path, status, owners)
        yield Folder(path, handle, owners)
    finally:
        os.close(handle)


def read_in(path: Path, name: str) -> str | None:
    """The text of the file `name` in the folder at `path`, of any owner; None if there is none. Raises the same as `Folder`."""
    try:
        handle = _open_folder(path, str(path), None)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(handle)
        return Folder(path, handle, frozenset({os.geteuid(), 0, status.st_uid})).read(name)
    finally:
        os.close(handle)


def give_all(folder: Folder, uid: int, gid: int) -> None:
    """Gives a folder and everything below it to that user. Targets of links do not change.

    Raises EmbeddedPostgresError if a file has a second name elsewhere.
    """
    for parent, folders, files, handle in os.fwalk(".", dir_fd=folder.handle, follow_symlinks=False):
        for name in (*folders, *files):
            _give(folder.path / parent / name, name, handle, (uid, gid))
    folder.give(uid, gid)


def _give(path: Path, name: str, folder: int, owner: tuple[int, int]) -> None:
    try:
        handle = os.open(name, os.O_RDONLY | _SAFE, dir_fd=folder)
    except OSError as error:
        if error.errno in _LINK or error.errno == errno.ENXIO:
            os.chown(name, *owner, dir_fd=folder, follow_symlinks=False)  # the link itself, or a socket
            return
        raise
    try:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            raise _strange(path)
        os.fchown(handle, *owner)
    finally:
        os.close(handle)


def _open_folder(path: Path, name: str, inside: int | None) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=inside)
    except OSError as error:
        if error.errno in _LINK:
            raise _strange(path) from None
        raise


def _check_owner(path: Path, status: os.stat_result, owners: frozenset[int]) -> None:
    if status.st_uid not in owners:
        raise EmbeddedPostgresError(
            f"{path} belongs to user id {status.st_uid}, and this is {os.geteuid()}: run memoryd as that user, give the "
            "folder to this one (chown -R), or choose another data folder (MEMORYD_DATA_DIR)."
        )


def _strange(path: Path) -> EmbeddedPostgresError:
    return EmbeddedPostgresError(
        f"{path} is not what memoryd put there: it is a link, has a second name, or is not a file or folder "
        "of its kind. Find out who made it; then remove it, or choose another data folder (MEMORYD_DATA_DIR)."
    )
