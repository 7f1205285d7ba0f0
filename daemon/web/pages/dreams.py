"""Dreams: what was read, and what was concluded."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
