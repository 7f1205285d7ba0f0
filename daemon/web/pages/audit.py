"""Audit: what is wrong with what is remembered, and its repair."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
