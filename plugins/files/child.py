"""A child process in which files of strangers are read: what it may do, how it talks, and its loop. process.py starts it.

It may write no files (or small ones), open no connections, start no programs, take no more than its memory and time. It sets
this itself, before it sees a file. The kernel keeps the bounds of memory and time, so they hold in C and Rust code too. That no
connection is opened is kept by an audit hook for Python code, and on Linux by a network namespace without interfaces, where
the system allows an ordinary user to have one.

It talks through pipes: one frame comes for a file, frames go back for its text. A frame is a mark, the lengths of its two
parts, a JSON object, and bytes (the file, or its text in UTF-8). Promise: the lengths are checked before anything is read, so a
child that a hostile file took over cannot fill the daemon's memory. Whatever goes wrong in here is an answer, or the end of
this process only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_START = struct.Struct("!4sIQ")
START = _START.size
"""Bytes with which a frame begins."""
MAX_HEAD = 1_000_000
"""Bytes of the JSON object."""
_MARK = b"mdp1"
MAX_BODY = 2**40
"""What comes is not checked here: who sends it has a limit."""
RECURSION = 10_000
"""For pages and messages that are nested deep; a level of HTML takes a few calls."""
Answers = Callable[[dict[str, Any], bytes], Iterator[tuple[dict[str, Any], bytes]]]
"""From head and body of a request to those of its answers."""
FORBIDDEN = (
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen", "os.system", "os.exec",
    "os.posix_spawn", "os.fork", "os.kill",
)  # fmt: skip
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


class GarbageError(Exception):
    """What came is no frame, or is larger than agreed."""


def opening(head: dict[str, Any], body: int) -> bytes:
    """The frame but for its `body` bytes. Raises GarbageError if the head is too large."""
    encoded = json.dumps(head, ensure_ascii=False).encode()
    if len(encoded) > MAX_HEAD:
        raise GarbageError("the head is too large")
    return _START.pack(_MARK, len(encoded), body) + encoded


def lengths(start: bytes, *, most: int) -> tuple[int, int]:
    """Of the JSON object and the body. Raises GarbageError; `most`: bytes of a body."""
    if len(start) != START:
        raise GarbageError("no whole frame")
    mark, head, body = _START.unpack(start)
    if mark != _MARK or head > MAX_HEAD or body > most:
        raise GarbageError("no frame, or too large")
    return head, body


def head_of(encoded: bytes) -> dict[str, Any]:
    """Raises GarbageError."""
    try:
        head = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise GarbageError("no JSON") from error
    if not isinstance(head, dict):
        raise GarbageError("no JSON object")
    return head


def serve(answers: Answers, *, file_bytes: int = 0) -> None:
    """Answers until the input ends. `file_bytes`: see `confine`."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    # What a library prints must not come between the frames.
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    sys.setrecursionlimit(RECURSION)
    with contextlib.suppress(OSError):
        # In a folder that is gone no file can be made, and none is left when this process is killed with its parent.
        os.rmdir(os.getcwd())  # noqa: PTH106, PTH109 - nothing else of pathlib is needed here
    confine(file_bytes=file_bytes)
    with contextlib.suppress(GarbageError, BrokenPipeError):
        while start := source.read(START):
            size, body = lengths(start, most=MAX_BODY)
            request = head_of(source.read(size))
            for head, answer in answers(request, source.read(body)):
                sink.write(opening(head, len(answer)) + answer)
                sink.flush()
    os._exit(0)


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
