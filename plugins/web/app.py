"""The application: its pages, and the middleware around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from plugins.audit.rule import SECONDS as AUDIT_SECONDS
from plugins.web import addresses, errors, names
from plugins.web.forms import SAFE, BadValueError
from plugins.web.gate import Gate, cookie_name, is_from_elsewhere
from plugins.web.pages import (
    audit,
    context,
    conversations,
    documents,
    dreams,
    erasure,
    graph,
    knowledge,
    memories,
    now,
    recall,
    rights,
    tasks,
    trail,
    users,
)
from plugins.web.render import FOLDER, Fault, page
from plugins.web.viewer import SECONDS
from plugins.web.web import Web, must_edit, web_of


async def words(request: Request) -> Response:
    """What the words of these pages mean."""
    return page(request, "words.html")


PAGES: tuple[list[Route], ...] = (
    addresses.routes,
    now.routes,
    memories.routes,
    recall.routes,
    context.routes,
    graph.routes,
    tasks.routes,
    conversations.routes,
    documents.routes,
    knowledge.routes,
    dreams.routes,
    trail.routes,
    audit.routes,
    names.routes,
    users.routes,
    [Route("/words", words)],
    rights.routes,
    erasure.routes,
)


_Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]
SHOWN: dict[str, _Endpoint] = {
    route.path: route.endpoint for routes in PAGES for route in routes if "GET" in (route.methods or ())
}
"""The page at each path: with the form that is sent there."""
FORMS = {"/audit/derived": "/audit"}
"""Pages whose form stands on another page."""
ONLY_LOOK = {addresses.ask, names.offered, now.examine_again, audit.run, trail.verify, trail.verify_one}
"""POST endpoints that change no stored row. Every other POST needs --edit."""
LONG = [*audit.routes, *(route for route in rights.routes if route.endpoint is rights.copy)]
"""They may take the time of an audit."""


class _Files(StaticFiles):
    """The URL of a file changes with its content, so browsers may keep it."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return answer


def build_app(web: Web, *, hosts: tuple[str, ...], port: int) -> Starlette:
    async def not_found(request: Request, error: Exception) -> Response:
        del error
        return errors.refusal(request, 404, "There is no such page.")

    async def wrong_method(request: Request, error: Exception) -> Response:
        del error
        return errors.refusal(request, 405, "This page does not take that method.")

    app = Starlette(
        routes=[
            Route("/sign-in", sign_in, methods=["GET", "POST"]),
            Route("/sign-out", sign_out, methods=["POST"]),
            Mount("/static", _Files(directory=FOLDER / "static")),
            *(
                _guarded(route, 2 * (AUDIT_SECONDS if route in LONG else SECONDS))
                for routes in PAGES
                for route in routes
            ),
        ],
        middleware=[Middleware(Gate, guard=web.guard, hosts=hosts, port=port)],
        exception_handlers={404: not_found, 405: wrong_method},
    )
    app.state.web, app.state.port = web, port
    return app


def _guarded(route: Route, seconds: float) -> Route:
    """The same route with three guards: it changes nothing without --edit, answers within `seconds`, and shows errors as pages.

    (Starlette's own handler of Exception raises them again, into the log.)
    """
    endpoint: _Endpoint = route.endpoint

    async def answer(request: Request) -> Response:
        try:
            if request.method not in SAFE and endpoint not in ONLY_LOOK:
                must_edit(web_of(request))
            return await _in_time(_with_its_form(route, request), seconds)
        except Exception as error:  # noqa: BLE001 - nothing outside could tell the reader
            return errors.answer_error(request, error, web_of(request).log)

    return Route(route.path, answer, methods=list(route.methods or ()), name=route.name)


async def _with_its_form(route: Route, request: Request) -> Response:
    """The answer. For a bad value: the page as if nothing was asked or sent, its form as it was sent, with the fault."""
    endpoint: _Endpoint = route.endpoint
    asks, path = endpoint is addresses.ask, addresses.page_asked(request)
    form = FORMS.get(path, path)
    shown = SHOWN.get(form if asks or form != path else route.path)
    if asks and shown is None:
        raise errors.NotThereError
    try:
        request = addresses.with_texts(request)
        return await endpoint(await names.with_user(request))
    except errors.ChangedMeanwhileError:
        request.state.changed = True
        return await SHOWN[route.path](request)
    except errors.REFUSED as error:
        sent, field = request.method not in SAFE, getattr(error, "field", None)
        if shown is None or (field is None and not sent):
            raise
        asked = request.state.form if sent else request.query_params
        like = getattr(error, "like", ()) if asks or not sent else ()
        request.state.fault = Fault(
            path, addresses.without_marks(asked), field or "", errors.sentence_of(error), like
        )
        scope = {**request.scope, "method": "GET", "path": form, "query_string": b""}
        with suppress(BadValueError, errors.NotThereError):
            again = await shown(Request(scope, request.receive))
            if again.status_code == 400:  # else it is no page
                return again
        request.state.fault = None
        raise


async def _in_time(answering: Coroutine[Any, Any, Response], seconds: float) -> Response:
    """The answer. Raises TimeoutError: a database that hangs does not end its statements in time."""
    work = asyncio.create_task(answering)
    # An abandoned request ends when the database answers again; its result is not read.
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        done, _ = await asyncio.wait((work,), timeout=seconds)
        if not done:
            raise TimeoutError
        return work.result()
    finally:
        work.cancel()


async def sign_in(request: Request) -> Response:
    """The form, and the answer to it and to the link that the command prints."""
    web, port = web_of(request), request.app.state.port
    given = request.state.form if request.method == "POST" else request.query_params
    secret, then = given.get(web.guard.kind), _within(given.get("next", ""))
    # Any site can make a browser load an address: a link signs in only where no site sent it, and never with a password.
    in_link = request.method != "POST" and (web.guard.kind != "token" or is_from_elsewhere(request))
    if not secret or in_link:
        return page(request, "sign_in.html", kind=web.guard.kind, then=then, wrong=None)
    # A wrong link does not count as a guess: nobody guesses 32 random bytes.
    cookie = web.guard.begin(secret, counts=request.method == "POST")
    if cookie is None:
        closed = web.guard.is_closed()
        web.log.warning("web_sign_in_refused", closed=closed)
        return page(
            request,
            "sign_in.html",
            status=429 if closed else 401,
            kind=web.guard.kind,
            then=then,
            wrong="closed" if closed else "wrong",
        )
    web.log.info("web_signed_in")
    # A page, not a redirect: after a link from another program a browser sends a strict cookie only with the next request.
    answer = page(request, "signed_in.html", then=then)
    answer.set_cookie(
        cookie_name(port),
        cookie,
        path="/",
        httponly=True,
        samesite="strict",
        secure="https"
        in (request.url.scheme, *request.headers.get("x-forwarded-proto", "").replace(" ", "").split(",")),
    )
    return answer


async def sign_out(request: Request) -> Response:
    name = cookie_name(request.app.state.port)
    web_of(request).guard.end(request.cookies.get(name))
    answer = Response(status_code=303, headers={"Location": "/sign-in"})
    answer.delete_cookie(name, path="/")
    return answer


def _within(path: str) -> str:
    """A path of this server; / for an address that could lead elsewhere."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain and "\\" not in path else "/"
