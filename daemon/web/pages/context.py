"""Context: what an agent would be given for a task, line by line, and why.

Promise: to look writes nothing but that somebody has looked. The block is made as for the agent, and what that logs is undone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.web.asking import compared_by
from daemon.web.forms import text_in, whole_in
from daemon.web.found import link_of, parents_of
from daemon.web.pages.knowledge_edits import in_organisation
from daemon.web.pages.recall_options import LONGEST, organisation_in, user_in
from daemon.web.render import page
from daemon.web.viewer import on_behalf, shown
from daemon.web.web import viewer_of, web_of
from handlers.shared.ports import AnyConnection

WORDS = 500
# As build_context() and explain_context(), with an embedding of a remote embedder. $5: only what the user may read.
COMPOSE = """
select (memoryd.compose($1, $2, $3, $5, coalesce($6, memoryd.vector_of_question($2)), null,
                        memoryd.conditions_of($4::jsonb))).block
"""
EXPLAIN = """
select e.step, e.source, e.id, e.score, e.trust, e.shown, e.detail
from memoryd.explain_lines($1, $2, $3, $5, coalesce($6, memoryd.vector_of_question($2)),
                           memoryd.conditions_of($4::jsonb)) e
"""
ON_RECORD = "select memoryd.audit_read($1, $2, 'context', $3, $4)"
IS_KNOWN = "select exists (select from public.agents a where a.agent_id = $1)"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the block; or one that was left out, and `why`. `found`: what it was made of, None of what frames them."""

    text: str
    found: Any = None
    link: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A context, and why it is so. `skipped`: why nothing was searched; `known`: whether there is such an agent."""

    block: str
    lines: list[Line]
    left_out: list[Line]
    patterns: list[tuple[str, str]]
    """Names of patterns, and the words that show each."""
    searched: list[Any]
    skipped: str | None
    known: bool


async def asking(request: Request) -> Response:
    """The form, and what an agent would be given."""
    asked, viewer = request.query_params, viewer_of(request)
    agent, message = text_in(asked, "agent", longest=200), text_in(asked, "message", longest=LONGEST)
    user = user_in(asked, viewer)
    words = whole_in(asked, "words", WORDS, least=100, most=10_000)
    options: dict[str, object] = {"words": words} if asked.get("words", "").strip() else {}
    if (project := text_in(asked, "project", longest=200)) is not None:
        options["project"] = project
    made, by_words = None, False
    if agent is not None and message is not None:
        by = await compared_by(request, message)
        by_words = by.by_words
        made = await _made(
            request,
            agent,
            organisation_in(asked, viewer),
            (agent, message, user, json.dumps(options), viewer.user is not None, by.embedding),
        )
    return page(
        request, "context/page.html", asked=asked, made=made, by_words=by_words, agent=agent, message=message
    )


async def _made(request: Request, agent: str, org: UUID | None, arguments: tuple[Any, ...]) -> Made:
    """The block and its lines; `arguments`: of COMPOSE and EXPLAIN."""
    web, viewer, user = web_of(request), viewer_of(request), arguments[2]
    began = time.monotonic()
    async with on_behalf(web.database, viewer, "agent_commands", "select", user=user) as connection:
        await in_organisation(connection, org)
        block = await _composed(connection, arguments)
        rows = await connection.fetch(EXPLAIN, *arguments)
        parents = await parents_of(connection, rows)
        known = True
        if viewer.user is None:
            known = await connection.fetchval(IS_KNOWN, agent)
        else:
            ms = round((time.monotonic() - began) * 1000)
            await connection.execute(ON_RECORD, viewer.user, agent, len(rows), ms)
        await shown(
            connection, viewer, "agent_commands", [row["id"] for row in rows if row["id"] is not None]
        )
    links = {row["id"]: link_of(row["source"], row["id"], parents) for row in rows if row["id"] is not None}
    return made_of(block, rows, links, known=known)


async def _composed(connection: AnyConnection, arguments: tuple[Any, ...]) -> str:
    """The block, as if it was never asked for: no retrieval is logged, so none counts as use."""
    looked = connection.transaction()
    await looked.start()
    try:
        block: str = await connection.fetchval(COMPOSE, *arguments)
    finally:
        await looked.rollback()
    return block


def made_of(block: str, rows: Sequence[Any], links: Mapping[UUID, str | None], *, known: bool) -> Made:
    """The lines of a block, each with the row of explain_context() that says the same."""
    shown = {row["detail"]: row for row in rows if row["step"] == "found" and row["shown"]}
    lines = []
    for text in block.split("\n") if block else ():
        found = shown.get(text)
        lines.append(Line(text, found, None if found is None else links[found["id"]]))
    left_out = []
    for row in rows:
        if row["step"] == "found" and not row["shown"]:
            why, _, text = row["detail"].removeprefix("left out, ").partition(": ")
            left_out.append(Line(text, row, links[row["id"]], why))
    patterns = [row["detail"].partition(": ") for row in rows if row["step"] == "pattern"]
    return Made(
        block=block,
        lines=lines,
        left_out=left_out,
        patterns=[(name, words) for name, _, words in patterns],
        searched=[row for row in rows if row["step"] == "search"],
        skipped=next((row["detail"] for row in rows if row["step"] == "skipped"), None),
        known=known,
    )


routes: list[Route] = [Route("/context", asking)]
