"""Dreams: each one with what it read and concluded, and each insight with the memories it was drawn from and how it fared.

An end user has no dreams, which are the service's, but insights: the page shows that user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from daemon.web.errors import ChangedMeanwhileError, NotThereError
from daemon.web.forms import BadValueError, number_in, text_in, time_in, uuid_in
from daemon.web.lists import AT_ONCE, Conditions, next_page
from daemon.web.render import page
from daemon.web.viewer import Viewer, ids_found, on_behalf, reading
from daemon.web.web import viewer_of, web_of
from handlers.dream.dreamer import WINDOW_HOURS
from handlers.shared.ports import AnyConnection

CATEGORIES = ("correction", "pattern", "recommendation", "summary")
OF_A_DREAM = 200
"""Insights that the page of a dream shows."""
DREAMS = f"""
select d.id, d.started_by, d.status, d.started_at, d.finished_at, d.memories_scanned, d.clusters_found, d.insights_generated,
       d.insights_judged, d.insights_redrawn, d.links_faded, d.associations_pruned, d.started_at as created_at,
       extract(epoch from d.finished_at - d.started_at)::float8 as seconds
from public.dream_sessions d
where $1::timestamptz is null or (d.started_at, d.id) < ($1, $2::uuid)
order by d.started_at desc, d.id desc
limit {AT_ONCE + 1}
"""  # noqa: S608 - a constant of ours
ONE = """
select d.*, extract(epoch from d.finished_at - d.started_at)::float8 as seconds,
       d.started_at - make_interval(hours => $2) as read_from
from public.dream_sessions d
where d.id = $1
"""
# What a dream wrote or drew again was written while it ran: the index is by that time.
ITS_INSIGHTS = f"""
select i.id
from public.dream_insights i
where i.dream_id = $1 and i.generated_at >= $2 and i.generated_at <= coalesce($3, now())
order by i.confidence desc, i.id
limit {OF_A_DREAM + 1}
"""  # noqa: S608 - a constant of ours
OWN_INSIGHTS = f"""
select i.id
from public.dream_insights i
where i.dream_id = $1
order by i.confidence desc, i.id
limit {OF_A_DREAM + 1}
"""  # noqa: S608 - a constant of ours
INSIGHTS = """
select i.id, i.category, i.confidence, left(i.insight, 600) as insight, i.agent_id, i.user_id, i.generated_at, i.dream_id,
       cardinality(i.source_memories) as memories, i.resolved_at, i.stale, i.last_modified_human, i.accessed_count
from public.dream_insights i
join unnest($1::uuid[]) with ordinality as wanted(id, nth) on wanted.id = i.id
order by wanted.nth
"""
INSIGHT = """
select i.*, md5(i.insight) as version, i.evidence_until is distinct from i.judged_until as was_judged
from public.dream_insights i
where i.id = $1
"""
SOURCES = """
select wanted.id, m.kind, left(m.content, 600) as content, m.agent_id, m.created_at
from unnest($1::uuid[]) with ordinality as wanted(id, nth)
left join public.agent_memory m on m.id = wanted.id
order by wanted.nth
"""
ASK = "insert into public.memory_requests (kind) values ('dream') returning id"
ASKED = "select r.status, r.error, r.created_at from public.memory_requests r where r.id = $1 and r.kind = 'dream'"
FORGET = "delete from public.dream_insights i where i.id = $1 and md5(i.insight) = $2 returning i.id"


async def listing(request: Request) -> Response:
    """The dreams, the last one first; for an end user their insights."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    if viewer.user is not None:
        return await insights(request)
    before, at = _position(asked)
    wanted = uuid_in(asked, "request")
    async with reading(web.database, viewer) as connection:
        rows = await connection.fetch(DREAMS, before, at)
        request_of_dream = None if wanted is None else await connection.fetchrow(ASKED, wanted)
    waits = request_of_dream is not None and request_of_dream["status"] == "pending"
    return page(
        request,
        "dreams/list.html",
        rows=rows[:AT_ONCE],
        next_page=next_page(rows),
        asked_for=request_of_dream,
        live=waits or any(row["status"] == "running" for row in rows),
    )


def _position(asked: Mapping[str, str]) -> tuple[Any, UUID | None]:
    if "before" not in asked:
        return None, None
    time, _, row = asked["before"].partition(",")
    return time_in({"before": time}, "before"), uuid_in({"before": row}, "before")


async def insights(request: Request) -> Response:
    """All insights, the newest first, filtered."""
    web, viewer, asked = web_of(request), viewer_of(request), request.query_params
    async with reading(web.database, viewer) as connection:
        rows = await _found(connection, viewer, asked)
    return page(
        request,
        "dreams/insights.html",
        rows=rows[:AT_ONCE],
        next_page=next_page(rows, "generated_at"),
        asked=asked,
        categories=CATEGORIES,
    )


