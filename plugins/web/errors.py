"""Errors as pages: one sentence that says what to do. It never quotes what is stored."""

from __future__ import annotations

from http import HTTPStatus

import asyncpg
from starlette.requests import Request
from starlette.responses import Response
from structlog.typing import FilteringBoundLogger

from daemon.db.errors import DATABASE_FAULTS, is_gone, is_outage
from daemon.logs import describe, frames
from plugins.web.forms import BadValueError
from plugins.web.render import page


class NotThereError(Exception):
    """There is no such row, or the viewer may not see it: the page is the same for both. Or what is said instead."""


class BusyError(Exception):
    """The limit of concurrent work is reached; the message says of what."""


class ChangedMeanwhileError(Exception):
    """Somebody has changed the row since its form was shown: nothing was stored, and its page is shown again."""


def title_of(status: int) -> str:
    """What people call an error of this status."""
    return f"{HTTPStatus(status).phrase} ({status})"


def refusal(request: Request, status: int, sentence: str) -> Response:
    """A page that says why the request was refused."""
    return page(request, "error.html", status=status, title=title_of(status), sentence=sentence)


def fault_of_the_database(error: BaseException) -> tuple[int, str] | None:
    """The status and the sentence for a fault of the database; None for any other error."""
    match error:
        case asyncpg.QueryCanceledError():
            return 504, "The database took too long for this page. Ask for less, or try again later."
        case asyncpg.InsufficientPrivilegeError():
            return 403, "You may not do this. Nothing was changed."
    if isinstance(error, DATABASE_FAULTS) and (is_gone(error) or is_outage(error)):
        return 503, "The database does not answer. Load this page again in a moment."
    return None


REFUSED = (
    BadValueError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.RaiseError,
)  # fmt: skip
"""What is wrong with what was asked or sent."""


def sentence_of(error: BaseException) -> str:
    """What is wrong, of an error of `REFUSED`."""
    if isinstance(error, BadValueError):
        return str(error)
    return f"{error.args[0]}. {getattr(error, 'hint', None) or ''} Nothing was changed.".replace("..", ".")


def answer_error(request: Request, error: BaseException, log: FilteringBoundLogger) -> Response:
    if (fault := fault_of_the_database(error)) is not None:
        if fault[0] == 503:
            log.warning("web_without_database", error=describe(error))
        return refusal(request, *fault)
    match error:
        case NotThereError():
            return refusal(request, 404, str(error) or "There is no such row, or you may not see it.")
        case BusyError():
            return refusal(request, 429, str(error))
    if isinstance(error, REFUSED):
        return refusal(request, 400, sentence_of(error))
    log.error("web_page_failed", path=request.url.path, error=describe(error), at=frames(error))
    return refusal(request, 500, "This page has failed. The log of memoryd web says where.")
