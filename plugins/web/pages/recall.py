"""Recall: a question, the reasons for the rank of each result, and the ranks with other options.

Promise: reading this page does not count as use of a memory: explain_recall() logs no retrieval.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.db.migration_files import ROLES
from handlers.shared.ports import AnyConnection
from plugins.web.asking import Comparison, comparison_for, latest_of
from plugins.web.found import SOURCES, parents_of
from plugins.web.names import NO_SUCH_USER, nobody_in
from plugins.web.pages.knowledge_edits import in_organisation
from plugins.web.pages.recall_options import COUNT, MOST, OPTIONS, OTHER, Question, question_in
from plugins.web.pages.recall_shown import PARTS, Results, compared, results_of, scale_of
from plugins.web.pages.told import Told, told_of
from plugins.web.render import page
from plugins.web.viewer import Viewer, reading
from plugins.web.web import viewer_of, web_of

# explain_recall(), and for each row its metadata and time, which it does not return.
EXPLAIN = """
select s.source, s.id, left(s.content, 600) as content, s.metadata, s.created_at, s.score, s.lexical, s.dense, s.prior,
       s.named, s.timed, s.session, s.relevance, s.weight, s.recency, s.association, s.left_out,
       s.shares
from memoryd.search(memoryd.recall_request('explain_recall', $1, $2, $3, $7, $4, $5, '{}', $6::jsonb)) s
"""
# The policies record each row that a search of support reads.
ON_RECORD = "select memoryd.audit_read($1, $2, 'explain_recall', $3, $4)"


async def asking(request: Request) -> Response:
    asked = request.query_params
    question = question_in(asked, viewer_of(request))
    found, by_words = None, False
    said: dict[str, Any] = {"nobody": await nobody_in(request), "told_by": {}}
    if any(one.sentence == NO_SUCH_USER for one in said["nobody"]):
        question = None
    elif question is None:
        said["latest"] = await latest_of(web_of(request), viewer_of(request))
    else:
        by = await comparison_for(request, question.text)
        found, said["told_by"] = await _find(request, question, by)
        by_words = by.by_words
    return page(
        request,
        "recall/page.html",
        question=question,
        found=found,
        by_words=by_words,
        **said,
        sources=SOURCES,
        options=OPTIONS,
        roles=ROLES,
        parts=PARTS,
        sides=("", OTHER),
        default_count=COUNT,
        most=MOST,
    )


async def _find(
    request: Request, question: Question, by: Comparison
) -> tuple[list[Results], Mapping[UUID, Told]]:
    """The results of each setting, and who told the memories in them."""
    web, viewer = web_of(request), viewer_of(request)
    async with reading(web.database, viewer) as connection:
        await in_organisation(connection, question.org)
        rows = {side: await _search(connection, viewer, question, side, by) for side in question.settings}
        every = [row for found in rows.values() for row in found]
        parents = await parents_of(connection, every)
        told = await told_of(connection, viewer, {row["id"] for row in every if row["source"] == "memory"})
    scale = scale_of(every)
    answers = [results_of(question.text, rows[side], parents, scale) for side in question.settings]
    return (list(compared(*answers)) if len(answers) == 2 else answers), told


async def _search(
    connection: AnyConnection, viewer: Viewer, question: Question, side: str, by: Comparison
) -> list[Any]:
    began = time.monotonic()
    rows: list[Any] = await connection.fetch(EXPLAIN, *question.arguments(side), by.embedding)
    if viewer.user is not None:
        ms = round((time.monotonic() - began) * 1000)
        await connection.execute(ON_RECORD, viewer.user, question.agent, len(rows), ms)
    return rows


routes: list[Route] = [Route("/recall", asking)]
