"""How `memoryd run` ends when it cannot start or go on, and what libraries say by themselves: in the form of the log.

Promise: where the log is JSON, every line on stderr is a JSON object, up to and including the last.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from daemon.logs import configure_logs, describe, frames, get_logger, is_console

MAX_MESSAGE_LENGTH = 500
# What others warn of may quote a value that they were given.
_PLAIN = (RuntimeWarning, DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)


class ExplainedError(Exception):
    """Its message says what is wrong and what to do: a command shows it, and no traceback."""


class PartFailed(Exception):
    """A part of the daemon ended before it was told to; the log has said why. The process ends, to be started again."""


class StoppedAtOnce(SystemExit):
    """A second signal came: the process ends, without closing anything but its own Postgres."""

    code: int


def refuse(sentence: str, show: Callable[[str], None], style: str | None) -> None:
    """Tells why there is no start: to people by `show`, else as a log line for each of its lines.

    `style`: None where the settings themselves are wrong; then the environment tells the form of the log.
    """
    if is_console(style or _style(), sys.stderr):
        show(sentence)
        return
    for line in sentence.splitlines():
        get_logger().error("start_refused", reason=line)


def crash(error: BaseException) -> None:
    """Logs an unexpected error, without its message: that may quote what agents remember."""
    get_logger().critical("crashed", error=describe(error), at=frames(error))


def capture_warnings() -> None:
    """From now on Python's own words on stderr are log lines: warnings, and errors of threads and finalizers.

    Also before the settings are known: until then only the environment says which form the log has.
    """
    configure_logs(level="info", style=_style())
    warnings.showwarning = _warned
    threading.excepthook = lambda told: crash(told.exc_value or SystemError())
    sys.unraisablehook = lambda told: crash(told.exc_value or SystemError())


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del file, line
    said = {"said": str(message)[:MAX_MESSAGE_LENGTH]} if issubclass(category, _PLAIN) else {}
    at = f"{Path(filename).name}:{lineno}"
    get_logger().warning("python_warning", category=category.__name__, at=at, **said)


@contextmanager
def foreign_lines_logged(style: str) -> Iterator[None]:
    """What libraries written in C print to stderr while they are loaded becomes log lines, where the log is JSON."""
    if is_console(style, sys.stderr):
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            said.seek(0)
            for raw in said.read().splitlines():
                line = raw.decode("utf-8", "replace").strip()
                if line.startswith("{"):
                    print(line, file=sys.stderr)  # noqa: T201 - our own line, on its way to where it was going
                elif line:
                    get_logger().warning("library_warning", said=line[:MAX_MESSAGE_LENGTH])


def _style() -> str:
    style = os.environ.get("MEMORYD_LOG_FORMAT", "auto")
    return style if style in ("console", "json") else "auto"
