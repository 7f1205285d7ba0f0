"""Graph: memories and the links between them."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