async def _found(connection: AnyConnection, viewer: Viewer, asked: Mapping[str, str]) -> list[Any]:
    query = Conditions()
    if (agent := text_in(asked, "agent", longest=200)) is not None:
        query.where("i.agent_id = {}", agent)
    if (user := uuid_in(asked, "user")) is not None:
        query.where("i.user_id = {}", user)
    if (category := text_in(asked, "category")) is not None:
        query.where("i.category = {}", category)
    if (least := number_in(asked, "confidence", 0.0, least=0, most=1)) > 0:
        query.where("i.confidence >= {}", least)
    before, at = _position(asked)
    if before is not None:
        query.where("(i.generated_at, i.id) < ({}, {})", before, at)
    ids = await ids_found(
        connection,
        viewer,
        f"select i.id from public.dream_insights i where {query} "  # noqa: S608 - conditions of ours, with values apart
        f"order by i.generated_at desc, i.id desc limit {AT_ONCE + 1}",
        *query.values,
    )
    found: list[Any] = await connection.fetch(INSIGHTS, ids)
    return found


async def one(request: Request) -> Response:
    """A dream with its insights. Of a dream an end user sees only that there are insights of theirs."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    async with reading(web.database, viewer) as connection:
        if viewer.user is None:
            dream = await connection.fetchrow(ONE, wanted, WINDOW_HOURS)
            if dream is None:
                raise NotThereError
            times = (dream["started_at"], dream["finished_at"])
            ids = await ids_found(connection, viewer, ITS_INSIGHTS, wanted, *times)
        else:
            dream = None
            ids = await ids_found(connection, viewer, OWN_INSIGHTS, wanted)
            if not ids:
                raise NotThereError
        rows = await connection.fetch(INSIGHTS, ids[:OF_A_DREAM])
    return page(request, "dreams/one.html", dream=dream, rows=rows, more=len(ids) > OF_A_DREAM)


async def insight(request: Request) -> Response:
    """An insight, whole."""
    return await _shown(request, status=200)


async def _shown(request: Request, *, status: int) -> Response:
    web, viewer = web_of(request), viewer_of(request)
    async with reading(web.database, viewer) as connection:
        row = await connection.fetchrow(INSIGHT, request.path_params["id"])
        if row is None:
            raise NotThereError
        sources = await connection.fetch(SOURCES, row["source_memories"][:AT_ONCE])
    return page(
        request,
        "dreams/insight.html",
        status=status,
        insight=row,
        sources=sources,
        left_out=max(0, len(row["source_memories"]) - AT_ONCE),
    )


async def ask(request: Request) -> Response:
    """Asks a daemon for a dream."""
    web, viewer = web_of(request), viewer_of(request)
    _must_edit(viewer)
    if viewer.user is not None:
        raise BadValueError("Dreams are the service's: an end user asks for none.")
    async with on_behalf(web.database, viewer, "memory_requests", "insert", user=None) as connection:
        made = await connection.fetchval(ASK)
    web.log.info("web_dream_asked", request_id=str(made))
    return RedirectResponse(f"/dreams?request={made}", status_code=303)


async def forget(request: Request) -> Response:
    """Forgets an insight, unless its text was changed since the form was made."""
    web, viewer = web_of(request), viewer_of(request)
    wanted: UUID = request.path_params["id"]
    _must_edit(viewer)
    if viewer.user is not None:
        raise BadValueError("An insight goes when the memories go that it was drawn from: forget those.")
    async with reading(web.database, viewer) as connection:
        row = await connection.fetchrow(INSIGHT, wanted)
    if row is None:
        raise NotThereError
    try:
        async with on_behalf(
            web.database, viewer, "dream_insights", "delete", user=row["user_id"]
        ) as connection:
            await _forgotten(connection, wanted, request.state.form.get("version", ""))
    except ChangedMeanwhileError:
        return await _shown(request, status=409)
    web.log.info("web_insight_forgotten", insight_id=str(wanted))
    return RedirectResponse(
        "/dreams/insights" if row["dream_id"] is None else f"/dreams/{row['dream_id']}", status_code=303
    )


async def _forgotten(connection: AnyConnection, insight: UUID, version: str) -> None:
    if await connection.fetchval(FORGET, insight, version) is None:
        raise ChangedMeanwhileError


def _must_edit(viewer: Viewer) -> None:
    if not viewer.edits:
        raise BadValueError(
            "These pages only show. Start memoryd web with --edit to change what is remembered."
        )


routes: list[Route] = [
    Route("/dreams", listing),
    Route("/dreams", ask, methods=["POST"]),
    Route("/dreams/insights", insights),
    Route("/dreams/insights/{id:uuid}", insight),
    Route("/dreams/insights/{id:uuid}", forget, methods=["POST"]),
    Route("/dreams/{id:uuid}", one),
]
