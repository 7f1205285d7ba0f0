"""Context: what an agent would be given for a task, line by line."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
