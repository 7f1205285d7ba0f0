"""What a question is compared by: its embedding, where somebody else than this process can make it.

Promise: no model is loaded here. With the local embedder the database embeds the question itself; a remote one is asked, with
no transaction open, and not for longer than a context would wait. With any other a question is compared by its words only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg
from starlette.requests import Request

from daemon.db.models import Model, read_models
from daemon.web.viewer import reading
from daemon.web.web import viewer_of, web_of
from handlers.shared.embedding import Embedding
from providers.build import build_embedder

if TYPE_CHECKING:
    from pgvector import Vector

    from daemon.settings import Settings
    from providers.ports import Embedder

REMOTE = "openai/"
LONGEST_EMBEDDED = 8192
"""Characters of a question that are embedded, as in the database."""
HERE = "select memoryd.embeds_here() or memoryd.asks_nothing($1)"


@dataclass(frozen=True, slots=True)
class Compared:
    """`embedding`: None where the database makes it, or nobody does, which `by_words` says."""

    embedding: Vector | None = None
    by_words: bool = False


async def compared_by(request: Request, text: str) -> Compared:
    """What a question of the viewer's is compared by."""
    web = web_of(request)
    async with reading(web.database, viewer_of(request)) as connection:
        if await connection.fetchval(HERE, text):
            return Compared()
    try:
        async with web.database.connection() as connection:
            model = (await read_models(connection)).used
        if model is None or not model.embedder.startswith(REMOTE):
            return Compared(by_words=True)
        embedder = _embedder(request, web.settings, model)
        found = await Embedding(embedder, web.database).if_possible({0: text[:LONGEST_EMBEDDED]}, asked=True)
    except (ValueError, asyncpg.InsufficientPrivilegeError):
        # Settings that lack the embedder's key or URL, or a login that may not read which model it is.
        return Compared(by_words=True)
    return Compared(found.get(0), 0 not in found)


def _embedder(request: Request, settings: Settings, model: Model) -> Embedder:
    """One for the server, so that its circuit knows from one page to the next that it is down; another after a reembed."""
    kept: tuple[Model, Embedder] | None = getattr(request.app.state, "embedder", None)
    if kept is not None and kept[0] == model:
        return kept[1]
    key = settings.openai_api_key
    made = build_embedder(
        model.embedder,
        dimensions=model.dimensions,
        base_url=settings.openai_base_url,
        api_key=None if key is None else key.get_secret_value(),
        timeout_seconds=settings.provider_timeout_seconds,
        told=(model.instructions.query, model.instructions.document),
    )
    request.app.state.embedder = (model, made)
    return made
