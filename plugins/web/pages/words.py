"""Words: what the words of these pages mean."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from plugins.web.render import page


async def listing(request: Request) -> Response:
    """All of the glossary."""
    return page(request, "words.html")


routes: list[Route] = [Route("/words", listing)]
