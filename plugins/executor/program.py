"""One run of a program: a text as stdin, output of any bytes up to a limit, a time limit, and no process left behind.

Promise: when `run_program` returns, or is cancelled, the program and its whole process group have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plugins.executor.confinement import Confinement

KILL_AFTER_SECONDS = 5.0
LAST_WORDS_SECONDS = 1.0
NO_ROOM = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
TIMED_OUT = 124
NOT_STARTED = 127


@dataclass(slots=True)
class Output:
    """The output of a program: its first and its last bytes, at most `limit` in all."""

    limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    left_out: int = 0

    def add(self, chunk: bytes) -> None:
        """Adds bytes that were just written."""
        room = self.limit // 2 - len(self.head)
        self.head += chunk[: max(0, room)]
        self.tail += chunk[max(0, room) :]
        # Cut in large steps, so that a long output is not copied for every chunk.
        if len(self.tail) > self.limit:
            cut = len(self.tail) - self.limit // 2
            del self.tail[:cut]
            self.left_out += cut

    @property
    def size(self) -> int:
        """Bytes written so far, including those left out."""
        return len(self.head) + len(self.tail) + self.left_out

    def text(self) -> str:
        """The output as text that Postgres can store."""
        over = max(0, len(self.head) + len(self.tail) - self.limit)
        left_out = self.left_out + over
        gap = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
        kept = bytes(self.head) + gap + bytes(memoryview(self.tail)[over:])
        return kept.decode("utf-8", "replace").replace("\x00", "�")


def words_of(command: str) -> list[str]:
    """The program and its arguments, split as by a shell. Raises ValueError if no program is named."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"MEMORYD_EXECUTOR_COMMAND cannot be read as a command line: {error}.") from None
    if not words:
        raise ValueError("MEMORYD_EXECUTOR_COMMAND names no program. Leave it empty to run none.")
    found = shutil.which(words[0])
    if found is None:
        raise ValueError(
            f"MEMORYD_EXECUTOR_COMMAND names {words[0]!r}, which is not a program here. Give its whole path."
        )
    # The program runs in another folder, where a relative path would lead elsewhere.
    return [os.path.abspath(found), *words[1:]]  # noqa: PTH100 - resolve() would change the name it is called by


async def run_program(
    argv: Sequence[str],
    *,
    given: str,
    environment: Mapping[str, str],
    confinement: Confinement,
    timeout_seconds: float,
    output: Output,
) -> tuple[int, str | None]:
    """Runs a program to its end. Returns the exit code, and the reason if the code is not the program's own.

    `environment` overrides the confinement's; `output` fills while the program runs. The code is 127 if the program cannot be
    started, 124 if the time limit ended it. Raises OSError if the machine has no room for another process.
    """
    ended = asyncio.Event()
    async with confinement.workplace() as folder:
        try:
            process, reading = await _start(
                _Reading(output, ended),
                argv,
                given,
                env={**confinement.environment, **environment},
                cwd=folder,
                **confinement.identity,
            )
        except OSError as fault:
            if fault.errno in NO_ROOM:
                raise
            return (
                NOT_STARTED,
                f"the executor's program could not be started: {fault.strerror} (MEMORYD_EXECUTOR_COMMAND)",
            )
        return await _to_its_end(process, reading, ended, timeout_seconds)


async def _to_its_end(
    process: asyncio.subprocess.Process,
    reading: asyncio.ReadTransport,
    ended: asyncio.Event,
    timeout_seconds: float,
) -> tuple[int, str | None]:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await process.wait(), None
    except TimeoutError:
        limit = f"{timeout_seconds:g} s (MEMORYD_EXECUTOR_TIMEOUT_SECONDS)"
        return TIMED_OUT, f"stopped at the time limit of {limit}"
    finally:
        # Also after success: processes that the program left in its group must not outlive its command.
        await _end(process)
        # A process that left the group may keep the pipe open forever.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), LAST_WORDS_SECONDS)
        reading.close()


async def _start(
    reading: _Reading, argv: Sequence[str], given: str, **options: Any
) -> tuple[asyncio.subprocess.Process, asyncio.ReadTransport]:
    # Our own file and pipe: with those of asyncio a process ends only when all its heirs have ended.
    read_end, write_end = os.pipe()
    pipe = os.fdopen(read_end, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: reading, pipe)
    try:
        with tempfile.TemporaryFile() as stdin:
            stdin.write(given.encode("utf-8", "replace"))
            stdin.seek(0)
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=stdin,
                stdout=write_end,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                **options,
            )
    except BaseException:
        transport.close()
        raise
    finally:
        os.close(write_end)
    return process, transport


class _Reading(asyncio.Protocol):
    def __init__(self, output: Output, ended: asyncio.Event) -> None:
        self._output = output
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        self._output.add(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._ended.set()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends the process group; first by SIGTERM, if the program still runs."""
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), KILL_AFTER_SECONDS)
    _signal(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
