"""Recall: a question, why each result is where it is, and how it would be with other options.

Promise: to look is no use: explain_recall() logs no retrieval. Only who judges one has it logged, with the judgement, and the
same one is judged once, also by who presses twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import replace
from typing import Any
from uuid import UUID

import asyncpg
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from daemon.web.asking import Compared, compared_by
from daemon.web.errors import ChangedMeanwhileError
from daemon.web.forms import BadValueError
from daemon.web.found import SOURCES, parents_of
from daemon.web.pages.knowledge_edits import in_organisation
from daemon.web.pages.recall_options import COUNT, MOST, OTHER, ROLES, Question, question_in
from daemon.web.pages.recall_shown import PARTS, Found, compared, found_of, highest
from daemon.web.render import page
from daemon.web.viewer import Viewer, on_behalf, reading
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
RECALL = "select count(*) from public.recall($1, $2, $3, $7, $4, $5, '{}', $6::jsonb)"
LAST = "select public.last_recall()"
JUDGE = "select public.mark_useful($1::uuid, $2::boolean)"
JUDGEMENTS = {"useful": True, "useless": False}
MOST_KEPT = 500
"""Judgements of a session that can be changed: of older ones a new row is written."""


async def asking(request: Request) -> Response:
    """The form, and what is found."""
    return await _shown(request, request.query_params, status=200)


async def _shown(request: Request, asked: QueryParams, *, status: int) -> Response:
    question = question_in(asked, viewer_of(request))
    found, by_words = None, False
    if question is not None:
        by = await compared_by(request, question.text)
        found, by_words = await _find(request, question, by), by.by_words
    return page(
        request,
        "recall/page.html",
        status=status,
        asked=asked,
        question=question,
        found=found,
        by_words=by_words,
        sources=SOURCES,
        roles=ROLES,
        parts=PARTS,
        sides=("", OTHER),
        default_count=COUNT,
        most=MOST,
        can_judge=question is not None and (question.agent is not None or question.user is not None),
    )


async def _find(request: Request, question: Question, by: Compared) -> list[Found]:
    """What each setting finds."""
    web, viewer = web_of(request), viewer_of(request)
    async with reading(web.database, viewer) as connection:
        await in_organisation(connection, question.org)
        rows = {side: await _search(connection, viewer, question, side, by) for side in question.settings}
        parents = await parents_of(connection, [row for found in rows.values() for row in found])
    most = highest([row for found in rows.values() for row in found])
    judged = _judged(request)
    answers = []
    for side, options in question.settings.items():
        found = found_of(side, rows[side], options, parents, most)
        seen = _seen(question, side, found)
        kept = judged.get(seen)
        answers.append(replace(found, seen=seen, judged=None if kept is None else kept[1]))
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


def _seen(question: Question, side: str, found: Found) -> str:
    """Names a question with its options and what was found: the same one is not judged twice."""
    ids = [str(result.row["id"]) for result in found.results]
    return hashlib.sha256(
        repr((question.arguments(side), question.org, ids)).encode("utf-8", "replace")
    ).hexdigest()


def _judged(request: Request) -> dict[str, tuple[UUID, bool]]:
    """What this session has judged: the row of memory_queries, and how, by what was seen."""
    kept = request.state.session.kept.setdefault("judged", {})
    assert isinstance(kept, dict)
    return kept


def _lock(request: Request) -> asyncio.Lock:
    """Of this session's judgements."""
    lock = request.state.session.kept.setdefault("judging", asyncio.Lock())
    assert isinstance(lock, asyncio.Lock)
    return lock


async def judge(request: Request) -> Response:
    """Stores whether what was found is useful, if it is still what was shown."""
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    asked, side = QueryParams(form.get("asked", "")), form.get("side", "")
    question = question_in(asked, viewer)
    if question is None or side not in question.settings or form.get("do") not in JUDGEMENTS:
        raise BadValueError("There is nothing to judge: ask a question first.")
    if question.agent is None and question.user is None:
        raise BadValueError("A judgement counts for an agent or a user: ask for one of them.")
    useful = JUDGEMENTS[form["do"]]
    by = await compared_by(request, question.text)
    try:
        # One after the other: of two that are sent at once, the second is told what the first has stored.
        async with _lock(request):
            now = next(found for found in await _find(request, question, by) if found.side == side)
            await _judge(request, question, now, by, useful=useful)
    except ChangedMeanwhileError:
        return await _shown(request, asked, status=409)
    web.log.info("web_recall_judged", useful=useful, results=len(now.results))
    return RedirectResponse(f"/recall?{asked}", status_code=303)


async def _judge(request: Request, question: Question, now: Found, by: Compared, *, useful: bool) -> None:
    web, viewer, form = web_of(request), viewer_of(request), request.state.form
    kept = _judged(request)
    was = "" if now.judged is None else str(now.judged)
    if form.get("seen") != now.seen or form.get("was", "") != was:
        raise ChangedMeanwhileError
    before = kept.get(now.seen)
    async with on_behalf(
        web.database,
        viewer,
        "memory_queries",
        "insert" if before is None else "update",
        user=question.user,
    ) as connection:
        if before is None:
            await in_organisation(connection, question.org)
            await connection.execute(RECALL, *question.arguments(now.side), by.embedding)
            logged: UUID | None = await connection.fetchval(LAST)
        else:
            logged = before[0]
        if logged is None:
            raise BadValueError("Nothing is remembered of this user, who has switched memory off.")
        try:
            await connection.execute(JUDGE, logged, useful)
        except asyncpg.NoDataFoundError:
            # What was judged has been erased, or swept, since.
            kept.pop(now.seen, None)
            raise ChangedMeanwhileError from None
    kept[now.seen] = (logged, useful)
    for oldest in list(kept)[:-MOST_KEPT]:
        del kept[oldest]


routes: list[Route] = [
    Route("/recall", asking),
    Route("/recall", judge, methods=["POST"]),
]
