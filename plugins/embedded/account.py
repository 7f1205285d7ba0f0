"""The system user that the embedded Postgres runs as, and the permissions that this user gets.

Postgres refuses to run as root. Promise: for an ordinary user nothing changes. For root a system user without a login is
found or made. Permissions of other folders change only where one is missing: passage (o+x) through the folders above, reading
(o+rX) of the programs.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from plugins.embedded.causes import EmbeddedPostgresError

if sys.platform != "win32":
    import fcntl
    import pwd

SYSTEM_USER = "pgserver"
_READ, _PASS = 0o004, 0o001
_MAKE_USER = (
    ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin"),
    ("adduser", "-S", "-D", "-H"),  # busybox
)
# The folders of these programs, which the PATH of cron, su and systemd does not always have.
_OF_ADMINISTRATORS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True, slots=True)
class Account:
    """The system user that owns the server's files and runs its programs."""

    uid: int
    gid: int
    switch: bool
    """True if this process is root and must become that user first."""

    @property
    def owner(self) -> tuple[int, int] | None:
        """The owner of files that root makes for the server; None: the process's own user."""
        return (self.uid, self.gid) if self.switch else None

    def let_through(self, folder: Path) -> None:
        """Lets the account pass to files in `folder`: o+x for it and all folders above, where missing."""
        if not self.switch:
            return
        for step in (folder, *folder.parents):
            status = step.stat()
            own = status.st_uid == self.uid and bool(status.st_mode & 0o100)
            if not own and not status.st_mode & _PASS:
                _open(step, _PASS)

    def let_read(self, folder: Path) -> None:
        """Lets the account read `folder` and everything below it: o+rX, where missing. Targets of links do not change."""
        if not self.switch:
            return
        for parent, _, files in os.walk(folder):
            for path in (Path(parent), *(Path(parent, name) for name in files)):
                mode = path.lstat().st_mode
                wanted = _READ | (_PASS if mode & 0o100 else 0)
                if not stat.S_ISLNK(mode) and mode & wanted != wanted:
                    _open(path, wanted)


def account_for(cluster: Path) -> Account:
    """The account for the data in `cluster`, a folder that may not exist yet.

    For root it is the owner of the cluster, or of the folder for it, unless that is root, too. Raises EmbeddedPostgresError if
    the data belong to another user, or no user can run the server.
    """
    me = os.geteuid()
    there = _owner(cluster)
    if me != 0:
        owner = there if there is not None else me
        if owner != me:
            raise EmbeddedPostgresError(
                f"{cluster} belongs to {_name(owner)}, and this is {_name(me)}: "
                "run memoryd as that user, or choose another data folder."
            )
        if _entry(me) is None:
            raise EmbeddedPostgresError(
                f"The user id {me} has no entry in /etc/passwd, but Postgres needs one: "
                "run memoryd as a user with a name, or set DATABASE_URL."
            )
        return Account(me, os.getegid(), switch=False)
    owner = there if there is not None else cluster.parent.lstat().st_uid
    entry = (_entry(owner) if owner != 0 else None) or _system_user()
    return Account(entry.pw_uid, entry.pw_gid, switch=True)


def _open(path: Path, wanted: int) -> None:
    """Adds permissions to `path`. It follows no link: the user who made the link would choose which file is opened."""
    handle = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.parts[1:]:
            step = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
            os.close(handle)
            handle = step
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | wanted)
    finally:
        os.close(handle)


def _owner(cluster: Path) -> int | None:
    """The owner of the cluster. If it is a link, the user who made the link, who is refused later."""
    with suppress(FileNotFoundError):
        return cluster.lstat().st_uid
    return None


def server_uid(data_dir: Path) -> int | None:
    """The user that the embedded server of this data folder runs as, if it is known before the first start."""
    with suppress(OSError):
        return (data_dir.expanduser() / "pg").stat().st_uid
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER).pw_uid if os.geteuid() == 0 else os.geteuid()
    return None


def _system_user(name: str = SYSTEM_USER) -> pwd.struct_passwd:
    """That user, made if missing. Raises EmbeddedPostgresError with the system's message.

    One process at a time: of two `useradd` at once, the second gives another id to the user that the first has just made, and
    processes with the first id then belong to no user.
    """
    with suppress(KeyError):
        return pwd.getpwnam(name)
    said = ""
    with _one_at_a_time():
        for command in _MAKE_USER:
            with suppress(KeyError):
                return pwd.getpwnam(name)
            with suppress(OSError):
                done = subprocess.run(
                    (*command, name), env=with_administration(), check=False, capture_output=True, text=True
                )
                said = said or done.stderr.strip()
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedPostgresError(
        f"Postgres does not run as root, and no system user for it could be made ({said or 'no program here does that'}): "
        f"add one (useradd --system {name}), or run memoryd as an ordinary user."
    )


def with_administration() -> dict[str, str]:
    """The environment, with a PATH that also has the programs of administrators."""
    path = os.environ.get("PATH") or os.defpath
    return {**os.environ, "PATH": os.pathsep.join((path, *_OF_ADMINISTRATORS))}


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Makes other processes of memoryd on this machine wait."""
    handle = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _entry(uid: int) -> pwd.struct_passwd | None:
    with suppress(KeyError):
        return pwd.getpwuid(uid)
    return None


def _name(uid: int) -> str:
    entry = _entry(uid)
    return entry.pw_name if entry is not None else f"user id {uid}"
