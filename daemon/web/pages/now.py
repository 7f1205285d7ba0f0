"""Now: how memoryd does."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
