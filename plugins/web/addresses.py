"""Addresses of pages. Histories and logs keep them, so what somebody typed about people is in none.

Promise: forms that look for something are sent by POST, and lead to an address with the id of whom they name
(plugins/web/names.py) and a mark for each text. The session knows the texts of its marks. Addresses with texts are read, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from plugins.web.forms import BadValueError

TYPED = {
    "/users": ("q",), "/context": ("message",), "/conversations": ("words",), "/documents": ("words",),
    "/memories": ("source",), "/recall": ("q", "speakers", "other_speakers"), "/knowledge": ("by",),
}  # fmt: skip
"""Fields with a text, by the page that reads them."""
ASK = "/ask/"
"""Before the path of a page: where its form is sent."""
MARK = re.compile(r"~[0-9a-f]{16}")
LONGEST = 10_000
"""Characters of a text, and of what else an address has."""
MOST = 2000
"""Texts that a session keeps of what was typed, and as many of links: the newest."""
FORGOTTEN = "What was typed here is no longer known: type it again."


def address_of(request: Request, path: str, values: Mapping[str, object]) -> str:
    """The address of a page with these values, without the empty ones. Raises BadValueError: a text is too long."""
    pairs = values.multi_items() if isinstance(values, QueryParams) else list(values.items())
    typed = TYPED.get(path, ())
    kept = [(name, _mark(request, name, str(value)) if name in typed else value)
            for name, value in pairs if value not in (None, "")]  # fmt: skip
    return path + (f"?{urlencode(kept)}" if kept else "")


async def ask(request: Request) -> Response:
    """Leads from what a form asks of a page to its address."""
    asked = [(name, value) for name, value in request.state.form.multi_items() if name != "csrf"]
    address = address_of(request, page_asked(request), QueryParams(asked))
    if len(address) > LONGEST:
        raise BadValueError(f"This asks with {len(address)} characters; {LONGEST} are possible.")
    return RedirectResponse(address, status_code=303)


def page_asked(request: Request) -> str:
    """The path of the page of whose form this is."""
    return f"/{request.path_params['page']}" if request.url.path.startswith(ASK) else request.url.path


def with_texts(request: Request) -> Request:
    """The request with the texts of its marks. Raises BadValueError where a text is not known."""
    typed, asked = TYPED.get(request.url.path, ()), request.query_params.multi_items()
    if not any(name in typed and MARK.fullmatch(value) for name, value in asked):
        return request
    read = urlencode(
        [(name, _text(request, name, value) if name in typed else value) for name, value in asked]
    )
    return Request({**request.scope, "query_string": read.encode()}, request.receive)


def without_marks(asked: QueryParams) -> QueryParams:
    """What was asked, without the marks whose texts are not known."""
    return QueryParams([(name, value) for name, value in asked.multi_items() if not MARK.fullmatch(value)])


def _texts(request: Request, kind: str) -> dict[str, str]:
    texts = request.state.session.kept.setdefault(kind, {})
    assert isinstance(texts, dict)
    return texts


def _mark(request: Request, name: str, text: str) -> str:
    if len(text) > LONGEST:
        raise BadValueError(f"{name} has {len(text)} characters; {LONGEST} are possible.", field=name)
    # A page may have many links with texts: they push out nothing that somebody typed.
    texts = _texts(request, "typed" if request.url.path.startswith(ASK) else "linked")
    mark = f"~{blake2b(text.encode(), key=request.state.session.csrf.encode(), digest_size=8).hexdigest()}"
    texts.pop(mark, None)
    texts[mark] = text
    for oldest in list(texts)[:-MOST]:
        del texts[oldest]
    return mark


def _text(request: Request, name: str, value: str) -> str:
    if not MARK.fullmatch(value):
        return value
    for kind in ("typed", "linked"):
        if (text := _texts(request, kind).get(value)) is not None:
            return text
    raise BadValueError(FORGOTTEN, field=name)


routes: list[Route] = [Route(ASK + "{page:path}", ask, methods=["POST"])]
