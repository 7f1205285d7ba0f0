"""Logs: structlog, readable on a terminal, one JSON object a line otherwise; also what libraries and Python say by themselves.

Promise: ids, counts and durations; never content, embeddings or secrets. Where the log is JSON, every line on stderr is a JSON
object, up to and including the last, which says why a start failed or the process crashed.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

# What asyncpg raises when a connection breaks in the middle of an answer. Its complaints of an argument are of other classes.
_LOST = frozenset({"InterfaceError", "InternalClientError"})
MAX_MESSAGE_LENGTH = 500
# What others warn of may quote a value that they were given.
_PLAIN = (RuntimeWarning, DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)


def is_console(style: str, stream: TextIO) -> bool:
    """Whether that style means readable lines on that stream."""
    return style == "console" or (style == "auto" and stream.isatty())


def configure_logs(*, level: str, style: str, stream: TextIO | None = None) -> None:
    """Sets up structlog for this process; style is auto, console or json."""
    out = sys.stderr if stream is None else stream
    console = is_console(style, out)
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if console else "iso", utc=not console),
    ]
    if console:
        processors.append(
            structlog.dev.ConsoleRenderer(
                colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        )
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    # Libraries speak through the standard library: only their warnings are worth a line here, in the same form.
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_logger_name,
                _without_message_of_exception,
                *processors[:-1],
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, processors[-1]],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _without_message_of_exception(_logger: object, _method: str, event: EventDict) -> EventDict:
    """An exception that a library logs, as its class and its frames."""
    error = event.pop("exc_info", None)
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        event.update(error=describe(error), at=frames(error))
    return event


def get_logger(**bound: object) -> FilteringBoundLogger:
    """A logger with these values on every line."""
    logger: FilteringBoundLogger = structlog.get_logger(**bound)
    return logger


def describe(error: BaseException) -> str:
    """An error in a few words that are safe to log: its class and SQLSTATE, and whether it is the connection that was lost.

    Postgres puts row values into the detail, and some libraries put the input into the message: neither is taken.
    """
    state = getattr(error, "sqlstate", None)
    name = type(error).__name__
    lost = isinstance(error, ConnectionError) or str(state).startswith("08") or name in _LOST
    return (f"{name} [{state}]" if state else name) + (": connection lost" if lost else "")


def frames(error: BaseException) -> list[str]:
    """Where an error came from, innermost last, without the message that a traceback would end in."""
    found = traceback.extract_tb(error.__traceback__)
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in found]


# --- How `memoryd run` ends when it cannot start or go on, and what libraries say by themselves.


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
