"""Recall: a question, and why each result is where it is."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
