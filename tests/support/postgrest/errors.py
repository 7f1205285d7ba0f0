"""What PostgREST answers when something goes wrong: its own errors, and an HTTP status for each SQLSTATE of Postgres.

Part of tests/support/postgrest/server.py, which says what is covered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import asyncpg


@dataclass(slots=True)
class RefusedError(Exception):
    """An error of PostgREST itself."""

    status: int
    code: str
    message: str
    details: str | None = None
    hint: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


EXACTLY = {
    "23503": 409, "23505": 409, "25006": 405, "21000": 500, "53400": 500, "57P01": 503, "P0001": 400, "42883": 404,
    "42P01": 404, "42P17": 500,
}  # fmt: skip
BY_CLASS = {
    "08": 503, "09": 500, "0L": 403, "0P": 403, "25": 500, "28": 403, "2D": 500, "38": 500, "39": 500, "3B": 500,
    "40": 500, "53": 503, "54": 500, "55": 500, "57": 500, "58": 500, "F0": 500, "HV": 500, "P0": 500, "XX": 500,
}  # fmt: skip
"""The table of the documentation, "HTTP Status Codes". What is in neither is 400."""


def status_of(sqlstate: str, message: str, *, anonymous: bool) -> int:
    """The HTTP status of an error of Postgres."""
    if sqlstate == "42501":
        return 401 if anonymous else 403
    if sqlstate == "22023" and message.startswith("role ") and message.endswith("does not exist"):
        return 401
    if sqlstate.startswith("PT"):
        return int(sqlstate[2:]) if sqlstate[2:].isdigit() else 500
    return EXACTLY.get(sqlstate) or BY_CLASS.get(sqlstate[:2], 400)


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back over HTTP."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def reply_to(error: BaseException, *, anonymous: bool) -> Reply:
    """The reply to a request that failed; an error that is none of PostgREST's is raised again."""
    match error:
        case RefusedError():
            said = (error.code, error.message, error.details, error.hint)
            return _reply(error.status, *said, headers=error.headers)
        case asyncpg.PostgresConnectionError() | asyncpg.InterfaceError():
            return _reply(503, "PGRST001", "Database client error. Retrying the connection.", str(error))
        case asyncpg.PostgresError():
            message, code = str(error.args[0]), error.sqlstate or "XX000"
            status = status_of(code, message, anonymous=anonymous)
            headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
            return _reply(status, code, message, error.detail, error.hint, headers)
        case TimeoutError():
            return _reply(504, "PGRST003", "Timed out acquiring connection from connection pool.")
        case OSError():
            message = "Database connection error. Retrying the connection."
            return _reply(503, "PGRST000", message, str(error))
    raise error


def _reply(
    status: int,
    code: str,
    message: str,
    details: str | None = None,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    body = {"code": code, "details": details, "hint": hint, "message": message}
    sent = {"Content-Type": "application/json; charset=utf-8", "Proxy-Status": f"PostgREST; error={code}"}
    return Reply(status, json.dumps(body).encode(), sent | dict(headers or {}))
