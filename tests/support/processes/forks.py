"""Starts `memoryd` processes for tests, forked from one that has imported it (tests/support/processes/zygote.py)."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from tests.support.processes.constants import VARIABLE
from tests.support.repository import ROOT

PIPE = asyncio.subprocess.PIPE
LINE_BYTES = 1 << 24
"""Of a line of the log that is read."""


class Forked:
    """A running process: what tests use of asyncio.subprocess.Process. It ends with the event loop of its test."""

    def __init__(
        self,
        pid: int,
        stdin: asyncio.StreamWriter | None,
        stdout: asyncio.StreamReader | None,
        stderr: asyncio.StreamReader | None,
        answers: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        pipes: Sequence[asyncio.BaseTransport],
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._pipes = pipes
        self.returncode: int | None = None
        self._ended = asyncio.create_task(self._end(*answers))

    async def wait(self) -> int:
        """Its exit code, or minus the number of the signal that ended it, once it has ended."""
        return await asyncio.shield(self._ended)

    async def communicate(self, given: bytes | None = None) -> tuple[bytes, bytes]:
        """Writes to its stdin, closes that, and reads what it says until it ends."""
        out, err, _, _ = await asyncio.gather(
            self._read(self.stdout), self._read(self.stderr), self._write(given), self.wait()
        )
        return out, err

    def send_signal(self, number: int) -> None:
        """Nothing happens once it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    async def _end(self, answers: asyncio.StreamReader, connection: asyncio.StreamWriter) -> int:
        with closing(connection):
            try:
                self.returncode = int(await answers.readline())
            except asyncio.CancelledError:
                # Its test failed, and nobody waits for it: what stays open fails a later test.
                self.terminate()
                if self.stdin is not None:
                    self.stdin.transport.abort()
                for pipe in self._pipes:
                    pipe.close()
                raise
        return self.returncode

    async def _read(self, stream: asyncio.StreamReader | None) -> bytes:
        return b"" if stream is None else await stream.read()

    async def _write(self, given: bytes | None) -> None:
        if self.stdin is None:
            return
        # It may end before it has read all.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.stdin.write(given or b"")
            await self.stdin.drain()
        self.stdin.close()


Process = Forked | asyncio.subprocess.Process


async def start(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    stdin: int,
    stdout: int,
    whole: bool = False,
) -> Process:
    """`memoryd` with these arguments, its stderr piped.

    `whole`: as a user starts it, for tests of what others see of a process. Elsewhere than on Linux it always starts like
    that, since not everything there may be forked.
    """
    if sys.platform == "linux" and not whole:
        return await _fork(arguments, environment=environment, cwd=cwd, streams=(stdin, stdout, PIPE))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.processes.constants" if VARIABLE in environment else "daemon",
        *arguments,
        env=environment,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=PIPE,
        limit=LINE_BYTES,
    )


async def _fork(
    arguments: Sequence[str], *, environment: Mapping[str, str], cwd: Path, streams: tuple[int, int, int]
) -> Forked:
    """A stream is PIPE, DEVNULL, or a file descriptor."""
    loop = asyncio.get_running_loop()
    ours: list[int | None] = []
    theirs: list[int] = []
    for number, wanted in enumerate(streams):
        if wanted == PIPE:
            read, write = os.pipe()
            theirs.append(write if number else read)
            ours.append(read if number else write)
        else:
            null = wanted == asyncio.subprocess.DEVNULL
            theirs.append(os.open(os.devnull, os.O_RDWR) if null else os.dup(wanted))
            ours.append(None)
    message = json.dumps(
        {"arguments": list(arguments), "environment": dict(environment), "cwd": str(cwd)}
    ).encode()
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(_zygote())
    socket.send_fds(asked, [struct.pack("!I", len(message))], theirs)
    asked.sendall(message)
    for one in theirs:
        os.close(one)
    answers = await asyncio.open_unix_connection(sock=asked)
    pid = int(await answers[0].readline())
    stdin = await _writer(loop, ours[0])
    (stdout, out), (stderr, err) = await _reader(loop, ours[1]), await _reader(loop, ours[2])
    return Forked(pid, stdin, stdout, stderr, answers, [pipe for pipe in (out, err) if pipe is not None])


@cache
def _zygote() -> str:
    """The socket of this process's zygote, which ends with it."""
    folder = tempfile.mkdtemp(prefix="memoryd-zygote-")
    path = f"{folder}/socket"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.zygote", path],
        cwd=ROOT,
        # More threads than one would make it unsafe to fork.
        env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n"
    atexit.register(_end, process, folder)
    return path


def _end(process: subprocess.Popen[bytes], folder: str) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
    shutil.rmtree(folder)


async def _reader(
    loop: asyncio.AbstractEventLoop, end: int | None
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport] | tuple[None, None]:
    if end is None:
        return None, None
    reader = asyncio.StreamReader(limit=LINE_BYTES, loop=loop)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader, loop=loop), os.fdopen(end, "rb")
    )
    return reader, transport


async def _writer(loop: asyncio.AbstractEventLoop, end: int | None) -> asyncio.StreamWriter | None:
    if end is None:
        return None
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(end, "wb")
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
