"""One child process, seen from the daemon: started, asked, ended.

Promise: after `end` it is gone, reaped, and its folder is removed, also when the task that waits is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from plugins.files.child import START, GarbageError, head_of, lengths, opening

PIECE = 1_000_000
"""Bytes that are written at once, so that the event loop does not copy a whole file."""

BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); __import__(sys.argv[1], fromlist=[1]).main()"
"""With the same modules as the daemon, wherever it found them, but without its environment."""

PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Without these some builds of Python do not start."""
OWN = {
    "LC_ALL": "C.UTF-8",
    # Each thread and each of its heaps takes address space, which is limited.
    "MALLOC_ARENA_MAX": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "1",
}


def command_of(module: str) -> list[str]:
    """What is run: `main` of a module, in a Python that reads no environment, adds no packages, and writes no bytecode."""
    root = str(Path(__file__).resolve().parents[2])
    path = [str(Path(each).resolve()) for each in sys.path if each]
    if root not in path:
        path.insert(0, root)
    return [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", BOOT, module, json.dumps(path)]


class Child:
    """A running child process. Only one task at a time may ask it."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str) -> None:
        self._process = process
        self._folder = folder
        self.files = 0
        """It was given so far."""

    @classmethod
    async def start(cls, command: Sequence[str]) -> Child:
        """Raises OSError if there is no room for a process or a folder."""
        folder = tempfile.mkdtemp(prefix="memoryd-read-")
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=folder,
                env={key: os.environ[key] for key in PASSED_ON if key in os.environ} | OWN,
                start_new_session=True,
            )
        )
        try:
            return cls(await asyncio.shield(starting), folder)
        except asyncio.CancelledError:
            # Half started it would be nobody's.
            with contextlib.suppress(OSError):
                await cls(await starting, folder).end()
            raise
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def alive(self) -> bool:
        """As far as the event loop has heard."""
        return self._process.returncode is None

    def processor_seconds(self) -> float:
        """That it has taken so far."""
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(self._process.pid).cpu_times()
            return float(used.user + used.system)
        return 0.0

    async def ask(self, head: dict[str, Any], content: bytes, *, most: int) -> tuple[dict[str, Any], bytes]:
        """Send a file, and wait for head and body of the answer. `most`: bytes of its body.

        Raises GarbageError, asyncio.IncompleteReadError or ConnectionError: the child is of no use any more.
        """
        await self.send(head, BytesIO(content), len(content))
        return await self.receive(most=most)

    async def send(self, head: dict[str, Any], content: BinaryIO, size: int) -> None:
        """Send a file of this size. Raises ConnectionError, OSError, and GarbageError where it has become shorter."""
        sink = self._process.stdin
        assert sink is not None
        self.files += 1
        sink.write(opening(head, size))
        while size > 0:
            piece = content.read(min(size, PIECE))
            if not piece:
                raise GarbageError("the file has become shorter")
            sink.write(piece)
            size -= len(piece)
            await sink.drain()

    async def receive(self, *, most: int) -> tuple[dict[str, Any], bytes]:
        """Wait for head and body of an answer. Raises as `ask` does."""
        source = self._process.stdout
        assert source is not None
        size, body = lengths(await source.readexactly(START), most=most)
        return head_of(await source.readexactly(size)), await source.readexactly(body)

    async def end(self) -> int:
        """Kill it, wait until it is gone, remove its folder. Answers its exit code, negative for a signal."""
        # In a task of its own, because whoever waits for it may be cancelled.
        return await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _end(self) -> int:
        if self._process.returncode is None:
            # Not by Process.kill(): of a child that is dead already it takes the exit code, and asyncio then says 255.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        code = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(ConnectionError):
                await self._process.stdin.wait_closed()
        shutil.rmtree(self._folder, ignore_errors=True)
        return code
