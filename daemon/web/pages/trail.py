"""Trail: anchors and their proofs."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
