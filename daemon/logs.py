"""Logs: structlog, readable on a terminal, one JSON object a line otherwise.

Promise: ids, counts and durations; never content, embeddings or secrets.
"""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

# What asyncpg raises when a connection breaks in the middle of an answer. Its complaints of an argument are of other classes.
_LOST = frozenset({"InterfaceError", "InternalClientError"})


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
