"""Conversations, with the facts that were found in them."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
