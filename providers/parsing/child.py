"""The child process: reads files for the daemon, one after the other, until its input ends.

It is started by `process.py`. Whatever goes wrong in here is an answer, or the end of this process only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, BinaryIO

from providers.parsing.confinement import bound, confine, unbound
from providers.parsing.frames import MAX_HEAD, START, GarbageError, head_of, lengths, opening
from providers.parsing.kinds import kind_of
from providers.parsing.reading import read_file, reader_of
from providers.ports import Parsed, Unreadable

MAX_BODY = 2**40
"""What the daemon sends is not checked here: it has its own limit."""
RECURSION = 10_000
"""For pages and messages that are nested deep; a level of HTML takes a few calls."""


def main() -> None:
    """Serve until the input ends."""
    source = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # What a library prints must not come between the frames.
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    sys.setrecursionlimit(RECURSION)
    with contextlib.suppress(OSError):
        # In a folder that is gone no file can be made, and none is left when this process is killed with the daemon.
        os.rmdir(os.getcwd())  # noqa: PTH106, PTH109 - nothing else of pathlib is needed here
    confine()
    with contextlib.suppress(GarbageError, BrokenPipeError):
        while start := source.read(START):
            _serve(start, source, answers)
    os._exit(0)


def _serve(start: bytes, source: BinaryIO, answers: BinaryIO) -> None:
    size, body = lengths(start, most=MAX_BODY)
    request = head_of(source.read(size))
    content = source.read(body)
    try:
        reader_of(kind_of(content, request["name"]))  # its libraries count for no file
        bound(memory=request["memory"], seconds=request["seconds"])
        answer, text = _answer(read_file(content, request["name"], room=request["room"]))
    except Unreadable as error:
        answer, text = {"unreadable": str(error)}, b""
    except MemoryError:
        answer, text = {"out_of_memory": True}, b""
    except Exception as error:  # noqa: BLE001 - a reader that fails must not end the others' child
        answer, text = {"failed": type(error).__name__}, b""
    unbound()
    answers.write(opening(answer, len(text)) + text)
    answers.flush()


def _answer(parsed: Parsed) -> tuple[dict[str, Any], bytes]:
    answer: dict[str, Any] = {
        "title": parsed.title,
        "document_type": parsed.document_type,
        "metadata": dict(parsed.metadata),
    }
    try:
        opening(answer, 0)
    except GarbageError:
        answer["metadata"] = {"metadata": f"left out: longer than {MAX_HEAD} bytes"}
    return answer, parsed.text.encode()


if __name__ == "__main__":
    main()
