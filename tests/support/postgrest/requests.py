"""Requests to tests/support/postgrest/server.py, as an end user, as a service, or as nobody."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import httpx2

from tests.support.postgrest.server import PostgrestServer

Who = UUID | str
"""A user, or the role of a token that names none: "service_role", or "anon" for no token at all."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: Any
    """From JSON; None where there is none."""

    @property
    def code(self) -> str | None:
        """The code of an error."""
        return self.body["code"] if self.status >= 400 or self.status == 300 else None


class Rest:
    """A client. Use it as an asynchronous context manager."""

    def __init__(self, server: PostgrestServer) -> None:
        self._server = server
        self._http = httpx2.AsyncClient(timeout=60)

    async def rpc(self, who: Who, function: str, arguments: object = None) -> Answer:
        """Calls a function as supabase-js does: by POST, arguments as JSON."""
        body = json.dumps({} if arguments is None else arguments)
        return await self.ask(who, "POST", f"rpc/{function}", content=body)

    async def get(self, who: Who, path: str, **parameters: str) -> Answer:
        """Reads a table, or calls a function by GET."""
        return await self.ask(who, "GET", path, params=parameters)

    async def ask(
        self, who: Who, method: str, path: str, *, prefer: str = "", headers: Any = None, **sent: Any
    ) -> Answer:
        """A request; `sent` as httpx takes it (json, content, params)."""
        role, user = ("authenticated", who) if isinstance(who, UUID) else (who, None)
        said = self._server.headers(role, user) | ({"Prefer": prefer} if prefer else {}) | (headers or {})
        reply = await self._http.request(method, f"{self._server.url}/{path}", headers=said, **sent)
        return Answer(reply.status_code, json.loads(reply.content) if reply.content else None)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, traceback)
