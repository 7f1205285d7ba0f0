"""The limits of the built-in executor's programs: their user, their folder, their environment variables.

A message decides what such a program does, and any user may write messages. Promise: the program sees only the variables of a
short list and those that are named for it. It works in its own folder. It cannot read the daemon's memory and environment. It
never has root's rights unless the setting says root. As another system user (MEMORYD_EXECUTOR_USER) it cannot reach what file
permissions hide from that user: the `.env` file, the embedded Postgres and its password.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import pwd

PASSED_ON = frozenset({"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR"})
"""These, LC_*, and variables about the user are passed on. Proxies are not: their addresses often contain a password."""
OF_THE_USER = ("HOME", "USER", "LOGNAME", "SHELL")

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38


@dataclass(frozen=True, slots=True)
class Confinement:
    """How programs are run. `uid` None: as the daemon's user."""

    uid: int | None
    gid: int | None
    groups: tuple[int, ...]
    folder: Path | None
    """Where programs work. None: each in a new folder, private to its user and removed afterwards."""
    environment: Mapping[str, str]

    @property
    def identity(self) -> dict[str, Any]:
        """Arguments of asyncio.create_subprocess_exec: the user, and to kill the program when the daemon dies."""
        bound = {"preexec_fn": _dying_with(os.getpid())} if sys.platform.startswith("linux") else {}
        if self.uid is None:
            return bound
        return bound | {"user": self.uid, "group": self.gid, "extra_groups": self.groups}

    @asynccontextmanager
    async def workplace(self) -> AsyncIterator[Path]:
        """The folder for one program. Raises OSError when there is no room for one."""
        if self.folder is not None:
            yield self.folder
            return
        folder = Path(tempfile.mkdtemp(prefix="memoryd-command-"))
        try:
            if self.uid is not None and self.gid is not None:
                os.chown(folder, self.uid, self.gid, follow_symlinks=False)
            yield folder
        finally:
            # In a thread, since the folder may be large. If a process still writes there, some files stay.
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def confine(
    *,
    user: str | None,
    folder: Path | None,
    also: frozenset[str],
    environment: Mapping[str, str],
    forbidden: Mapping[int, str],
) -> Confinement:
    """How this daemon's programs are run.

    `also`: names of variables to pass on. `forbidden`: users that the programs must not have, and why. Raises ValueError
    with what to do.
    """
    entry = _user(user)
    me = os.geteuid()
    if entry is not None and me not in (entry.pw_uid, 0):
        raise ValueError(
            f"MEMORYD_EXECUTOR_USER is {user}, but only root can run programs as another user: start memoryd as root, "
            f"or as {user} and without the setting."
        )
    switch = entry is not None and entry.pw_uid != me
    if entry is not None and switch and entry.pw_uid in forbidden:
        raise ValueError(
            f"MEMORYD_EXECUTOR_USER is {user}, but {forbidden[entry.pw_uid]}: choose another user."
        )
    if folder is not None:
        folder = folder.expanduser().resolve()
        if not folder.is_dir():
            raise ValueError(
                f"MEMORYD_EXECUTOR_DIR is {folder}, which is not a folder: make it, or choose another."
            )
    return Confinement(
        uid=entry.pw_uid if entry is not None and switch else None,
        gid=entry.pw_gid if entry is not None and switch else None,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)) if entry is not None and switch else (),
        folder=folder,
        environment=_environment(environment, also, entry or _entry(me), switch=switch),
    )


def is_root(name: str) -> bool:
    entry = _user(name)
    return entry is not None and entry.pw_uid == 0


def seal(*, privileges: bool) -> None:
    """On Linux, keeps programs of the same user out of this process: /proc/<pid>/environ and mem, ptrace, core dumps.

    With `privileges` False no program that it starts can gain rights by executing another one (such as sudo).
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, _PR_SET_DUMPABLE, 0)
    if not privileges:
        _prctl(libc, _PR_SET_NO_NEW_PRIVS, 1)


def _dying_with(daemon: int) -> Callable[[], None]:
    """To be called in the child: the kernel kills it when the daemon dies. Another daemon then runs the command again."""
    libc = ctypes.CDLL(None)
    kill = ctypes.c_ulong(signal.SIGKILL)

    def bind() -> None:
        # Do nothing here that needs a lock: another thread may have held it when this process was forked.
        libc.prctl(_PR_SET_PDEATHSIG, kill)
        if os.getppid() != daemon:
            os._exit(1)

    return bind


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    if libc.prctl(option, ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3) != 0:
        number = ctypes.get_errno()
        raise ValueError(
            f"This system does not let memoryd protect itself from the executor's programs ({os.strerror(number)}): "
            "unset MEMORYD_EXECUTOR_COMMAND here."
        )


def _user(name: str | None) -> pwd.struct_passwd | None:
    if name is None:
        if os.geteuid() == 0:
            raise ValueError(
                "MEMORYD_EXECUTOR_COMMAND would run as root, and messages of any user decide what it does. Give it its own "
                "user (useradd --system --create-home agent, then MEMORYD_EXECUTOR_USER=agent), or run memoryd as an "
                "ordinary user. To run it as root, set MEMORYD_EXECUTOR_USER=root."
            )
        return None
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise ValueError(
            f"MEMORYD_EXECUTOR_USER is {name}, but this system has no such user: useradd --system --create-home {name}"
        ) from None


def _entry(uid: int) -> pwd.struct_passwd | None:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid)
    return None


def _environment(
    ours: Mapping[str, str], also: frozenset[str], entry: pwd.struct_passwd | None, *, switch: bool
) -> dict[str, str]:
    passed = {k: v for k, v in ours.items() if k in PASSED_ON or k.startswith("LC_")}
    if not switch:
        passed |= {k: ours[k] for k in OF_THE_USER if k in ours}
    if entry is not None:
        known = (entry.pw_dir, entry.pw_name, entry.pw_name, entry.pw_shell)
        passed = dict(zip(OF_THE_USER, known, strict=True)) | passed
    return passed | {k: v for k, v in ours.items() if k in also}
