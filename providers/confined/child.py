"""The child process: reads files for the process that started it (process.py), one after the other, until its input ends.

Whatever goes wrong in here is an answer, or the end of this process only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from providers.confined.confinement import confine
from providers.confined.frames import START, GarbageError, head_of, lengths, opening

MAX_BODY = 2**40
"""What comes is not checked here: who sends it has a limit."""
RECURSION = 10_000
"""For pages and messages that are nested deep; a level of HTML takes a few calls."""
Answers = Callable[[dict[str, Any], bytes], Iterator[tuple[dict[str, Any], bytes]]]
"""From head and body of a request to those of its answers."""


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
