"""A server that answers HTTP as PostgREST does, for what supabase-js sends: no PostgREST can be installed where tests run.

It is our reading of the documentation of PostgREST 14. Promise: what it runs on Postgres is what PostgREST runs: logged in as
authenticator, one transaction a request, in which the token's role, its claims and the request are set; functions are
called by named arguments taken from the JSON body by Postgres itself (json_to_record), rows written in the same way.

Covered:
- tokens (HS256): role, sub, exp, nbf, iat; without one anon; 401 for one that is forged or has expired
- /rpc/NAME by POST, and by GET in a read-only transaction; stable and immutable functions are read-only by POST, too; the
  function is found by the names of the arguments: none 404 (PGRST202), several 300 (PGRST203); results: a value, jsonb, a row,
  rows, nothing (204); select=, conditions, order= and limit= on rows
- /TABLE: GET and HEAD with select=, eq neq gt gte lt lte like ilike is in cs cd ov and not., order=, limit=, offset=,
  count=exact; POST with one row or several, columns=, upsert with on_conflict=; PATCH; DELETE; return=representation
- application/vnd.pgrst.object+json, which wants one row (PGRST116); Content-Profile and Accept-Profile (PGRST106)
- errors: {code, message, details, hint}, and the documented status for each SQLSTATE
- the prefix /rest/v1, which a project's gateway takes away

Not covered, and answered 501 so that no test goes on: embedded tables, JSON paths, or= and and=, variadic functions. Never
answered: OpenAPI, CSV, ranges in headers, response.headers and response.status.

    with PostgrestServer(project.url(user="authenticator")) as server:
        httpx2.post(f"{server.url}/rpc/recall", json={"query": "ferry"}, headers=server.headers("authenticated", ANN))
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self
from uuid import UUID

import asyncpg
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from tests.support.postgrest.calls import Connection, Function, Statement, call, functions_named
from tests.support.postgrest.errors import RefusedError, Reply, reply_to
from tests.support.postgrest.request import Request
from tests.support.postgrest.tables import Table, statement, table_named
from tests.support.postgrest.tokens import claims_of, token

SCHEMA = "public"
EXTRA_SEARCH_PATH = "extensions"
POOL = 10
"""Connections, and seconds to wait for one: PostgREST's defaults."""
METHODS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"]
BEGIN = """
select set_config('search_path', $1, true), set_config('role', $2, true), set_config('request.jwt.claims', $3, true),
       set_config('request.method', $4, true), set_config('request.path', $5, true),
       set_config('request.headers', $6, true), set_config('request.cookies', '{}', true)
"""


class PostgrestServer:
    """The server, in a thread of its own. Use it as a context manager."""

    def __init__(self, authenticator_url: str) -> None:
        self._database = authenticator_url
        # asyncio turns Nagle's algorithm off only for sockets that say that they speak TCP: else each answer waits 40 ms.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self._pool: asyncpg.Pool | None = None
        # As PostgREST's schema cache: what was seen once is not looked at again.
        self._functions: dict[str, list[Function]] = {}
        self._tables: dict[str, Table] = {}
        app = Starlette(
            routes=[Route("/{path:path}", self._answer, methods=METHODS)], lifespan=self._connected
        )
        config = uvicorn.Config(
            app, log_config=None, access_log=False, ws="none", lifespan="on", timeout_graceful_shutdown=5
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    @property
    def base_url(self) -> str:
        """The address of the project, as supabase-js takes it."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def url(self) -> str:
        """Where functions and tables are."""
        return f"{self.base_url}/rest/v1"

    @staticmethod
    def headers(role: str, user: UUID | None = None) -> dict[str, str]:
        """The headers of a request with a token of this role; anon sends none."""
        return {} if role == "anon" else {"Authorization": f"Bearer {token(role, user)}"}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    @asynccontextmanager
    async def _connected(self, _: Starlette) -> AsyncIterator[None]:
        async with asyncpg.create_pool(self._database, min_size=0, max_size=POOL) as self._pool:
            yield

    async def _answer(self, sent: HttpRequest) -> Response:
        request = Request(
            method=sent.method,
            path="/" + sent.path_params["path"].removeprefix("rest/v1/"),
            query=sent.query_params.multi_items(),
            headers={name.lower(): value for name, value in sent.headers.items()},
            body=await sent.body(),
        )
        try:
            request = _known(request)
            reply = await self._run(request)
        except Exception as error:  # noqa: BLE001 - what is not one of PostgREST's is raised again
            reply = reply_to(error, anonymous=request.role == "anon")
        return Response(
            b"" if sent.method == "HEAD" else reply.body, reply.status, headers=dict(reply.headers)
        )

    async def _run(self, request: Request) -> Reply:
        assert self._pool is not None
        async with self._pool.acquire(timeout=POOL) as connection:
            planned = await self._planned(connection, request)
            async with connection.transaction(readonly=planned.read_only):
                await _begin(connection, request)
                row = await connection.fetchrow(planned.sql, *planned.parameters)
                assert row is not None
                if request.wants_one and planned.has_body and row["page"] != 1:
                    said = "Cannot coerce the result to a single JSON object"
                    raise RefusedError(406, "PGRST116", said, f"The result contains {row['page']} rows")
        return _replied(planned, row)

    async def _planned(self, connection: Connection, request: Request) -> Statement:
        match request.path.strip("/").split("/"):
            case ["rpc", name]:
                if request.method not in ("GET", "HEAD", "POST"):
                    raise RefusedError(405, "PGRST101", f"Cannot use the {request.method} method on RPC")
                if name not in self._functions:
                    self._functions[name] = await functions_named(connection, SCHEMA, name)
                return call(self._functions[name], request, SCHEMA, name)
            case [name] if name:
                if name not in self._tables:
                    self._tables[name] = await table_named(connection, SCHEMA, name)
                return statement(self._tables[name], request, SCHEMA, name)
        raise RefusedError(404, "PGRST125", "Invalid path specified in request URL")


def _known(request: Request) -> Request:
    """The request with who asks. Raises RefusedError."""
    for name in ("accept-profile", "content-profile"):
        if (schema := request.headers.get(name, SCHEMA)) != SCHEMA:
            hint = f"Only the following schemas are exposed: {SCHEMA}"
            raise RefusedError(406, "PGRST106", f"Invalid schema: {schema}", hint=hint)
    authorization = request.headers.get("authorization", "")
    if not authorization.lower().startswith("bearer "):
        return request
    claims = claims_of(authorization[len("bearer ") :].strip())
    return replace(request, claims=claims, role=str(claims.get("role", "anon")))


async def _begin(connection: Connection, request: Request) -> None:
    claims = json.dumps(dict(request.claims) | {"role": request.role})
    path = f'"{SCHEMA}", "{EXTRA_SEARCH_PATH}"'
    headers = json.dumps(dict(request.headers))
    await connection.fetchrow(BEGIN, path, request.role, claims, request.method, request.path, headers)


def _replied(planned: Statement, row: asyncpg.Record) -> Reply:
    last = row["page"] - 1
    total = row["total"]
    shown = f"0-{last}" if last >= 0 else "*"
    headers = {"Content-Range": f"{shown}/{'*' if total is None else total}"}
    if not planned.has_body:
        return Reply(planned.status, b"", headers)
    headers["Content-Type"] = "application/json; charset=utf-8"
    status = 206 if total is not None and 0 <= last + 1 < total else planned.status
    return Reply(status, row["body"].encode(), headers)
