"""The parser of the daemon: small files of plain formats are read in a thread, all others in a child process.

A child is kept for the next file, since starting one takes longer than most files. It is replaced when it fails, when it
was killed, and after many files.

Promise: whatever is in a file, the answer is a text or `UnreadableFileError`, within the limits; the daemon lives on, and
nothing of a child that failed stays behind.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from plugins.documents.parsing.reading import PLAIN, kind_of, read_file
from plugins.documents.parsing.texts import size
from plugins.documents.ports import Parsed
from plugins.files.child import GarbageError
from plugins.files.decoding import clean
from plugins.files.local import UnreadableFileError
from plugins.files.process import Child, command_of

TEXT_BYTES = 10_000_000
"""Of the text of a file."""
FILE_BYTES = 200_000_000
SMALL = 131_072
"""Bytes up to which plain formats are read in the daemon. At most what tables.MAX_CELL says."""
FILES = 500
"""After this number of files a child is replaced: libraries leak."""
IDLE_SECONDS = 60.0
"""After this time without a file the children are ended: each takes 30 to 100 MB."""
SPARE_SECONDS = 15.0
"""A child that takes no processor time for so long is stuck, and ended. One that takes too much ends itself."""

SPLIT = "Split it, or save it in another format, and give that instead."
CHILD = "plugins.documents.parsing.reading"
Answer = TypeVar("Answer")
BROKE_OFF = (asyncio.IncompleteReadError, ConnectionError, GarbageError)


class ChildParser:
    """Reads files in child processes. Implements `Parser`. Belongs to the event loop in which it is first used.

    `memory_bytes`: of a child, beyond what Python takes. `seconds`: of processor time, for one file; what takes longer gets
    twice as much in a second try. `children`: how many files are read at once. `command` starts a child.
    """

    def __init__(
        self,
        *,
        memory_bytes: int = 2**30,
        seconds: float = 60.0,
        children: int = 2,
        command: Sequence[str] | None = None,
    ) -> None:
        self._memory = memory_bytes
        self._seconds = seconds
        self._command = command_of(CHILD) if command is None else list(command)
        self._slots = asyncio.Semaphore(children)
        self._idle: list[Child] = []
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    async def parse(self, content: bytes, name: str) -> Parsed:
        """See `Parser.parse`. Raises OSError if no child can be started: the file may be readable later."""
        if len(content) > FILE_BYTES:
            raise UnreadableFileError(
                f"The file is larger than {size(FILE_BYTES)}. Split it into smaller ones and give those."
            )
        kind = kind_of(content, name)
        if kind in PLAIN and len(content) <= SMALL:
            return await asyncio.to_thread(read_file, content, name, room=TEXT_BYTES)
        async with self._slots:
            try:
                return await self._in_child(content, name, self._seconds)
            except _TooSlowError:
                with suppress(_TooSlowError):
                    return await self._in_child(content, name, 2 * self._seconds)
                raise UnreadableFileError(
                    f"Reading the file took longer than {self._seconds:g} seconds of processor time, and a second try "
                    f"twice as long. It is very large, damaged, or made to do harm. {SPLIT}"
                ) from None

    async def close(self) -> None:
        """End the children. The parser is not used afterwards; a file that is being read is read to its end."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._ending is not None:
            await self._ending
        await self._end_idle()

    async def _in_child(self, content: bytes, name: str, seconds: float) -> Parsed:
        child = await self._child()
        fresh = child.files == 0
        try:
            request = {"name": clean(name), "room": TEXT_BYTES, "memory": self._memory, "seconds": seconds}
            answer, text = await _while_at_work(child, child.ask(request, content, most=TEXT_BYTES))
            parsed = _parsed(answer, text)
        except TimeoutError as error:
            await child.end()
            raise _TooSlowError from error
        except BROKE_OFF as error:
            code = await child.end()
            if code in (-signal.SIGPROF, -signal.SIGXCPU):
                raise _TooSlowError from error
            if not fresh:
                # It may have been killed between two files, or suffer from the one before.
                return await self._in_child(content, name, seconds)
            raise UnreadableFileError(
                "The program that reads such files broke off at this one. The file is damaged, or reading it takes more than "
                f"{size(self._memory)} of memory. Save it again from the program that made it, or split it, and give that "
                "instead."
            ) from error
        except UnreadableFileError:
            await self._keep(child)
            raise
        except BaseException:  # cancelled, or out of memory: nobody waits for the child's answer any more
            await child.end()
            raise
        if parsed is None:
            await child.end()
            raise UnreadableFileError(
                f"Reading the file takes more than {size(self._memory)} of memory. {SPLIT}"
            )
        await self._keep(child)
        return parsed

    async def _child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await child.end()
        return await Child.start(self._command)

    async def _keep(self, child: Child) -> None:
        if self._closed or child.files >= FILES:
            await child.end()
            return
        self._idle.append(child)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._retire)

    def _retire(self) -> None:
        self._ending = asyncio.ensure_future(self._end_idle())

    async def _end_idle(self) -> None:
        while self._idle:
            await self._idle.pop().end()


class _TooSlowError(Exception):
    """The file takes too long."""


async def _while_at_work(child: Child, asked: Coroutine[Any, Any, Answer]) -> Answer:
    """What the child answers. Raises TimeoutError when it takes no processor time any more."""
    answer = asyncio.ensure_future(asked)
    try:
        taken = -1.0
        while not (await asyncio.wait({answer}, timeout=SPARE_SECONDS))[0]:
            if (now := child.processor_seconds()) == taken:
                raise TimeoutError
            taken = now
        return answer.result()
    finally:
        answer.cancel()


def _parsed(answer: dict[str, Any], text: bytes) -> Parsed | None:
    """The answer of the child; None: it has no memory. Raises `UnreadableFileError`, or GarbageError for any other text."""
    match answer:
        case {"unreadable": str(reason)}:
            raise UnreadableFileError(reason)
        case {"out_of_memory": True}:
            return None
        case {"failed": str(error)}:
            raise UnreadableFileError(
                f"The file cannot be read ({error}): it is damaged. "
                "Save it again from the program that made it and give that instead."
            )
        case {"title": str() | None as title, "document_type": str(kind), "metadata": dict(metadata)}:
            try:
                return Parsed(text=text.decode(), title=title, document_type=kind, metadata=metadata)
            except UnicodeDecodeError as error:
                raise GarbageError("no UTF-8") from error
    raise GarbageError("no answer")
