"""What the child process may do: write no files (or small ones), open no connections, start no programs, take no more than its
memory and time.

It sets this itself, before it sees a file.

The kernel keeps the bounds of memory and time, so they hold in C and Rust code too. That no connection is opened is kept by
an audit hook for Python code, and on Linux by a network namespace without interfaces, where the system allows an
ordinary user to have one.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import signal
import sys
from pathlib import Path

FORBIDDEN = (
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen", "os.system", "os.exec",
    "os.posix_spawn", "os.fork", "os.kill",
)  # fmt: skip
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def confine(*, file_bytes: int = 0) -> None:
    """For the rest of this process's life. `file_bytes`: the most that a file may grow to."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if sys.platform.startswith("linux"):
        library = ctypes.CDLL(None, use_errno=True)
        library.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)  # not allowed everywhere
        library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    sys.addaudithook(_refuse)


def _refuse(event: str, _arguments: tuple[object, ...]) -> None:
    if event in FORBIDDEN:
        raise PermissionError(f"{event} is not allowed where files are read")


def bound(*, memory: int, seconds: float) -> None:
    """For one file: `memory` bytes more than now, and `seconds` of processor time, so that a busy machine rejects no file."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + seconds) + 1)
    _lower(resource.RLIMIT_AS, _address_space() + memory)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def unbound() -> None:
    """Between files there is nothing that could take long."""
    signal.setitimer(signal.ITIMER_PROF, 0)


def _lower(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    # macOS refuses limits of memory.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _address_space() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
