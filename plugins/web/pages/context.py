"""Context: the context that an agent would get for a task, line by line, with the reason of each line.

Promise: the page writes nothing but the record of the read. The block is built as for the agent; the retrieval is rolled back.
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

from handlers.shared.ports import AnyConnection
from plugins.web.asking import comparison_for, latest_of
from plugins.web.forms import text_in, time_in, whole_in
from plugins.web.found import link_of, parents_of
from plugins.web.names import NO_SUCH_USER, agent_of, nobody_in
from plugins.web.pages.knowledge_edits import in_organisation
from plugins.web.pages.recall_options import LONGEST, organisation_in, user_in
from plugins.web.pages.recall_shown import PARTS, Result, results_of, scale_of
from plugins.web.pages.told import Told, told_of
from plugins.web.render import page
from plugins.web.viewer import on_behalf, reading, shown
from plugins.web.web import viewer_of, web_of

WORDS = 500
# As build_context() and explain_context(), with the embedding of a remote embedder. $5: only rows that the user may read.
COMPOSE = """
select (memoryd.compose($1, $2, $3, $5, coalesce($6, memoryd.vector_of_question($2)), null,
                        memoryd.conditions_of($4::jsonb))).block
"""
EXPLAIN = """
select e.step, e.source, e.id, e.score, e.trust, e.shown, e.detail
from memoryd.explain_lines($1, $2, $3, $5, coalesce($6, memoryd.vector_of_question($2)),
                           memoryd.conditions_of($4::jsonb)) e
"""
# The parts of the scores of rows $7, as the context asked: of the user, then of nobody.
PARTS_OF = """
select distinct on (s.source, s.id) s.source, s.id, s.metadata, s.score, s.lexical, s.dense, s.prior, s.named, s.timed,
       s.session, s.relevance, s.weight, s.recency, s.association, s.shares, s.left_out
from (select $3::uuid as id where $3 is not null union all select null where not $5) u
cross join lateral memoryd.search(memoryd.context_request(
    $1, $2, u.id, memoryd.comparable(coalesce($6, memoryd.vector_of_question($2))),
    memoryd.conditions_of($4::jsonb), true)) s
where s.id = any($7::uuid[])
order by s.source, s.id, s.left_out is null desc, s.score desc
"""
ON_RECORD = "select memoryd.audit_read($1, $2, 'context', $3, $4)"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the block, or a line that was left out, and `why`. `found`: its row; None for a line of the frame."""

    text: str
    found: Any = None
    link: str | None = None
    why: str | None = None
    result: Result | None = None
    """The parts of its score; None where its text was not compared with the message."""
    told: Told | None = None
    """Who told it, of a memory."""


@dataclass(frozen=True, slots=True)
class ExplainedBlock:
    """A context with the reason of each line. `skipped`: why nothing was searched."""

    block: str
    lines: list[Line]
    left_out: list[Line]
    patterns: list[tuple[str, str]]
    """Names of patterns, and the words that matched each."""
    searched: list[Any]
    skipped: str | None


async def asking(request: Request) -> Response:
    asked, viewer = request.query_params, viewer_of(request)
    agent, message = text_in(asked, "agent", longest=200), text_in(asked, "message", longest=LONGEST)
    user = user_in(asked, viewer)
    words = whole_in(asked, "words", WORDS, least=100, most=10_000)
    options: dict[str, object] = {"words": words} if asked.get("words", "").strip() else {}
    if (project := text_in(asked, "project", longest=200)) is not None:
        options["project"] = project
    if (as_of := time_in(asked, "as_of", end=True)) is not None:
        options["as_of"] = options["asked_at"] = as_of.isoformat()
    made, by_words, latest, nobody = None, False, [], await nobody_in(request)
    if agent is None and user is not None:
        async with reading(web_of(request).database, viewer) as connection:
            agent = await agent_of(connection, viewer, user)
    if message is None and "agent" not in asked:
        latest = await latest_of(web_of(request), viewer)
    elif (
        message is not None and agent is not None and not any(one.sentence == NO_SUCH_USER for one in nobody)
    ):
        by = await comparison_for(request, message)
        by_words = by.by_words
        made = await _explained(
            request,
            agent,
            organisation_in(asked, viewer),
            (agent, message, user, json.dumps(options), viewer.user is not None, by.embedding),
        )
    return page(
        request,
        "context/page.html",
        made=made,
        latest=latest,
        nobody=nobody,
        by_words=by_words,
        agent=agent,
        message=message,
        as_of=as_of,
        parts=PARTS,
    )


async def _explained(
    request: Request, agent: str, org: UUID | None, arguments: tuple[Any, ...]
) -> ExplainedBlock:
    """The block and its lines; `arguments`: of COMPOSE and EXPLAIN."""
    web, viewer, user = web_of(request), viewer_of(request), arguments[2]
    began = time.monotonic()
    async with on_behalf(web.database, viewer, "context", "select", user=user) as connection:
        await in_organisation(connection, org)
        block = await _compose(connection, arguments)
        rows = await connection.fetch(EXPLAIN, *arguments)
        ids = [row["id"] for row in rows if row["id"] is not None]
        compared = await connection.fetch(PARTS_OF, *arguments, ids)
        parents = await parents_of(connection, rows)
        told = await told_of(connection, None, ids)
        if viewer.user is not None:
            ms = round((time.monotonic() - began) * 1000)
            await connection.execute(ON_RECORD, viewer.user, agent, len(rows), ms)
        await shown(connection, viewer, "context", ids)
    links = {row["id"]: link_of(row["source"], row["id"], parents) for row in rows if row["id"] is not None}
    made = results_of(arguments[1], compared, parents, scale_of(compared))
    results = {each.row["id"]: each for each in (*made.results, *made.left_out)}
    return explained_of(block, rows, links, results, told)


async def _compose(connection: AnyConnection, arguments: tuple[Any, ...]) -> str:
    """The block without its log of retrievals: reading this page does not count as use of a memory."""
    looked = connection.transaction()
    await looked.start()
    try:
        block: str = await connection.fetchval(COMPOSE, *arguments)
    finally:
        await looked.rollback()
    return block


def explained_of(
    block: str,
    rows: Sequence[Any],
    links: Mapping[UUID, str | None],
    results: Mapping[UUID, Result],
    told: Mapping[UUID, Told],
) -> ExplainedBlock:
    """The lines of a block, each with its row of explain_context(), and the parts of its score."""

    def line(text: str, row: Any, why: str | None = None) -> Line:
        return Line(text, row, links[row["id"]], why, results.get(row["id"]), told.get(row["id"]))

    shown = {row["detail"]: row for row in rows if row["step"] == "found" and row["shown"]}
    left_out = []
    for row in rows:
        if row["step"] == "found" and not row["shown"]:
            why, _, text = row["detail"].removeprefix("left out, ").partition(": ")
            left_out.append(line(text, row, why))
    patterns = [row["detail"].partition(": ") for row in rows if row["step"] == "pattern"]
    return ExplainedBlock(
        block=block,
        lines=[
            line(text, shown[text]) if text in shown else Line(text)
            for text in filter(None, block.split("\n"))
        ],
        left_out=left_out,
        patterns=[(name, words) for name, _, words in patterns],
        searched=[row for row in rows if row["step"] == "search"],
        skipped=next((row["detail"] for row in rows if row["step"] == "skipped"), None),
    )


routes: list[Route] = [Route("/context", asking)]
