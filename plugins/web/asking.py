"""What pages share that ask a question: what was asked last, which they offer, so that one click shows what they do; and the
embedding of a question, or the decision to search by words only.

Promise: no model is loaded here. With the local embedder the database embeds the question itself. A remote embedder is called
outside a transaction, and for as long as a context would wait. With any other embedder the question is searched by its words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
from starlette.requests import Request

from daemon.db.settings import Model, read_models
from handlers.shared.embedding import Embedding
from plugins.web.viewer import Viewer, by_indexes, ids_found, reading
from plugins.web.web import Web, viewer_of, web_of
from providers.build import build_embedder

if TYPE_CHECKING:
    from pgvector import Vector

    from daemon.settings import Settings
    from providers.ports import Embedder

REMOTE = "openai/"
LONGEST_EMBEDDED = 8192
"""Characters of a question that are embedded; the same limit as in the database."""
HERE = "select memoryd.embeds_here() or memoryd.asks_nothing($1)"

OFFERED, AMONG = 3, 50
"""Questions that are offered, and the newest rows of each table among which they are."""
LONGEST_OFFERED = 300
# Those of no user come first: of people no more is read than must be.
OF_ALL = f"""
select r.id from (
    (select c.id, c.user_id, c.created_at from public.agent_commands c order by c.created_at desc limit {AMONG})
    union all
    (select m.id, coalesce(m.user_id, s.user_id), m.created_at
     from (select * from public.conversation_messages n order by n.created_at desc limit {AMONG}) m
     join public.conversation_sessions s on s.id = m.session_id
     where m.role = 'user' and coalesce(m.agent_id, s.agent_id) is not null)) r
order by r.user_id is not null, r.created_at desc limit {OFFERED}
"""  # noqa: S608 - numbers of ours
OF_USER = f"""
select m.id from (select * from public.conversation_messages n where n.user_id = $1 order by n.created_at desc limit {AMONG}) m
where m.role = 'user' order by m.created_at desc limit {OFFERED}
"""  # noqa: S608
QUESTIONS = f"""
select c.agent_id as agent, c.user_id as "user", left(c.message, {LONGEST_OFFERED}) as text, c.created_at
from public.agent_commands c where c.id = any($1::uuid[])
union all
select coalesce(m.agent_id, s.agent_id), coalesce(m.user_id, s.user_id), left(m.content, {LONGEST_OFFERED}), m.created_at
from public.conversation_messages m join public.conversation_sessions s on s.id = m.session_id
where m.id = any($1::uuid[])
order by created_at desc
"""  # noqa: S608


async def latest_of(web: Web, viewer: Viewer) -> list[Any]:
    """The latest questions: `text`, `agent`, `user` and `created_at` of each, the newest first."""
    async with reading(web.database, viewer) as connection, by_indexes(connection):
        of = (OF_ALL,) if viewer.user is None else (OF_USER, viewer.user)
        found: list[Any] = await connection.fetch(QUESTIONS, await ids_found(connection, viewer, *of))
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """`embedding`: None where the database makes it. `by_words`: nobody makes it, and the search is by words."""

    embedding: Vector | None = None
    by_words: bool = False


async def comparison_for(request: Request, text: str) -> Comparison:
    """How a question of the viewer is compared with the stored rows."""
    web = web_of(request)
    async with reading(web.database, viewer_of(request)) as connection:
        if await connection.fetchval(HERE, text):
            return Comparison()
    try:
        async with web.database.connection() as connection:
            model = (await read_models(connection)).used
        if model is None or not model.embedder.startswith(REMOTE):
            return Comparison(by_words=True)
        embedder = _embedder(request, web.settings, model)
        found = await Embedding(embedder, web.database).if_possible({0: text[:LONGEST_EMBEDDED]}, asked=True)
    except (ValueError, asyncpg.InsufficientPrivilegeError):
        # The settings lack the embedder's key or URL, or the login may not read the name of the model.
        return Comparison(by_words=True)
    return Comparison(found.get(0), 0 not in found)


def _embedder(request: Request, settings: Settings, model: Model) -> Embedder:
    """One embedder for the server: its circuit breaker works across pages. A new one after a reembed."""
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
