"""Recall: a question, why each result is where it is, and how it would be with other options.

Promise: to look is no use: explain_recall() logs no retrieval.
"""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.db.search_options import ROLES
from daemon.web.asking import Compared, compared_by
from daemon.web.found import SOURCES, parents_of
from daemon.web.pages.knowledge_edits import in_organisation
from daemon.web.pages.recall_options import COUNT, MOST, OPTIONS, OTHER, Question, question_in
from daemon.web.pages.recall_shown import PARTS, Found, compared, found_of, highest
from daemon.web.render import page
from daemon.web.viewer import Viewer, reading
from daemon.web.web import viewer_of, web_of
from handlers.shared.ports import AnyConnection

# explain_recall(), with what it does not return: the metadata and the time of each row.
EXPLAIN = """
select s.source, s.id, left(s.content, 600) as content, s.metadata, s.created_at, s.score, s.lexical, s.dense, s.prior,
       s.named, s.timed, s.session, s.relevance, s.weight, s.recency, s.association, s.left_out
from memoryd.search(memoryd.recall_request('explain_recall', $1, $2, $3, $7, $4, $5, '{}', $6::jsonb)) s
"""
# A search of support's is put on record by the policies, and by each row.
ON_RECORD = "select memoryd.audit_read($1, $2, 'explain_recall', $3, $4)"


async def asking(request: Request) -> Response:
    """The form, and what is found."""
    asked = request.query_params
    question = question_in(asked, viewer_of(request))
    found, by_words = None, False
    if question is not None:
        by = await compared_by(request, question.text)
        found, by_words = await _find(request, question, by), by.by_words
    return page(
        request,
        "recall/page.html",
        asked=asked,
        question=question,
        found=found,
        by_words=by_words,
        sources=SOURCES,
        options=OPTIONS,
        roles=ROLES,
        parts=PARTS,
        sides=("", OTHER),
        default_count=COUNT,
        most=MOST,
    )


async def _find(request: Request, question: Question, by: Compared) -> list[Found]:
    """What each setting finds."""
    web, viewer = web_of(request), viewer_of(request)
    async with reading(web.database, viewer) as connection:
        await in_organisation(connection, question.org)
        rows = {side: await _search(connection, viewer, question, side, by) for side in question.settings}
        parents = await parents_of(connection, [row for found in rows.values() for row in found])
    most = highest([row for found in rows.values() for row in found])
    answers = [found_of(rows[side], options, parents, most) for side, options in question.settings.items()]
    return list(compared(*answers)) if len(answers) == 2 else answers


async def _search(
    connection: AnyConnection, viewer: Viewer, question: Question, side: str, by: Compared
) -> list[Any]:
    began = time.monotonic()
    rows: list[Any] = await connection.fetch(EXPLAIN, *question.arguments(side), by.embedding)
    if viewer.user is not None:
        ms = round((time.monotonic() - began) * 1000)
        await connection.execute(ON_RECORD, viewer.user, question.agent, len(rows), ms)
    return rows


routes: list[Route] = [Route("/recall", asking)]
