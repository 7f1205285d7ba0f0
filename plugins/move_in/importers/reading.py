"""Reads the export of a system, file by file, in a confined child process, since strangers wrote the files.

Promise: whatever a file contains, the worst is that its import is refused. Ctrl-C ends the reading. Memory, time and disk are
limited by the size of the files. No other file is read, no link is followed, and no pipe is waited for.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, BinaryIO

from plugins.files.child import GarbageError
from plugins.files.local import UnreadableFileError, modified_of, opened
from plugins.files.process import Child, command_of
from plugins.move_in.importers.child import LONGEST_LINE, item_of
from plugins.move_in.importers.items import Item, System
from plugins.move_in.importers.records import SQLITE, ExportError
from plugins.move_in.importers.sources import files_in

MEMORY = 2**29
MEMORY_BY_SIZE = 6
"""Bytes of memory for each byte of a file: the byte itself, and up to four of its text."""
SECONDS = 300.0
BYTES_A_SECOND = 100_000
ROOM = 64_000_000
ROOM_BY_SIZE = 32
"""Bytes of items for each byte of the files: a short message has fewer bytes than the names of its fields."""
MOST_BYTES = 2_000_000_000
"""Of a file."""


async def read(system: System, source: str) -> AsyncGenerator[Item, None]:
    """The items. Raises ExportError and OSError."""
    child: Child | None = None
    room = ROOM
    try:
        for path, name in files_in(system, source):
            child = child or await Child.start(command_of("plugins.move_in.importers.child"))
            with opened(path, most=MOST_BYTES) as (file, status):
                room += ROOM_BY_SIZE * status.st_size
                head = {
                    "system": system,
                    "name": name,
                    "modified": modified_of(status).isoformat(),
                    "path": os.fspath(path) if file.peek(len(SQLITE)).startswith(SQLITE) else None,
                    "memory": MEMORY + MEMORY_BY_SIZE * status.st_size,
                    "seconds": SECONDS + status.st_size / BYTES_A_SECOND,
                }
                async with aclosing(_of_file(child, head, file, status.st_size)) as lines:
                    async for line in lines:
                        room -= len(line)
                        if room < 0:
                            raise ExportError(
                                f"{path} has more content than a file of its size can have: it is damaged, or made to do harm. "
                                "Nothing was imported."
                            )
                        yield item_of(line)
    except UnreadableFileError as error:
        raise ExportError(f"{source}: {error}") from None
    finally:
        if child is not None:
            await child.end()


async def _of_file(
    child: Child, head: dict[str, Any], file: BinaryIO, size: int
) -> AsyncGenerator[bytes, None]:
    """The child's lines. Raises ExportError."""
    try:
        await child.send(head, file, 0 if head["path"] else size)
        while True:
            answer, lines = await child.receive(most=LONGEST_LINE + 2_000_000)
            for line in filter(None, lines.split(b"\n")):
                yield line
            match answer:
                case {"end": True}:
                    return
                case {"error": str(error)}:
                    raise ExportError(error)
                case {"out_of_memory": True}:
                    raise ExportError(_too_much(head))
    except (asyncio.IncompleteReadError, ConnectionError, GarbageError):
        code = await child.end()
        if code in (-signal.SIGPROF, -signal.SIGXCPU):
            raise ExportError(
                f"Reading {head['name']} took longer than {head['seconds']:,.0f} seconds of processor time: it is damaged, "
                "or made to do harm. Nothing was imported."
            ) from None
        raise ExportError(_too_much(head)) from None


def _too_much(head: dict[str, Any]) -> str:
    return (
        f"{head['name']} cannot be read: it is damaged, or takes more than {head['memory']:,} bytes of memory. "
        "Nothing was imported."
    )
